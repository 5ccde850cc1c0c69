"""The store: the methods of ``stores/base`` as transactions of Consul. Runs on asyncio.

It promises what the servers promise: an index is given out once, in one order, by consensus. Every write of ours names the
index that it expects, so one that arrives late, after somebody else has written, does nothing.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Final, Self

from tenure.clients.consul.client import ConsulClient
from tenure.clock import BootClock, Clock
from tenure.errors import Refused, StoreError, Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Incumbent, Wait
from tenure.stores.base import ElectionStatus, Traits
from tenure.stores.consul.agent import lock_delay_ns, met, traits_of
from tenure.stores.consul.candidacy import Candidacy
from tenure.stores.consul.examine import examine
from tenure.stores.consul.layout import check_lock, incumbent_of, key_of
from tenure.stores.consul.roll import leave
from tenure.stores.consul.sessions import NEVER, Place, Session, SessionGone, Sessions
from tenure.stores.consul.survey import leave_a_word, list_elections
from tenure.stores.consul.waits import Waits
from tenure.stores.entry import entry_of
from tenure.stores.examining import Finding
from tenure.stores.turns import Turns

# A standby asks again after at most two and a half ttl (``Timing.recheck_after_ns``); one that has not is no more.
_STANDBY_TTLS: Final = 3
# How often a claim begins again within one call: its session was over, or others came between. Where forty of one process
# come at once for a new key, each meets three: who made the key, who took it, and who was next.
_TRIES_MAX: Final = 6
# A call must be given up, and its server left, before the holder stops waiting for it: an attempt of ``Timing`` has a
# quarter of the ttl.
_CALLS_PER_TTL: Final = 5


class ConsulStore:
    """Elections in Consul: ``async with ConsulStore(client) as store``."""

    def __init__(self, client: ConsulClient, *, clock: Clock | None = None) -> None:
        self._client, self._settings = client, client.settings
        self._clock = BootClock() if clock is None else clock
        self._sessions = Sessions(client, self._clock, self._give_up, self._leave_again)
        self._waits = Waits(client)
        self._candidacy = Candidacy(client, self._sessions, self._waits)
        self._places: dict[tuple[str, Holder], Place] = {}
        self._ttls: Counter[int] = Counter()  # how many places have which ttl
        self._call_timeout_s = client.call_timeout_s
        self._turns = Turns()
        self._traits: Traits | None = None
        self._identity: str | Refused = ""
        self._shortest_ns: int | None = None  # the shortest session; None: we may make none, as far as is known

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as unless_it_answers:
            await unless_it_answers.enter_async_context(self._client)
            self._shortest_ns, self._identity = await met(self._client)
            self._traits = traits_of(self._shortest_ns, self._settings.lock_delay_ns)
            unless_it_answers.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self._client.__aexit__, kind, error, traceback)
            closing.push_async_callback(self._waits.close)
            closing.push_async_callback(self._sessions.close)
            await self._turns.all_ended()

    @property
    def traits(self) -> Traits:
        if self._traits is None:
            raise Unreachable(self.address, "traits", "the store is not open: use async with")
        return self._traits

    @property
    def address(self) -> str:
        return self._client.address

    @property
    def identity(self) -> str:
        """A random name in a key of its own, made by whoever came first: Consul has none. Known once it is open.

        It belongs to the prefix, as elections do. If somebody deletes the key, stores that are opened afterwards make a new
        one, and with it new fences, which know of no older token: delete it only while nobody leads.
        """
        if isinstance(self._identity, Refused):
            raise self._identity
        return f"consul/{self._identity}"

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        asked_at, traits = self._clock.now(), self.traits
        key = self._key(bid.election, "claim")
        # Whoever was not told what is possible, because it had no right to, had better hear that than a guess.
        if not (self._shortest_ns or 0) <= bid.ttl_ns <= traits.ttl_max_ns:
            shortest_s, longest_s = traits.ttl_min_ns / 1e9, traits.ttl_max_ns / 1e9
            rule = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between {shortest_s:g} s and {longest_s:g} s"
            raise Refused(self.address, "claim", f"{rule}: use another, or set session_ttl_min of the servers")
        while (answer := await self._claim(bid, key, asked_at)) is None:
            pass  # Its place was given up while it waited to use it.
        return answer

    async def _claim(self, bid: Bid, key: str, asked_at: int) -> Grant | Wait | None:
        who = bid.election, bid.holder
        while (place := self._places.get(who)) is not None and place.bid.serial < bid.serial:
            await self._turns.alone(place, self._leave(place))
        if place is not None and place.bid.serial > bid.serial:
            return Wait(bid, await self.read(bid.election))
        if place is None:
            delay_ns = lock_delay_ns(self._settings.lock_delay_ns, fenced=bid.fenced)
            place = self._places[who] = Place(bid, key, entry_of(bid), delay_ns)
            self._count(bid.ttl_ns, 1)
        return await self._turns.alone(place, self._stand(place, asked_at))

    async def _stand(self, place: Place, asked_at: int) -> Grant | Wait | None:
        if not self._stands(place):
            return None
        # Also if this fails: it may come to lead without ever hearing of it, and goes on asking.
        place.due_at = asked_at + _STANDBY_TTLS * place.bid.ttl_ns
        for _ in range(_TRIES_MAX):
            try:
                session = place.session or await self._sessions.take(place)
                answer = await self._candidacy.ask(place, session, asked_at)
            except SessionGone:
                # A lock by a session that is over is refused, whenever it lands.
                self._sessions.detach(place, lingers=False)
                place.token, place.guard = 0, None
                continue
            if answer is not None:
                ttls = 1 if place.leading else _STANDBY_TTLS
                place.due_at = self._clock.now() + ttls * place.bid.ttl_ns
                return answer
        raise Unreachable(self.address, "claim", f"others came between {_TRIES_MAX} times: claim again")

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        asked_at = self._clock.now()
        places = [self._held(grant) for grant in grants]
        by_session: dict[Session, list[Place]] = {}
        for place in places:
            if place is not None and place.session is not None:
                by_session.setdefault(place.session, []).append(place)
        kept: set[Place] = set()
        for answer in await asyncio.gather(*(self._keep(*session, asked_at) for session in by_session.items())):
            kept |= answer
        return [
            grant if place in kept and self._held(grant) is place else Ended(grant.bid, grant.token)
            for grant, place in zip(grants, places, strict=True)
        ]

    async def _keep(self, session: Session, places: list[Place], asked_at: int) -> set[Place]:
        """Renew a session, and return which of these places still have their key; the others are over."""
        try:
            present = await self._candidacy.look(session, places, asked_at)
        except SessionGone:
            present = set()
        for place in places:
            if place in present:
                place.due_at = self._clock.now() + place.bid.ttl_ns
            elif place.busy is None and place.session is session:  # Else a claim finds out by itself, and stands anew.
                self._forget(place, lingers=False)
        return present

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        place = self._held(grant)
        said = place is not None and await self._turns.alone(place, self._candidacy.proclaim(place, address))
        return grant if said else Ended(grant.bid, grant.token)

    def _stands(self, place: Place) -> bool:
        return self._places.get((place.bid.election, place.bid.holder)) is place

    def _held(self, grant: Grant) -> Place | None:
        place = self._places.get((grant.bid.election, grant.bid.holder))
        held = place is not None and place.bid == grant.bid and place.leading and place.token == grant.token
        return place if held else None

    async def release(self, bid: Bid) -> None:
        place = self._places.get((bid.election, bid.holder))
        if place is not None and place.bid == bid:
            # Also if its caller is cancelled while it waits for a claim to end: nobody would ask for it again.
            await asyncio.shield(self._turns.start(self._turns.alone(place, self._leave(place))))

    async def _leave(self, place: Place) -> None:
        """Unlock the key and forget the place. If that is not answered, whoever looks after the session goes on with it."""
        if not self._stands(place):
            return  # Another release was before this one.
        place.leading = False  # A renewal that is answered meanwhile must not say that it leads.
        session = place.session
        lingers = session is not None and (bool(place.token) or place.guard is not None)
        try:
            if lingers and session is not None and not session.gone:
                await leave(self._client, session, place)
                lingers = False
        finally:
            self._forget(place, lingers=lingers)

    async def _leave_again(self, session: Session, place: Place) -> None:
        place.token = 0  # Whether it still has the key is not known.
        await leave(self._client, session, place)

    async def _give_up(self, place: Place) -> None:
        with suppress(StoreError):
            await self._turns.alone(place, self._leave_if_due(place))

    async def _leave_if_due(self, place: Place) -> None:
        if place.due_at <= self._clock.now():  # A claim that this has waited for may have been granted.
            await self._leave(place)

    def _forget(self, place: Place, *, lingers: bool) -> None:
        if self._stands(place):
            del self._places[place.bid.election, place.bid.holder]
            self._count(place.bid.ttl_ns, -1)
        self._sessions.detach(place, lingers=lingers)
        place.due_at = NEVER
        if place.waiting is not None:
            place.waiting.cancel()

    def _count(self, ttl_ns: int, by: int) -> None:
        """Note that a place has come or gone, and have calls end in time for the shortest ttl that there is."""
        self._ttls[ttl_ns] += by
        if not self._ttls[ttl_ns]:
            del self._ttls[ttl_ns]
        shortest_s = min(self._ttls, default=self.traits.ttl_max_ns) / 1e9
        self._client.call_timeout_s = min(self._call_timeout_s, shortest_s / _CALLS_PER_TTL)

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        place = self._places.get((wait.bid.election, wait.bid.holder))
        if place is None or place.bid != wait.bid or place.token:
            return
        waiting = asyncio.ensure_future(self._candidacy.wait(place))
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

    async def read(self, election: str) -> Incumbent | None:
        pair = await self._client.get(self._key(election, "read"), operation="read")
        check_lock(pair, self.address, "read")
        return incumbent_of(election, pair)

    def _key(self, election: str, operation: str) -> str:
        return key_of(self._settings.prefix, election, self.address, operation)

    async def elections(self) -> list[ElectionStatus]:
        return await list_elections(self._client)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        return await leave_a_word(self._client, self._key(election, "ask to resign"), election)

    def resign_asked(self, grant: Grant) -> bool:
        place = self._held(grant)
        return place is not None and place.resign_asked

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._client, ttl_ns)
