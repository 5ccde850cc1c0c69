"""The sessions of one store, each shared by many places, and what keeps them alive.

Rules of this file
1. A place counts a full ttl from a renewal that was sent after it asked (rule 1): an answer to an earlier one is not
   for it.
2. A session lives on for as long as one of its places does. So a place that its holder no longer prolongs is given up by
   unlocking its key, at the moment when a session of its own might have ended (rule 6).
3. Two candidates of one election never share a session: the engine would take the second for the first, and let it in.
4. A lock that was given up unanswered may reach the engine at any later time, and would hold the key for as long as
   others keep the session alive. So whoever leaves makes sure that it cannot land any more (``roll.leave``), again and
   again until that is answered, and until then nobody else stands for that election by this session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.clients.consul.client import ConsulClient
from tenure.clock import Clock
from tenure.errors import Refused, StoreError
from tenure.model import Bid
from tenure.stores.entry import Entry

NEVER: Final = 2**63
# A session is looked after six times in its ttl, and renewed if nobody has for a third of it: three tries before it ends.
_LOOKS_PER_TTL: Final = 6
_RENEW_PER_TTL: Final = 3
# The keeper sleeps no shorter than this, whatever is due.
_PAUSE_MIN_NS: Final = 50 * 10**6


class SessionGone(Refused):
    """Definite: the session has ended, and holds nothing any more."""

    what = "found its session gone"


@dataclass(slots=True, eq=False)
class Place:
    """One bid's way to the office of its election."""

    bid: Bid
    key: str
    entry: Entry
    lock_delay_ns: int
    session: "Session | None" = None
    token: int = 0  # the index of the write that took the key; 0: it has not got it, as far as is known
    index: int = 0  # the index of the key when it was last seen in our hands
    guard: int | None = None  # the index that a lock without an answer was to find there, and may still find
    floor: int = (
        0  # what was the largest token here when that lock was sent: its own is larger, unless the engine went back
    )
    free_at: int | None = None  # the index at which the key was just seen in nobody's hands
    wait_from: int = 1  # the index to wait from
    delayed: bool = False  # the engine keeps the key empty for a while (lock-delay)
    leading: bool = False
    resign_asked: bool = False
    due_at: int = NEVER  # when it is given up unless its holder asks again
    busy: "asyncio.Task[Any] | None" = None  # the request that is under way
    waiting: "asyncio.Future[None] | None" = None  # who waits for the key


@dataclass(slots=True, eq=False)
class Session:
    """One session at the engine."""

    name: str
    ttl_ns: int
    sent_at: int  # when the last renewal was sent that was answered
    gone: bool = False
    places: dict[str, Place] = field(default_factory=dict)
    lingering: dict[str, Place] = field(default_factory=dict)  # those that left, and may still have a lock on its way
    renewing: "asyncio.Task[None] | None" = None
    keeper: "asyncio.Task[None] | None" = None


