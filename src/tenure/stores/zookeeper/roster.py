"""Who stands in this process: the places, the sessions that they live by, and how each of them ends.

Rules of this file
1. What is done with a node is done by a task of its own, one at a time per place. A caller that is cancelled leaves the task
   running: a request that was sent cannot be called back, and only its answer tells what is there to be deleted. Callers
   share a task that has not begun, so they do not pile up where nothing answers. A claim that has begun is not shared: what
   it asked for may have been carried out before a later caller came, who would count from too late.
2. A place that nobody asks for within its ttl is given up, although its session lives on for others (rule 6 of the design).
   Whether its time is over is decided when nothing else is under way for it: a claim that waited for a connection may be
   granted meanwhile. If it were given up all the same, its node would be deleted while its holder believes in the grant.
3. A node that should be gone is deleted as soon as there is a connection, however often that takes: the session would keep
   it in the queue for ever.
4. After a connection broke, what was sent on it has either reached the leader before everything that is sent on the next
   one, or never will. On the same server the old connection is closed first; on another one the leader refuses what the
   old server still sends on (SessionMoved). So one look after ``sync`` on the new connection settles every doubt.
5. A place that is being left is not claimed for any more. Its bid gets another one once that is done.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from tenure.clients.zookeeper import Code, Fault, NotReached, SessionOver, Settings
from tenure.clients.zookeeper.wire import Stat, delete, exists
from tenure.clock import Clock
from tenure.errors import Refused
from tenure.model import Bid, Grant, Wait
from tenure.stores.register import Register
from tenure.stores.zookeeper.leases import Lease, Place, Turn
from tenure.stores.zookeeper.names import contenders, who
from tenure.stores.zookeeper.queue import look

T = TypeVar("T")

# Each is a session of the ensemble, and a connection: of these a server takes 60 from one host as shipped, for all stores
# of all its processes.
_LEASES_MAX: Final = 24
_IDLE_NS: Final = 30 * 10**9  # It costs a ping now and then, and who holds a lock again and again needs it again.
_CLOSE_WITHIN_S: Final = 2.0
_NEVER: Final = 2**63  # later than any instant


@asynccontextmanager
async def _turn(place: Place) -> AsyncGenerator[None, None]:
    """Wait for one's turn to do something with the place's node, in the order of coming."""
    turn = place.turn = place.turn or Turn()
    turn.user_count += 1
    try:
        async with turn.lock:
            yield
    finally:
        turn.user_count -= 1
        if not turn.user_count:
            place.turn = None


class Roster:
    """The places of one store. Used on one event loop."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self.tick_ms = 0
        self.places: Register[Place] = Register()
        self._leases: dict[int, Lease] = {}
        self._opening = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = 0  # when that is, if there is one
        self._closed = False

    def enter(self, bid: Bid) -> Place:
        place = Place(bid, self._settings.chroot, self._clock.now())
        self.places.enter(place)
        self._sweep_by(place.ends_at())
        return place

    async def stand(self, place: Place, claim: Callable[[Place], Awaitable[Grant | Wait]]) -> Grant | Wait:
        """Claim when nobody else does something with the place's node. Goes on to its end if the caller is cancelled."""

        async def in_turn() -> Grant | Wait:
            async with _turn(place):
                place.standing = None
                return await claim(place)

        if place.standing is None:
            place.standing = self._begin(in_turn())
        return await asyncio.shield(place.standing)

    async def part(self, place: Place) -> None:
        """Leave likewise."""
        place.leaving = True
        await asyncio.shield(self._parting(place))

    def _parting(self, place: Place) -> "asyncio.Task[None]":
        """Have a place left in its turn, if it is to be left then: because somebody said so, or because its time is over."""

        async def in_turn() -> None:
            try:
                async with _turn(place):
                    if place.leaving or self._is_due(place):
                        await self.leave(place)
            finally:
                place.parting = None

        if place.parting is None:
            place.parting = self._begin(in_turn())
        return place.parting

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # Whoever asked may be gone; then it is nobody's, and asyncio need not complain.

    async def lease_for(self, place: Place) -> Lease:
        """Return the session that the place lives by, opening one if there is none for its ttl."""
        if place.lease is not None and place.is_alive:
            return place.lease
        self._detach(place)
        ttl_ns = place.bid.ttl_ns
        async with self._opening:
            lease = self._leases.get(ttl_ns)
            if lease is None or lease.session.over is not None:
                lease = await self._open(ttl_ns)
        place.lease = lease
        lease.places.add(place)
        return lease

    async def _open(self, ttl_ns: int) -> Lease:
        self._leases.pop(ttl_ns, None)  # which is over
        if len(self._leases) >= _LEASES_MAX:
            self._end_idle(self._clock.now())
        if len(self._leases) >= _LEASES_MAX:
            detail = f"{_LEASES_MAX} different ttl are in use already, and each is a session: use fewer"
            raise Refused(self._settings.address, "claim", detail)
        lease = Lease(self._settings, ttl_ns, self.tick_ms, self._clock)
        if not self._closed:
            await lease.session.open()
        if self._closed:  # Perhaps while it was being opened: its nodes would stay for as long as this process runs.
            await lease.session.close()
            raise NotReached("the store is closed")
        if lease.session.timeout_ms < lease.asked_ms:
            await lease.session.close()
            detail = (
                f"a ttl of {ttl_ns / 1e9:g} s needs a session of {lease.asked_ms} ms and the server gives "
                f"{lease.session.timeout_ms}: use a shorter ttl, or raise maxSessionTimeout (20 x tickTime) there"
            )
            raise Refused(self._settings.address, "claim", detail)
        lease.session.on_link = lambda: self._linked_again(lease)
        self._leases[ttl_ns] = lease
        return lease

    def _detach(self, place: Place) -> None:
        """Take a place off a session that is over: its node is gone."""
        if place.lease is not None:
            place.lease.places.discard(place)
            if not place.lease.places:
                place.lease.idle_at = self._clock.now()
                self._sweep_by(place.lease.idle_at + _IDLE_NS)
            place.lease = None
        place.forget()

    def _end_idle(self, idle_by: int) -> None:
        """End sessions by which nobody has stood since ``idle_by``, and forget those that are over."""
        for ttl_ns, lease in list(self._leases.items()):
            if lease.session.over is not None or (not lease.places and lease.idle_at <= idle_by):
                del self._leases[ttl_ns]
                self._begin(lease.session.close())

    # Leaving

    async def leave(self, place: Place) -> None:
        """Delete whatever node there is, and forget the place. To be called in turn."""
        place.leaving = True
        with suppress(SessionOver):  # which has deleted it
            if place.in_doubt and place.lease is not None:
                await self.settle(place)
            if place.node and place.lease is not None:
                await self.remove(place, place.name)
        self._detach(place)
        self.places.forget(place)

    async def remove(self, place: Place, name: str) -> None:
        """Delete one node; one that is gone already is as good."""
        assert place.lease is not None
        try:
            await place.lease.session.ask(delete(f"{place.path}/{name}"))
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
        if name == place.name:
            place.forget()

    async def settle(self, place: Place) -> None:
        """Find out whether a create whose answer was lost has made a node, and take it for ours."""
        assert place.lease is not None
        session = place.lease.session
        mine = who(place.bid.holder)
        children = await look(session, place.path)
        for one in contenders(children):
            if (one.who, one.serial) == (mine, place.bid.serial) and not place.node:
                stat = await self._stat(place, one.name)
                if stat is not None and stat.ephemeral_owner == session.id:
                    place.node, place.czxid = f"{place.path}/{one.name}", stat.czxid
        place.in_doubt = False

    async def _stat(self, place: Place, name: str) -> Stat | None:
        assert place.lease is not None
        try:
            return await place.lease.session.ask(exists(f"{place.path}/{name}"))
        except Fault as fault:
            if fault.code == Code.NO_NODE:
                return None
            raise

    def give_up(self, place: Place) -> None:
        """Have a place left, and tell nobody how that went: it is tried again on the next connection."""
        place.leaving = True
        self._parting(place)

    def _linked_again(self, lease: Lease) -> None:
        for place in lease.places:
            place.armed = False  # The watches have gone with the old connection.
            if place.leaving:
                self.give_up(place)

    # Time

    def _sweep_by(self, instant: int) -> None:
        """Have places and sessions looked at not later than ``instant``."""
        if self._closed:
            return
        if self._sweep is not None:
            if self._sweep_at <= instant:
                return
            self._sweep.cancel()
        self._sweep_at = instant
        delay_s = max(0, instant - self._clock.now()) / 1e9
        self._sweep = asyncio.get_running_loop().call_later(delay_s, self._sweep_now)

    def _is_due(self, place: Place) -> bool:
        """Say whether nobody has asked for a place for as long as it lasts, and nobody is about to."""
        asked_for = place.watch_count > 0 or place.standing is not None
        return not asked_for and self._clock.now() >= place.ends_at()

    def _sweep_now(self) -> None:
        # Whatever goes wrong below, there is another sweep; nobody else would think of those that nobody asks for.
        again = asyncio.get_running_loop().call_later(_IDLE_NS / 1e9, self._sweep_now)
        self._sweep, self._sweep_at = again, _NEVER
        now = self._clock.now()
        ends: list[int] = []
        for place in self.places:
            if place.watch_count:
                place.heard_at = now
            elif now >= place.ends_at():
                self._parting(place)
                # If it cannot be left now, that is tried again in a ttl, or on the next connection.
                ends.append(now + place.bid.ttl_ns)
                continue
            ends.append(place.ends_at())
        self._end_idle(now - _IDLE_NS)
        idle = [lease.idle_at + _IDLE_NS for lease in self._leases.values() if not lease.places]
        if self._sweep is again:
            again.cancel()
            self._sweep = None
        if ends or idle:
            self._sweep_by(min(ends + idle))

    async def close(self) -> None:
        """End every session by which nobody leads. The others end by themselves: until then a body may still believe."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        leases = self._leases.values()
        led = [lease for lease in leases if any(place.grant is not None for place in lease.places)]
        for place in [place for lease in led for place in lease.places if place.grant is None]:
            self.give_up(place)
        if led and self._under_way:
            await asyncio.wait(self._under_way, timeout=_CLOSE_WITHIN_S)
        await asyncio.gather(*(lease.session.abandon() if lease in led else lease.session.close() for lease in leases))
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_CLOSE_WITHIN_S)
