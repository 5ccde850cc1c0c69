"""The leases of one store, each shared by many places, and what keeps them alive. Runs on asyncio.

Rules of this file
1. A place counts a full ttl from a renewal that was sent after it asked (rule 1): an answer to an earlier one is not
   for it.
2. A lease lives on for as long as one of its places does. So a place that its holder no longer prolongs is given up at the
   moment when a lease of its own would have ended (rule 6). Whether that moment has come is decided when nothing else is
   under way for the place: a claim that is granted meanwhile prolongs it.
3. Two candidates of one election never share a lease: the engine would take the second for the first.
4. What was sent for a place and given up unanswered may reach the engine at any later time, and would stand there for as
   long as others keep the lease alive. So its election is nobody else's on this lease (``lingering``) until that has been
   settled, which each engine does in its own way.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from tenure.clients.upkeep import keep_up
from tenure.clock import Clock
from tenure.errors import StoreError, Unreachable
from tenure.model import Bid, Grant

NEVER: Final = 2**63
# A lease is looked after six times in its ttl, and renewed if nobody has for a third of it: three tries before it ends.
_LOOKS_PER_TTL: Final = 6
_RENEW_PER_TTL: Final = 3
# The keeper sleeps no shorter than this, whatever is due.
_PAUSE_MIN_NS: Final = 50 * 10**6
# A lease with so many places that are not settled takes no new ones. It may get more: all may be released in vain at once.
_LINGERING_MAX: Final = 32

P = TypeVar("P", bound="SharingPlace[Any]")
L = TypeVar("L", bound="SharedLease[Any]")
Kind = tuple[int, ...]  # Places of one kind can share a lease.


@dataclass(slots=True, eq=False)
class SharingPlace(Generic[L]):
    """What every place has: one bid's in one election."""

    bid: Bid
    _: KW_ONLY
    lease: L | None = None
    token: int = 0  # 0: it has none, as far as is known
    due_at: int = NEVER  # when it is given up unless its holder asks again
    leading: bool = False
    resign_asked: bool = False
    busy: "asyncio.Future[Any] | None" = None  # the request that is under way
    waiting: "asyncio.Future[None] | None" = None  # who waits for its turn

    @property
    def unsure(self) -> bool:
        """Whether something that was sent for it had no answer, and may still be on its way."""
        raise NotImplementedError

    def settle(self) -> None:
        """Note that nothing can land any more."""
        raise NotImplementedError

    def holds(self, grant: Grant) -> bool:
        """Say whether ``grant`` is what this place has."""
        same = self.bid is grant.bid or self.bid == grant.bid
        return self.leading and self.token == grant.token and same


@dataclass(slots=True, eq=False)
class SharedLease(Generic[P]):
    """What every lease at an engine has."""

    ttl_ns: int
    sent_at: int  # when the last renewal was sent that was answered
    _: KW_ONLY
    gone: bool = False  # the engine has ended it
    places: dict[str, P] = field(default_factory=dict)  # by their elections, of which each has one (rule 3)
    lingering: dict[str, P] = field(default_factory=dict)  # those that left, of which something may still land
    keeper: "asyncio.Task[None] | None" = None


