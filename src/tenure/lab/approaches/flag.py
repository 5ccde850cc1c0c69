"""A flag in a row of a database: ``UPDATE jobs SET leader = me WHERE leader IS NULL``, and back to NULL when the work is done.

The update is atomic, so that two never get it at once. But nobody takes it from one who died: there is no lease. The usual
repair is an hourly job, or a person, that clears a flag which has been there for too long. That is a lease after all, only that its
holder does not know of it.
"""

from typing import Any, NamedTuple

from tenure.lab.approaches.cast import HEARTBEAT_NS, SERVERS, TTL_NS
from tenure.lab.approaches.machines import Machine
from tenure.lab.world import NEVER, Node, World

DATABASE = SERVERS[0]
WORK_NS = TTL_NS // 2  # It leaves after the task in which this is over: within a lease.
CLEAR_AFTER_NS = 2 * TTL_NS  # twice as long as the work takes: nobody clears the flag of one who just works
CRON_EVERY_NS = TTL_NS // 2


class Take(NamedTuple):
    """UPDATE … SET leader = me, run = run + 1 WHERE leader IS NULL."""


class Clear(NamedTuple):
    """UPDATE … SET leader = NULL WHERE leader = me."""


class Taken(NamedTuple):
    """How many rows were updated: ``run`` is that of the row, or 0 if none was."""

    run: int


class Flag(Machine):
    """One worker: sets the flag, works for about as long as a lease would last, and clears it."""

    __slots__ = ("_enough_at",)

    def start(self, now: int) -> None:
        self._enough_at = NEVER
        self.wake_at = self.soon(now)

    def hear(self, source: int, message: Any, now: int) -> None:  # noqa: ARG002  (only the database answers)
        if isinstance(message, Taken) and message.run and not self.leading:
            self._enough_at = now + WORK_NS
            self.wake_at = NEVER
            self.lead(message.run)

    def tick(self, now: int) -> None:
        self.send(DATABASE, Take())
        self.wake_at = self.soon(now)

    def worked(self, now: int) -> None:
        if now >= self._enough_at:
            self._leave("has done its work", now)

    def refused(self, now: int) -> None:
        self._leave("refused by the sink", now)

    def _leave(self, why: str, now: int) -> None:
        self.stop(why)
        self.send(DATABASE, Clear())
        self.wake_at = now + HEARTBEAT_NS + int(self.lot() * HEARTBEAT_NS)


class Database(Node):
    """The row, and the job that clears it if there is one. It is durable: a database that forgets a commit is another subject."""

    __slots__ = ("_clear_after_ns",)

    def __init__(self, world: World, number: int, clear_after_ns: int | None) -> None:
        super().__init__(world, number)
        self._clear_after_ns = clear_after_ns
        self.disk = {"leader": None, "run": 0, "since": 0}

    def started(self) -> None:
        if self._clear_after_ns is not None:
            self.wake_at(self.clock() + CRON_EVERY_NS)

    def received(self, source: int, message: Any) -> None:
        row = self.disk
        if isinstance(message, Take):
            free = row["leader"] is None
            if free:
                self.disk = row = {"leader": source, "run": row["run"] + 1, "since": self.clock()}
                self.world.note("granted", source, row["run"], "the row")
            self.send(source, Taken(row["run"] if free else 0))
        elif isinstance(message, Clear) and row["leader"] == source:
            row["leader"] = None

    def woken(self) -> None:
        row = self.disk
        assert self._clear_after_ns is not None, "nobody else sets an alarm"
        if row["leader"] is not None and self.clock() - row["since"] >= self._clear_after_ns:
            self.world.note("cleared", row["leader"], row["run"], "the flag was there for too long")
            row["leader"] = None
        self.wake_at(self.clock() + CRON_EVERY_NS)
