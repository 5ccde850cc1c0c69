"""What candidates ask of a Redis, and the Redis that answers: alone, or as a primary with a replica and a sentinel.

It is as Redis ships: no append-only file, so that a server that comes back has forgotten the last seconds, and expiry by the wall
clock (``gettimeofday``), which can be set. A replica gets what the primary wrote a moment ago; nobody waits for that.
"""

from typing import Any, Final, NamedTuple

from tenure.lab.approaches.cast import HEARTBEAT_NS, SERVERS
from tenure.lab.approaches.node import Steady
from tenure.lab.world import Node, World

PRIMARY, REPLICA, SENTINEL = SERVERS[:3]
PING_EVERY_NS: Final = 3 * HEARTBEAT_NS // 4
DOWN_AFTER_NS: Final = 3 * HEARTBEAT_NS // 2  # without an answer for so long, a primary is taken for dead


class SetNx(NamedTuple):
    """SET key value NX PX ttl, and INCR of the counter if it worked; ``seen``: the counter goes on above this."""

    value: tuple[int, int, int]
    ttl_ns: int
    seen: int
    at: int  # when it was sent, on the clock of who sent it; it comes back with the answer


class Extend(NamedTuple):
    """PEXPIRE key ttl, if the value is this one."""

    value: tuple[int, int, int]
    ttl_ns: int
    at: int


class Delete(NamedTuple):
    """DEL key, if the value is this one."""

    value: tuple[int, int, int]


class Raise(NamedTuple):
    """Raise the counter to ``token``: the second round of Redlock's tokens (docs/adr/0019)."""

    value: tuple[int, int, int]
    token: int


class Reply(NamedTuple):
    """The answer to all but a Delete. ``counter``: as it stands now."""

    asked: Any
    ok: bool
    counter: int


class ReadOnly(NamedTuple):
    """The answer of a replica."""


class Data(NamedTuple):
    """All that a Redis has in this world. ``value`` None: the key is not there."""

    value: tuple[int, int, int] | None = None
    expires_at: int = 0
    counter: int = 0


def serve(data: Data, asked: Any, now: int) -> tuple[Data, bool]:
    """Return what is there afterwards, and whether it worked."""
    held = data.value if data.value is not None and now < data.expires_at else None
    if isinstance(asked, SetNx):
        if held is None:
            return Data(asked.value, now + asked.ttl_ns, max(data.counter, asked.seen) + 1), True
    elif isinstance(asked, Raise):
        return data._replace(counter=max(data.counter, asked.token)), True
    elif held == asked.value:
        if isinstance(asked, Extend):
            return Data(held, now + asked.ttl_ns, data.counter), True
        return Data(None, 0, data.counter), True
    return data, False


class Redis(Node):
    """One server by itself. Its clock is the wall clock."""

    __slots__ = ("data",)

    def started(self) -> None:
        self.data = Data()

    def received(self, source: int, message: Any) -> None:
        self.answer(source, message)

    def answer(self, source: int, asked: Any) -> None:
        self.data, ok = serve(self.data, asked, self.clock())
        if ok and isinstance(asked, SetNx):
            self.world.note("granted", source, self.data.counter, f"server {'ABCDEFGHI'[self.number]}")
        if not isinstance(asked, Delete):  # Nobody waits for that.
            self.send(source, Reply(asked, ok, self.data.counter))


# What a sentinel says, and what it hears.


class Ping(NamedTuple):
    """Are you there?"""


class Pong(NamedTuple):
    """Yes, with the epoch of the order that I last obeyed."""

    epoch: int


class Role(NamedTuple):
    """Be the primary, or the replica, from now on."""

    primary: bool
    epoch: int


class Copy(NamedTuple):
    """What the primary has, on its way to the replica."""

    data: Data
    epoch: int


class Replicated(Redis):
    """One of two servers. Its role stands in its configuration, which survives; its data do not."""

    __slots__ = ()

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.disk = {"primary": number == PRIMARY, "epoch": 0}

    def received(self, source: int, message: Any) -> None:
        disk = self.disk
        if isinstance(message, Ping):
            self.send(source, Pong(disk["epoch"]))
        elif isinstance(message, Role):
            if message.epoch > disk["epoch"]:
                self.disk = {"primary": message.primary, "epoch": message.epoch}
                self.world.note("role", self.number, message.epoch, "primary" if message.primary else "replica")
                self._copy()
        elif isinstance(message, Copy):
            if not disk["primary"] and message.epoch >= disk["epoch"]:
                self.data = message.data
        elif disk["primary"]:
            self.answer(source, message)
            self._copy()
        else:
            self.send(source, ReadOnly())

    def _copy(self) -> None:
        if self.disk["primary"]:
            self.send(REPLICA if self.number == PRIMARY else PRIMARY, Copy(self.data, self.disk["epoch"]))


class Sentinel(Steady):
    """Promotes the replica when the primary does not answer, and demotes the old one when it is back."""

    __slots__ = ("_heard_at",)

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.disk = {"primary": PRIMARY, "epoch": 0}

    def started(self) -> None:
        self._heard_at = self.clock()
        self.woken()

    def woken(self) -> None:
        disk = self.disk
        if self.clock() - self._heard_at >= DOWN_AFTER_NS:
            other = REPLICA if disk["primary"] == PRIMARY else PRIMARY
            self.disk = disk = {"primary": other, "epoch": disk["epoch"] + 1}
            self._heard_at = self.clock()
            self.send(other, Role(True, disk["epoch"]))
        for server in (PRIMARY, REPLICA):
            self.send(server, Ping())
        self.wake_at(self.clock() + PING_EVERY_NS)

    def received(self, source: int, message: Any) -> None:
        if isinstance(message, Pong):
            is_primary = source == self.disk["primary"]
            if is_primary:
                self._heard_at = self.clock()
            if message.epoch < self.disk["epoch"]:
                self.send(source, Role(is_primary, self.disk["epoch"]))