class Sessions:
    """Every session of one store. Used on one event loop."""

    def __init__(
        self,
        client: ConsulClient,
        clock: Clock,
        give_up: Callable[[Place], Awaitable[None]],
        leave: Callable[[Session, Place], Awaitable[None]],
    ) -> None:
        self._client, self._clock, self._give_up, self._leave = client, clock, give_up, leave
        self._alike: dict[tuple[int, int], list[Session]] = {}
        self._creating: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, place: Place) -> Session:
        """Return a session for this place, and attach it."""
        kind = place.bid.ttl_ns, place.lock_delay_ns
        # Looked for anew after every wait, and attached in the same turn of the event loop (rule 3). Whoever had a session
        # made is one of several that wake when it is there, and another candidate of its election may wake before it.
        while (session := self._one_of(kind, place)) is None:
            creating = self._creating.get(kind)
            if creating is None or creating.done():
                # A thousand elections that begin together share one session, and one failure if it comes to that.
                creating = self._creating[kind] = self._start(self._create(kind, place))
            await asyncio.shield(creating)
        self._attach(session, place)
        return session

    async def _create(self, kind: tuple[int, int], place: Place) -> None:
        ttl_ns, delay_ns = kind
        sent_at = self._clock.now()
        name = await self._client.create_session(f"tenure {place.bid.holder}", ttl_ns, delay_ns)
        session = Session(name, ttl_ns, sent_at)
        # Those that are over are forgotten: one that nobody stands by is never renewed, and ends by itself.
        kept = [one for one in self._alike.get(kind, ()) if one.places or sent_at - one.sent_at < one.ttl_ns]
        self._alike[kind] = [*kept, session]

    def _one_of(self, kind: tuple[int, int], place: Place) -> Session | None:
        return next((session for session in self._alike.get(kind, ()) if self._free(session, place.key)), None)

    def _free(self, session: Session, key: str) -> bool:
        # One that nobody has renewed for half its ttl may be over: asking for it would cost as much as a new one.
        alive = bool(session.places) or self._clock.now() - session.sent_at < session.ttl_ns // 2
        return alive and not session.gone and key not in session.places and key not in session.lingering

    def _attach(self, session: Session, place: Place) -> None:
        assert place.key not in session.places, "two candidates of one election never share a session"
        place.session = session
        session.places[place.key] = place
        if session.keeper is None or session.keeper.done():
            session.keeper = self._start(self._keep(session))

    def detach(self, place: Place, *, lingers: bool) -> None:
        """Take a place off its session; ``lingers``: a lock or unlock of its key may still land."""
        session = place.session
        if session is None:
            return
        session.places.pop(place.key, None)
        if lingers and not session.gone:
            session.lingering[place.key] = place
        place.session, place.leading = None, False

    async def renew(self, session: Session, since: int) -> None:
        """Renew unless that was done by a request sent at ``since`` or later. Raises SessionGone."""
        while session.sent_at < since and not session.gone:
            if session.renewing is None or session.renewing.done():
                session.renewing = self._start(self._renew(session))
            await asyncio.shield(session.renewing)
        if session.gone:
            raise SessionGone(self._client.address, "renew")

    async def _renew(self, session: Session) -> None:
        sent_at = self._clock.now()
        if await self._client.renew_session(session.name):
            session.sent_at = max(session.sent_at, sent_at)
        else:
            self.lose(session)

    def lose(self, session: Session) -> None:
        """The engine has ended a session: whoever leads by it does not, and who waits takes another one."""
        session.gone = True
        session.lingering.clear()  # A lock by a session that is over is refused, whenever it lands.
        for alike in self._alike.values():
            if session in alike:
                alike.remove(session)

    async def _keep(self, session: Session) -> None:
        due_in_ns = NEVER
        # Also if the session is over: a standby that never asks again has to be forgotten by somebody.
        while session.places or session.lingering:
            await asyncio.sleep(min(session.ttl_ns // _LOOKS_PER_TTL, max(due_in_ns, _PAUSE_MIN_NS)) / 1e9)
            now = self._clock.now()
            due = [place for place in session.places.values() if place.due_at <= now]
            await asyncio.gather(*map(self._give_up, due))
            if session.places and now - session.sent_at >= session.ttl_ns // _RENEW_PER_TTL:
                with suppress(StoreError):  # Whoever leads hears of it by its own renewal.
                    await self.renew(session, now)
            for place in list(session.lingering.values()):
                with suppress(StoreError):
                    await self._leave(session, place)
                    session.lingering.pop(place.key, None)
            due_in_ns = min((place.due_at for place in session.places.values()), default=NEVER) - self._clock.now()

    async def close(self) -> None:
        """Stop keeping, and end every session by which nobody leads. The others end by themselves, when nobody may lead."""
        sessions = [session for alike in self._alike.values() for session in alike]
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        free = [one for one in sessions if not any(place.leading for place in one.places.values())]
        endings = (self._client.destroy_session(session.name) for session in free)
        await asyncio.gather(*tasks, *endings, return_exceptions=True)

    def _start(self, work: "Any") -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Whoever waited for it may be gone, and then nobody else will ask.
