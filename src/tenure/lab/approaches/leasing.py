"""What every client of a lock with a ttl does alike, on one Redis or on five: it asks, works while its lease lasts, and leaves."""

from tenure.lab.approaches.machines import Machine
from tenure.lab.world import NEVER


class Leasing(Machine):
    """A client whose lease is over when its own clock says so."""

    __slots__ = ("_ask_at", "_seen", "_serial", "_valid_until", "_value")

    def start(self, now: int) -> None:
        self._value = (self.number, self.life, 0)
        self._serial = self._seen = 0
        self._valid_until = NEVER
        self.wake_at = self._ask_at = self.soon(now)

    def may_work(self, now: int) -> bool:
        return self.leading and now < self._valid_until

    def tick(self, now: int) -> None:
        if self.leading and now >= self._valid_until:
            self._leave("its lease is over", now)
        elif now >= self._ask_at:
            self._ask(now)
        self._set()

    def refused(self, now: int) -> None:
        self._leave("refused by the sink", now)
        self._set()

    def _ask(self, now: int) -> None:
        """Ask for the lock, or for more time."""
        raise NotImplementedError

    def _leave(self, why: str, now: int) -> None:
        """Work no more, and give back what there is."""
        raise NotImplementedError

    def _set(self) -> None:
        self.wake_at = min(self._ask_at, self._valid_until) if self.leading else self._ask_at
