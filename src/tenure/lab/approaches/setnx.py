"""SETNX with a ttl: who sets the key leads, prolongs it with every heartbeat, and stops when its own clock says that it is over.

The client does everything that it can: it dates the lease from the sending, compares its value before it deletes, takes a number
with the lock, and reads a clock that cannot be set. What is lost here is not lost to a careless client.
"""

from typing import Any, Final

from tenure.lab.approaches.cast import HEARTBEAT_NS, TTL_NS
from tenure.lab.approaches.leasing import Leasing
from tenure.lab.approaches.redis import PRIMARY, REPLICA, Delete, Extend, ReadOnly, Reply, SetNx

SILENT_AFTER: Final = 2  # questions without an answer, and a client asks the other server


class Setnx(Leasing):
    """One client of one Redis."""

    __slots__ = ("_target", "_unanswered")

    other = PRIMARY  # whom it asks when its server is silent: the same one

    def start(self, now: int) -> None:
        super().start(now)
        self._unanswered, self._target = 0, PRIMARY

    def _ask(self, now: int) -> None:
        self._unanswered += 1
        if self._unanswered > SILENT_AFTER:
            self._switch()
        if self.leading:
            self.send(self._target, Extend(self._value, TTL_NS, now))
            self._ask_at = now + HEARTBEAT_NS
        else:
            self._serial += 1
            self._value = (self.number, self.life, self._serial)
            self.send(self._target, SetNx(self._value, TTL_NS, self._seen, now))
            self._ask_at = self.soon(now)

    def hear(self, source: int, message: Any, now: int) -> None:
        if isinstance(message, ReadOnly):
            if source == self._target:
                self._switch()
            return
        if not isinstance(message, Reply):
            return
        asked, self._unanswered = message.asked, 0
        self._seen = max(self._seen, message.counter)
        if isinstance(asked, SetNx):
            self._answered(source, message, asked, now)
        elif isinstance(asked, Extend) and self.leading and asked.value == self._value:
            if message.ok:
                self._valid_until = max(self._valid_until, asked.at + TTL_NS)
            else:
                self._leave("the key is gone", now)
        self._set()

    def _answered(self, source: int, reply: Reply, asked: SetNx, now: int) -> None:
        if not reply.ok:
            return
        if self.leading or asked.value != self._value or now >= asked.at + TTL_NS:
            self.send(source, Delete(asked.value))  # An answer that came too late: nobody uses this lock.
            return
        self._valid_until = asked.at + TTL_NS
        self._ask_at = now + HEARTBEAT_NS
        self.lead(reply.counter)

    def _leave(self, why: str, now: int) -> None:
        self.stop(why)
        self.send(self._target, Delete(self._value))
        self._ask_at = self.soon(now)

    def _switch(self) -> None:
        self._unanswered = 0
        self._target = self.other if self._target == PRIMARY else PRIMARY


class SetnxReplica(Setnx):
    """One client of two: it asks the replica when the primary is silent, and whoever is not the primary says so."""

    __slots__ = ()

    other = REPLICA
