"""Redlock: the same key on five servers that know nothing of each other, and who has it on three of them leads.

As its description says: the time that it took is taken off the lease, and a hundredth of it for clocks that drift. Its number is the
one of docs/adr/0019: the highest counter of those that said yes, written back to a majority before anybody leads.
"""

from typing import Any, Final

from tenure.lab.approaches.cast import HEARTBEAT_NS, SERVERS, TTL_NS
from tenure.lab.approaches.leasing import Leasing
from tenure.lab.approaches.redis import Delete, Extend, Raise, Reply, SetNx

MAJORITY: Final = len(SERVERS) // 2 + 1
# "CLOCK_DRIFT": a hundredth of the ttl and two milliseconds, in redlock-rb and in what was made after it.
VALID_NS: Final = TTL_NS - TTL_NS // 100 - 2_000_000
_GIVEN_UP: Final = -1  # instead of a token: an answer that comes now is to a question of before


class Redlock(Leasing):
    """One client of the five."""

    __slots__ = ("_refusals", "_sent_at", "_token", "_yes")

    def start(self, now: int) -> None:
        super().start(now)
        self._token = self._sent_at = self._refusals = 0
        self._yes: set[tuple[str, int]] = set()

    def _ask(self, now: int) -> None:
        self._yes.clear()
        self._sent_at = now
        if self.leading:
            self._tell(Extend(self._value, TTL_NS, now))
            self._ask_at = now + HEARTBEAT_NS
            return
        if self._serial and self._refusals < MAJORITY:
            self._tell(Delete(self._value))  # Some may have voted for it, and would be in everybody's way for a lease.
        self._refusals = 0
        self._serial += 1
        self._token = 0
        self._value = (self.number, self.life, self._serial)
        self._tell(SetNx(self._value, TTL_NS, self._seen, now))
        self._ask_at = self.soon(now)

    def hear(self, source: int, message: Any, now: int) -> None:
        if not isinstance(message, Reply):
            return
        asked = message.asked
        self._seen = max(self._seen, message.counter)
        if asked.value != self._value:
            return
        if isinstance(asked, SetNx):
            self._voted(source, message.ok, now)
        elif isinstance(asked, Raise):
            self._raised(source, asked, now)
        elif self.leading and asked.at == self._sent_at:
            self._extended(source, message.ok, now)
        self._set()

    def _voted(self, source: int, ok: bool, now: int) -> None:
        if not ok:
            self._refusals += 1
            if self._refusals == MAJORITY and self._yes:
                self._tell(Delete(self._value))  # It cannot win any more; another one may.
        elif self._refusals >= MAJORITY:
            self.send(source, Delete(self._value))
        elif not self._token and self._count("vote", source) >= MAJORITY and now < self._sent_at + VALID_NS:
            self._token = self._seen
            self._tell(Raise(self._value, self._token))

    def _raised(self, source: int, asked: Raise, now: int) -> None:
        if self.leading or asked.token != self._token:
            return
        if self._count("raised", source) >= MAJORITY and now < self._sent_at + VALID_NS:
            self._valid_until = self._sent_at + VALID_NS
            self._ask_at = now + HEARTBEAT_NS
            self.lead(self._token)

    def _extended(self, source: int, ok: bool, now: int) -> None:
        if self._count("extended" if ok else "gone", source) < MAJORITY:
            return
        if ok:
            self._valid_until = self._sent_at + VALID_NS
        else:
            self._leave("the key is gone on most", now)

    def _count(self, what: str, source: int) -> int:
        self._yes.add((what, source))
        return sum(kind == what for kind, _ in self._yes)

    def _leave(self, why: str, now: int) -> None:
        self.stop(why)
        self._tell(Delete(self._value))
        self._token = _GIVEN_UP
        self._ask_at = self.soon(now)

    def _tell(self, message: Any) -> None:
        for server in SERVERS:
            self.send(server, message)
