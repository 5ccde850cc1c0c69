"""The clock of one simulated process: true time bent by a rate, and by standing still where it must not."""

_MILLION = 1_000_000


class SimClock:
    """Local nanoseconds as a function of true nanoseconds, within the declared drift and counting suspend (rule 2)."""

    __slots__ = ("_local", "_ppm", "_since")

    def __init__(self, local: int, ppm: int) -> None:
        self._since, self._local, self._ppm = 0, local, ppm

    def now(self, true: int) -> int:
        """Return what this clock shows at a true instant."""
        elapsed = true - self._since
        return self._local if elapsed <= 0 else self._local + elapsed + elapsed * self._ppm // _MILLION

    def true_at(self, local: int) -> int:
        """Return the first true instant at which this clock shows ``local`` or more."""
        missing = local - self._local
        if missing <= 0:
            return self._since
        elapsed = missing * _MILLION // (_MILLION + self._ppm)
        while elapsed + elapsed * self._ppm // _MILLION < missing:
            elapsed += 1
        return self._since + elapsed

    def set_rate(self, true: int, ppm: int) -> None:
        """Run at another rate from now on."""
        self._local, self._since, self._ppm = self.now(true), true, ppm

    def stand_still(self, since: int, until: int) -> None:
        """Show one and the same time between two true instants. No clock that keeps rule 2 does this by itself."""
        self._local, self._since = self.now(since), until

    def suspended(self, since: int, until: int) -> None:
        """The machine slept. A clock that counts suspend has nothing to do."""

    def wall_stepped(self, true: int, step_ns: int) -> None:
        """The wall clock was set. A clock that leases may be judged by has nothing to do with it."""
