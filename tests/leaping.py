"""A clock that leaps ahead when it is told to, as it does over a pause of the whole process."""

from tenure.clock import BootClock


class LeapingClock(BootClock):
    """The machine's clock, and whatever it is told to leap ahead."""

    __slots__ = ("ahead_ns",)

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ns = 0

    def now(self) -> int:
        return super().now() + self.ahead_ns
