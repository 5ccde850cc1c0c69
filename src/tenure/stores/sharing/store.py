"""The store of places that share leases: how a place comes, is prolonged and goes. Runs on asyncio.

What the engine is asked for a place is the engine's own, and stands in the methods that its store must have.

Rules of this file
1. A larger serial of the same holder ends what its earlier bid got, before anything is asked for the new one.
2. One thing at a time is asked for a place, and is brought to its end, also if its caller does not wait for it.
3. A call ends in time for the shortest ttl that there is.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol

from tenure.clock import Clock
from tenure.errors import StoreError
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.stores.base import Group, Traits
from tenure.stores.groups import PlacedGroup
from tenure.stores.register import Register
from tenure.stores.sharing.leases import NEVER, L, P, SharedLeases
from tenure.stores.turns import Turns

# A standby asks again after at most two and a half ttl (``Timing.recheck_after_ns``); one that has not is no more.
_STANDBY_TTLS: Final = 3
# A call must be given up, and its server left, before the holder stops waiting for it: an attempt of ``Timing`` has a
# quarter of the ttl.
_CALLS_PER_TTL: Final = 5


class Timed(Protocol):
    """A client whose calls have a deadline."""

    call_timeout_s: float


class SharingStore(ABC, Generic[P, L]):
    """The part of such a store that is not its engine's. Used on one event loop."""

    _leases: SharedLeases[P, L]
    _over: type[StoreError]  # what says that a lease has ended
    _tries_max: int  # how often a claim begins again within one call: its lease was over, or others came between

    def __init__(self, client: Timed, clock: Clock) -> None:
        self._clock, self._timed = clock, client
        self._call_timeout_s = client.call_timeout_s
        self._places: Register[P] = Register()
        self._ttls: dict[int, int] = {}  # how many places have which ttl
        self._turns = Turns()

    # What is the engine's own

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What this engine promises."""

    @abstractmethod
    async def read(self, election: str) -> Incumbent | None:
        """Return who has the office."""

    @abstractmethod
    def _new_place(self, bid: Bid) -> P:
        """Return a place for ``bid``. Raises Refused if there can be none."""

    @abstractmethod
    async def _ask(self, place: P, lease: L, asked_at: int) -> Grant | Wait | None:
        """Ask for the office, with a renewal sent at ``asked_at`` or later. None: ask again."""

    @abstractmethod
    def _beaten(self) -> StoreError:
        """Return what to raise if every try was in vain."""

    @abstractmethod
    async def _look(self, lease: L, places: Sequence[P], asked_at: int) -> set[P]:
        """Renew a lease, and see which of these places are gone, both at ``asked_at`` or later."""

    @abstractmethod
    async def _proclaim(self, place: P, address: str) -> bool:
        """Write anew where a leader is. False: it leads no more."""

    @abstractmethod
    async def _withdraw(self, place: P, lease: L) -> None:
        """Take back what the engine has for a place."""

    @abstractmethod
    def _turn_of(self, place: P) -> Awaitable[None] | None:
        """Wait until claiming may help. None: it may now."""

    def _check_process(self) -> None:
        """Raise ConfigError if this process is a fork of the one that opened the store."""

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._check_process()
        asked_at = self._clock.now()
        while (answer := await self._claim(bid, asked_at)) is None:
            pass  # Its place was given up while it waited to use it.
        return answer

    async def _claim(self, bid: Bid, asked_at: int) -> Grant | Wait | None:
        while (place := self._places.find(bid)) is not None and place.bid.serial < bid.serial:
            await self._turns.alone(place, self._leave(place))
        if place is not None and place.bid.serial > bid.serial:
            return Wait(bid, await self.read(bid.election))
        if place is None:
            self._places.enter(place := self._new_place(bid))
            self._count(bid.ttl_ns, 1)
        return await self._turns.alone(place, self._stand(place, asked_at))

    async def _stand(self, place: P, asked_at: int) -> Grant | Wait | None:
        if not self._stands(place):
            return None
        # Also if this fails: it may come to stand, or to lead, without ever hearing of it, and goes on asking.
        place.due_at = asked_at + _STANDBY_TTLS * place.bid.ttl_ns
        for _ in range(self._tries_max):
            try:
                lease = place.lease or await self._leases.take(place)
                answer = await self._ask(place, lease, asked_at)
            except self._over:
                # What is asked on a lease that is over is refused, whenever it lands.
                if place.lease is not None:
                    self._leases.lose(place.lease)
                self._leases.detach(place, lingers=False)
                continue
            if answer is not None:
                ttls = 1 if place.leading else _STANDBY_TTLS
                place.due_at = self._clock.now() + ttls * place.bid.ttl_ns
                return answer
        raise self._beaten()

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        places = [self.place_of(grant) for grant in grants]
        gone = await self.keep([place for place in places if place is not None])
        return [
            grant if place is not None and place not in gone and place.holds(grant) else Ended(grant.bid, grant.token)
            for grant, place in zip(grants, places, strict=True)
        ]

    def group(self, within_ns: int) -> Group:  # noqa: ARG002  (it is one request)
        return PlacedGroup(self)

    async def keep(self, places: Sequence[P]) -> set[P]:
        """Renew the leases of these places, and return which of them are gone."""
        self._check_process()
        asked_at = self._clock.now()
        by_lease: dict[L, list[P]] = {}
        for place in places:
            if place.lease is not None:
                by_lease.setdefault(place.lease, []).append(place)
        gone = await asyncio.gather(*(self._keep(*lease, asked_at) for lease in by_lease.items()))
        return set().union(*gone, (place for place in places if place.lease is None))

    async def _keep(self, lease: L, places: list[P], asked_at: int) -> set[P]:
        """Renew a lease, and return which of these places are gone; they are over."""
        try:
            gone = await self._look(lease, places, asked_at)
        except self._over:
            gone = set(places)
        now, due_at = self._clock.now(), dict[int, int]()  # by ttl: one number for all who have the same
        for place in places:
            if place not in gone:
                place.due_at = due_at.setdefault(place.bid.ttl_ns, now + place.bid.ttl_ns)
            elif place.busy is None and place.lease is lease:  # Else a claim finds out by itself, and stands anew.
                self._forget(place, lingers=place.unsure)
        return gone

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check_process()
        place = self.place_of(grant)
        said = place is not None and await self._turns.alone(place, self._proclaim(place, address))
        return grant if said else Ended(grant.bid, grant.token)

    def resign_asked(self, grant: Grant) -> bool:
        place = self.place_of(grant)
        return place is not None and place.resign_asked

    # Leaving

    async def release(self, bid: Bid) -> None:
        self._check_process()
        place = self._places.find(bid)
        if place is not None and (place.bid is bid or place.bid == bid):
            leaving = self._turns.alone(place, self._leave(place))
            if place.busy is None:
                await leaving
            else:  # Also if its caller is cancelled while it waits for a claim to end: nobody would ask for it again.
                await asyncio.shield(self._turns.start(leaving))

    async def _leave(self, place: P) -> None:
        """Take back what there is, and forget the place."""
        if not self._stands(place):
            return  # Another release was before this one.
        place.leading = False  # A renewal that is answered meanwhile must not say that it leads.
        lingers = place.unsure or bool(place.token)
        try:
            if lingers and place.lease is not None and not place.lease.gone:
                await self._withdraw(place, place.lease)
                lingers = place.unsure
        finally:
            self._forget(place, lingers=lingers)

    async def _give_up(self, place: P) -> None:
        with suppress(StoreError):
            await self._turns.alone(place, self._leave_if_due(place))

    async def _leave_if_due(self, place: P) -> None:
        if place.due_at <= self._clock.now():  # A claim that this has waited for may have been granted.
            await self._leave(place)

    def _forget(self, place: P, *, lingers: bool) -> None:
        if self._places.forget(place):
            self._count(place.bid.ttl_ns, -1)
        self._leases.detach(place, lingers=lingers)
        place.due_at = NEVER
        if place.waiting is not None:
            place.waiting.cancel()

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        self._check_process()
        place = self._places.find(wait.bid)
        if place is None or place.bid != wait.bid:
            return
        turn = self._turn_of(place)
        if turn is None:
            return
        waiting = asyncio.ensure_future(turn)
        place.waiting = waiting
        try:
            await waiting
        except asyncio.CancelledError:
            waiting.cancel()
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Else the wait was ended and not the waiter: its place is gone.
        finally:
            if place.waiting is waiting:
                place.waiting = None

    # Who stands

    def _stands(self, place: P) -> bool:
        return self._places.find(place.bid) is place

    def place_of(self, grant: Grant) -> P | None:
        """Return the place that holds ``grant``."""
        place = self._places.find(grant.bid)
        return place if place is not None and place.holds(grant) else None

    def _count(self, ttl_ns: int, by: int) -> None:
        """Note that a place has come or gone, and have calls end in time for the shortest ttl that there is."""
        count = self._ttls.get(ttl_ns, 0) + by
        self._ttls[ttl_ns] = count
        if count > max(by, 0):
            return  # It is not the first that has this ttl, and was not the last.
        if not count:
            del self._ttls[ttl_ns]
        shortest_s = min(self._ttls, default=self.traits.ttl_max_ns) / 1e9
        self._timed.call_timeout_s = min(self._call_timeout_s, shortest_s / _CALLS_PER_TTL)
