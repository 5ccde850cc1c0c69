"""Sessions as leases: one for all elections with the same ttl, and the places that are kept by it.

How long a session must be. A grant counts a full ttl from the moment when the engine carries it out (promise 2), but a
request does not prolong its session then: a follower notes that it has heard of a client and tells its leader with the
leader's next ping, every half tick. If it is cut off before that, the leader counts from what it was told before. So the
session is longer than the ttl by two ticks, and the client says a word at least twice a tick:
- what was said up to half a tick before the cut has reached the leader, and something was said in the tick before that.
  That leaves half a tick for messages on their way;
- a leader that stands still for less than a ttl (for longer, and nobody believes in its answers) hears of us with its
  first ping after that, before the session ends.
A client that itself was silent for longer, because its process stood still, says a word, waits for a tick, and only then
asks for what it will believe in.

Why a write proves a tenure and ``sync`` does not. The leader checks the session of every request that a follower sends on,
but for ``sync`` the result of that check goes nowhere (PrepRequestProcessor and LearnerSyncRequest in 3.8 and 3.9). And a
leader that was cut off from its quorum answers ``sync`` until it notices, while its successor may have begun to count. A
multi that only checks is a transaction of the quorum that changes nothing: it is refused if the session is over, and no
leader that has been succeeded can have it carried out.

Only who takes over from another may do with ``sync``, which takes half the time. The deletion that it was waiting for was
such a transaction: if it was decided in the last two ticks, any successor of that leader counts from later than that, and
the session has two ticks more than the ttl. When it was decided is not when we heard of it, for two reasons:
- a process that stood still finds the news in its socket. But the server told of it after it answered what came before, so
  it is dated by the sending of that, which must be less than a tick ago;
- a leader that stood still finds in its sockets that its followers agreed, before they left it for another one. It tells of
  the deletion as it wakes up, however late, and answers ``sync`` until it notices that it is alone. So the server must have
  been seen to run, without a gap of a tick, since two ticks before it told.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from tenure.clients.zookeeper import Event, Fault, LinkLost, Session, Settings
from tenure.clients.zookeeper.wire import check, multi, sync
from tenure.clock import Clock
from tenure.model import Bid, Grant, Wait

SLACK_TICKS: Final = 2
# A server that does not answer is left soon enough for an attempt of ``Timing``, a quarter of the ttl, to reach another
# one; but not for a disk that was slow once.
_PATIENCES_PER_TTL: Final = 5
_PATIENCE_MIN_S: Final = 1.0
_PINGS_PER_TICK: Final = 2  # so that a server that stands still for a tick is noticed (Session.has_run_for)
# Two before the deletion was told of, and that may be one ago.
_SEEN_TICKS: Final = 3


@dataclass(eq=False, slots=True)
class Place:
    """One bid's place in the queue of one election, and what is known of its node."""

    bid: Bid
    chroot: str
    heard_at: int
    lease: "Lease | None" = None
    node: str = ""  # its path; empty: there is none
    czxid: int = 0
    in_doubt: bool = False  # a node may be there of which we have not heard
    leaving: bool = False
    grant: Grant | None = None  # what it was granted, while that lasts
    armed: bool = False  # an event would tell us if the node were deleted or changed
    has_news: bool = False  # there was one since the node was last read
    resign_asked: bool = False
    before: str = ""  # the name of the node that it waits for
    succeeds_at: int = 0  # not later than that was told to be deleted
    watch_count: int = 0
    turn: "Turn | None" = None  # of those who do something with the node, while there are any
    standing: "asyncio.Task[Grant | Wait] | None" = None  # a claim that waits for its turn
    parting: "asyncio.Task[None] | None" = None  # who leaves, or waits for its turn to

    # Both are made anew whenever they are asked for: there may be ten thousand places, most of which only lead.
    @property
    def path(self) -> str:
        """The path of the election."""
        return f"{self.chroot}/{self.bid.election}"

    @property
    def name(self) -> str:
        """The name of the node; empty: there is none."""
        return self.node.rpartition("/")[2]

    def forget(self) -> None:
        """Note that there is no node."""
        self.node, self.czxid, self.before = "", 0, ""
        self.grant, self.in_doubt, self.armed, self.resign_asked = None, False, False, False

    def holds(self, grant: Grant) -> bool:
        """Say whether ``grant`` is what this place has."""
        return not self.leaving and (self.grant is grant or self.grant == grant)

    @property
    def is_alive(self) -> bool:
        """Whether it lives by a session that is not over."""
        return self.lease is not None and self.lease.session.over is None

    def ends_at(self) -> int:
        """Return when it is given up if nobody asks for it any more."""
        return self.heard_at + self.bid.ttl_ns

    def __call__(self, event: Event) -> None:
        """Hear of the node, as its watcher: it was deleted or changed, or nobody will tell of it any more."""
        self.armed, self.has_news = False, True
        if event is Event.DELETED:
            self.forget()


class Turn:
    """One after the other at one place, and how many of them there are."""

    __slots__ = ("lock", "user_count")

    def __init__(self) -> None:
        self.lock, self.user_count = asyncio.Lock(), 0


class Lease:
    """One session and the places that live by it."""

    def __init__(self, settings: Settings, ttl_ns: int, tick_ms: int, clock: Clock) -> None:
        self._tick_ns, self._clock = tick_ms * 10**6, clock
        self.places: set[Place] = set()
        self.idle_at = clock.now()  # since when there may have been none
        patience_s = max(_PATIENCE_MIN_S, ttl_ns / 1e9 / _PATIENCES_PER_TTL)
        timeout_ms = -(-ttl_ns // 10**6) + SLACK_TICKS * tick_ms
        ping_every_s = tick_ms / 1000 / _PINGS_PER_TICK
        self.session = Session(settings, timeout_ms, clock, patience_s=patience_s, ping_every_s=ping_every_s)
        self.asked_ms = timeout_ms

    async def steady(self) -> None:
        """Return once what is sent next counts a full ttl: at once, unless nothing was heard for a tick."""
        while not self.session.heard_within(self._tick_ns):
            await self.session.ask(sync("/"))
            asleep_at = self._clock.now()
            await asyncio.sleep(self._tick_ns / 1e9)
            # Unless the process stood still again. That answers take longer than a tick is no reason to go on.
            if self._clock.now() - asleep_at <= 2 * self._tick_ns:
                return

    def prove(self, node: str) -> "asyncio.Future[list[Any] | Fault | LinkLost]":
        """Have the quorum confirm the session and ``node``."""
        return self.session.send(multi(check(node)))

    def prove_successor(self, place: Place) -> "asyncio.Future[Any]":
        """Do the same for one that may have come into office: the children that are listed next tell of the node."""
        told_lately = self._clock.now() - place.succeeds_at <= self._tick_ns
        if told_lately and self.session.has_run_for(_SEEN_TICKS * self._tick_ns):
            return self.session.send(sync(place.path))
        return self.prove(place.node)