class SharedLeases(ABC, Generic[P, L]):
    """Every lease of one store. Used on one event loop."""

    def __init__(self, address: str, clock: Clock, give_up: Callable[[P], Awaitable[None]]) -> None:
        self._address, self._clock, self._give_up = address, clock, give_up
        self._closed = False
        self._alike: dict[Kind, list[L]] = {}
        self._creating: dict[Kind, asyncio.Task[None]] = {}
        self._keepers: set[asyncio.Task[None]] = set()  # also those of leases that are lost
        self._requests: set[asyncio.Task[None]] = set()  # that several wait for

    # What is the engine's own

    @abstractmethod
    def _kind_of(self, place: P) -> Kind:
        """Say which places can share a lease with this one."""

    @abstractmethod
    async def _make(self, kind: Kind, place: P) -> L:
        """Have the engine make a lease, dated before it was asked for."""

    @abstractmethod
    async def renew(self, lease: L, since: int) -> None:
        """Renew unless that was done by a request sent at ``since`` or later. Raises what says that a lease is over."""

    @abstractmethod
    async def _settle(self, lease: L) -> None:
        """See to it that nothing more can land for places that have left. What fails is tried again later."""

    @abstractmethod
    async def _end(self, lease: L) -> None:
        """End a lease that nobody needs any more."""

    # What is alike

    async def take(self, place: P) -> L:
        """Return a lease for this place, and attach it."""
        kind = self._kind_of(place)
        creating = self._creating.get(kind)
        # Looked for anew after every wait, and attached in the same turn of the event loop (rule 3). Whoever had a lease made
        # is one of several that wake when it is there, and another candidate of its election may wake before it.
        while (lease := self._one_of(kind, place)) is None:
            if creating is None or creating.done():
                creating = self._creating[kind] = self._request(self._create(kind, place))
            # A thousand elections that begin together share one lease, and one failure if it comes to that.
            await asyncio.shield(creating)
            # But a thousand candidates of one election have each their own made next, and do not wait for one another.
            creating = None
        self._attach(lease, place)
        return lease

    async def _create(self, kind: Kind, place: P) -> None:
        self._check_open()
        made = await self._make(kind, place)
        if self._closed:
            with suppress(StoreError):  # If that fails it ends by itself.
                await self._end(made)
            self._check_open()
        # Those that are over are forgotten: one that nobody stands on is never renewed, and ends by itself.
        kept = [one for one in self._alike.get(kind, ()) if one.places or made.sent_at - one.sent_at < one.ttl_ns]
        self._alike[kind] = [*kept, made]

    def _one_of(self, kind: Kind, place: P) -> L | None:
        for lease in self._alike.get(kind, ()):
            if self._is_free(lease, place.bid.election):
                return lease
        return None

    def _is_free(self, lease: L, election: str) -> bool:
        # One that nobody has renewed for half its ttl may be over: asking for it would cost as much as a new one. But one
        # that was just made is never thrown away, or a process that stands still now and then would make them for ever.
        just_made = lease.keeper is None
        alive = just_made or bool(lease.places) or self._clock.now() - lease.sent_at < lease.ttl_ns // 2
        taken = election in lease.places or election in lease.lingering
        return alive and not lease.gone and not taken and len(lease.lingering) < _LINGERING_MAX

    def _check_open(self) -> None:
        if self._closed:
            raise Unreachable(self._address, "claim", "the store was closed meanwhile")

    def _attach(self, lease: L, place: P) -> None:
        self._check_open()
        assert place.bid.election not in lease.places, "two candidates of one election never share a lease"
        place.lease = lease
        lease.places[place.bid.election] = place
        if lease.keeper is None or lease.keeper.done():
            lease.keeper = keep_up(partial(self._keep, lease), "the keeper of a lease")
            self._keepers.add(lease.keeper)
            lease.keeper.add_done_callback(self._keepers.discard)

    def detach(self, place: P, *, lingers: bool) -> None:
        """Take a place off its lease; ``lingers``: something that was sent for it may still land."""
        lease = place.lease
        if lease is None:
            return
        lease.places.pop(place.bid.election, None)
        place.lease, place.token, place.leading = None, 0, False
        if lingers and not lease.gone:
            lease.lingering[place.bid.election] = place
        else:
            place.settle()

    def lose(self, lease: L) -> None:
        """The engine has ended a lease: whoever leads on it does not, and what may still land for it is refused."""
        lease.gone = True
        lease.lingering.clear()
        for alike in self._alike.values():
            if lease in alike:
                alike.remove(lease)

    async def _keep(self, lease: L) -> None:
        due_in_ns = NEVER
        # Also if the lease is over: a standby that never asks again has to be forgotten by somebody.
        while lease.places or lease.lingering:
            await asyncio.sleep(min(lease.ttl_ns // _LOOKS_PER_TTL, max(due_in_ns, _PAUSE_MIN_NS)) / 1e9)
            now = self._clock.now()
            due = [place for place in lease.places.values() if place.due_at <= now]
            await asyncio.gather(*map(self._give_up, due))
            if not lease.gone and lease.places and now - lease.sent_at >= lease.ttl_ns // _RENEW_PER_TTL:
                with suppress(StoreError):  # Whoever leads hears of it by its own renewal.
                    await self.renew(lease, now)
            if lease.lingering:
                await self._settle(lease)
            due_in_ns = min((place.due_at for place in lease.places.values()), default=NEVER) - self._clock.now()

    async def close(self) -> None:
        """Stop keeping, and end every lease on which nobody leads. The others end by themselves, when nobody may lead."""
        self._closed = True
        leases = [lease for alike in self._alike.values() for lease in alike]
        keepers = list(self._keepers)
        for keeper in keepers:
            keeper.cancel()
        free = [lease for lease in leases if not any(place.leading for place in lease.places.values())]
        await asyncio.gather(*keepers, *map(self._end, free), return_exceptions=True)

    def _request(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin what several will wait for. It ends with its own deadline, or with the connection."""
        task = asyncio.create_task(work)
        self._requests.add(task)
        task.add_done_callback(self._answered)
        return task

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self._requests.discard(task)
        if not task.cancelled():
            task.exception()  # Whoever waited for it may be gone, and then nobody else will ask.
