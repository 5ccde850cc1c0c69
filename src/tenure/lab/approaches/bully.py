"""The bully algorithm (Garcia-Molina, 1982): of all that answer, the one with the highest number leads.

It assumes that messages arrive within a known time and that who does not answer is dead. A partition breaks the second
assumption: each side takes the other for dead, and each has a leader.
"""

from typing import Any, NamedTuple

from tenure.lab.approaches.cast import CANDIDATES, HEARTBEAT_NS, TTL_NS
from tenure.lab.approaches.machines import Machine
from tenure.lab.world import NEVER


class Elect(NamedTuple):
    """Somebody with a lower number wants to lead."""


class Alive(NamedTuple):
    """The answer of one with a higher number: leave it to me."""


class Coordinator(NamedTuple):
    """Whoever sends this leads; sent again with every heartbeat."""


class Bully(Machine):
    """One process. It knows the numbers of all, and nothing of a majority."""

    __slots__ = ("_answer_by", "_leader_by")

    def start(self, now: int) -> None:
        self._leader_by = self._answer_by = NEVER
        self._elect(now)

    def _elect(self, now: int) -> None:
        higher = [other for other in CANDIDATES if other > self.number]
        for other in higher:
            self.send(other, Elect())
        self._leader_by = NEVER
        self._answer_by = now + HEARTBEAT_NS if higher else now
        if not higher:
            self._take(now)
        self._set()

    def _take(self, now: int) -> None:
        self._answer_by = NEVER
        if not self.leading:
            self.lead()
        self._announce(now)

    def _announce(self, now: int) -> None:
        for other in CANDIDATES:
            if other < self.number:
                self.send(other, Coordinator())
        self._leader_by = now + HEARTBEAT_NS  # The next announcement; for all others, when they take it for dead.

    def hear(self, source: int, message: Any, now: int) -> None:
        if isinstance(message, Elect):
            self.send(source, Alive())
            if not self.leading and self._answer_by == NEVER:
                self._elect(now)
        elif isinstance(message, Alive):
            if self._answer_by < NEVER:
                self._answer_by, self._leader_by = NEVER, now + TTL_NS  # It should lead soon.
        elif source > self.number:
            self.stop("one with a higher number leads")
            self._answer_by, self._leader_by = NEVER, now + TTL_NS
        self._set()

    def tick(self, now: int) -> None:
        if now >= self._answer_by:
            self._take(now)
        elif now >= self._leader_by:
            if self.leading:
                self._announce(now)
            else:
                self._elect(now)
        self._set()

    def refused(self, now: int) -> None:
        """Somebody else leads: find out who should."""
        self.stop("refused by the sink")
        self._elect(now)

    def _set(self) -> None:
        self.wake_at = min(self._answer_by, self._leader_by)
