"""The leases of one store, each shared by many places in many queues, and what keeps them alive.

Rules of this file
1. A place counts a full ttl from a renewal that was sent after it asked (rule 1): an answer to an earlier one is not
   for it.
2. A lease lives on for as long as one of its places does. So a place that its holder no longer prolongs is given up by
   deleting its key, at the moment when a lease of its own would have ended (rule 6). Whether that moment has come is
   decided when nothing else is under way for the place: a claim that is granted meanwhile prolongs it.
3. Two candidates of one election never share a lease: their keys would be one.
4. A put or delete that was given up unanswered may reach the engine at any later time. The put would stand in the queue
   for as long as others keep the lease alive; the delete would end the office of whoever has the same key by then. So a
   key that is left unanswered is given to nobody else, and is deleted again and again until its lease has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.messages import Delete, Txn
from tenure.clock import Clock
from tenure.errors import StoreError
from tenure.model import Bid, Grant
from tenure.stores.etcd.layout import Names

NEVER: Final = 2**63
# A lease is looked after six times in its ttl, and renewed if nobody has for a third of it: three tries before it ends.
_LOOKS_PER_TTL: Final = 6
_RENEW_PER_TTL: Final = 3
# The keeper sleeps no shorter than this, whatever is due.
_PAUSE_MIN_NS: Final = 50 * 10**6
# A lease with so many keys without an answer takes no new places. It may get more of them: all its places may be released
# in vain at once. The engine takes 128 deletions in one request.
_LINGERING_MAX: Final = 32
_DELETIONS_MAX: Final = 100


@dataclass(slots=True, eq=False)
class Place:
    """One bid's place in the queue of its election."""

    bid: Bid
    names: Names
    value: bytes
    lease: "Lease | None" = None
    key: bytes = b""
    revision: int = 0  # the create revision of its key, which is its token; 0: none that is known of
    modified: int = 0  # the mod revision of its key when it was last seen
    ahead: bytes = b""  # the predecessor's key; empty: none
    seen_at: int = 0  # the engine's revision when that was so
    due_at: int = NEVER  # when it is given up unless its holder asks again
    leading: bool = False
    unsure: bool = False  # a put of it had no answer, and may still be on its way
    resign_asked: bool = False
    busy: "asyncio.Task[Any] | None" = None  # the request that is under way
    waiting: "asyncio.Future[None] | None" = None  # who waits for the predecessor

    def holds(self, grant: Grant) -> bool:
        """Say whether ``grant`` is what this place has."""
        same = self.bid is grant.bid or self.bid == grant.bid
        return self.leading and self.revision == grant.token and same


@dataclass(slots=True, eq=False)
class Lease:
    """One lease at the engine."""

    number: int
    ttl_ns: int
    sent_at: int  # when the last renewal was sent that was answered
    gone: bool = False
    places: dict[bytes, Place] = field(default_factory=dict)
    lingering: set[bytes] = field(default_factory=set)  # keys that may still be put, or deleted
    looked_at: int = 0  # how far the roll call has come
    keeper: "asyncio.Task[None] | None" = None


class Leases:
    """Every lease of one store. Used on one event loop."""

    def __init__(self, client: EtcdClient, clock: Clock, give_up: Callable[[Place], Awaitable[None]]) -> None:
        self._client, self._clock, self._give_up = client, clock, give_up
        self._by_ttl: dict[int, list[Lease]] = {}
        self._granting: dict[int, asyncio.Task[Lease]] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    async def take(self, place: Place) -> Lease:
        """Return a lease for this place, and attach it."""
        # The engine counts whole seconds; less than was asked for would be a lie.
        ttl_s = -(-place.bid.ttl_ns // 10**9)
        lease = self._one_of(ttl_s, place)
        granting = self._granting.get(ttl_s)
        if lease is None and granting is not None and not granting.done():
            # A thousand elections that begin together share one lease, and one failure if it comes to that.
            await asyncio.shield(granting)
            lease = self._one_of(ttl_s, place)
        if lease is None:
            granting = self._granting[ttl_s] = asyncio.create_task(self._grant(ttl_s, place))
            return await granting
        self._attach(lease, place)
        return lease

    async def _grant(self, ttl_s: int, place: Place) -> Lease:
        sent_at = self._clock.now()
        granted = await self._client.lease_grant(ttl_s)
        lease = Lease(granted.lease, ttl_s * 10**9, sent_at)
        # Those that are over are forgotten: one that nobody stands on is never renewed, and ends by itself.
        kept = [one for one in self._by_ttl.get(ttl_s, ()) if one.places or sent_at - one.sent_at < one.ttl_ns]
        self._by_ttl[ttl_s] = [*kept, lease]
        self._attach(lease, place)
        return lease

    def _one_of(self, ttl_s: int, place: Place) -> Lease | None:
        leases = self._by_ttl.get(ttl_s, ())
        return next((lease for lease in leases if self._free(lease, place.names.key(lease.number))), None)

    def _free(self, lease: Lease, key: bytes) -> bool:
        # One that nobody has renewed for half its ttl may be over: asking for it would cost as much as a new one.
        alive = bool(lease.places) or self._clock.now() - lease.sent_at < lease.ttl_ns // 2
        taken = key in lease.places or key in lease.lingering
        return alive and not lease.gone and not taken and len(lease.lingering) < _LINGERING_MAX

    def _attach(self, lease: Lease, place: Place) -> None:
        place.lease, place.key = lease, place.names.key(lease.number)
        lease.places[place.key] = place
        if lease.keeper is None or lease.keeper.done():
            lease.keeper = asyncio.create_task(self._keep(lease))
            self._keepers.add(lease.keeper)
            lease.keeper.add_done_callback(self._keepers.discard)

    def detach(self, place: Place, *, lingers: bool) -> None:
        """Take a place off its lease; ``lingers``: a put or delete of its key may still land."""
        lease = place.lease
        if lease is None:
            return
        lease.places.pop(place.key, None)
        if lingers:
            lease.lingering.add(place.key)
        place.lease, place.revision, place.leading = None, 0, False

    async def renew(self, lease: Lease, since: int) -> None:
        """Renew unless that was done by a request sent at ``since`` or later. Raises LeaseGone."""
        if lease.sent_at < since and not lease.gone:
            sent_at = self._clock.now()
            left_s = await self._client.lease_renew(lease.number)
            if left_s > 0:
                lease.sent_at = max(lease.sent_at, sent_at)
            else:
                self.lose(lease)
        if lease.gone:
            raise LeaseGone(self._client.address, "renew")

    def lose(self, lease: Lease) -> None:
        """The engine has ended a lease: whoever waits on it must stand anew, and whoever leads does not."""
        lease.gone = True
        same_ttl = self._by_ttl[lease.ttl_ns // 10**9]
        if lease in same_ttl:
            same_ttl.remove(lease)
        for place in lease.places.values():
            if place.waiting is not None:
                place.waiting.cancel()

    async def _keep(self, lease: Lease) -> None:
        due_in_ns = NEVER
        while not lease.gone and (lease.places or lease.lingering):
            await asyncio.sleep(min(lease.ttl_ns // _LOOKS_PER_TTL, max(due_in_ns, _PAUSE_MIN_NS)) / 1e9)
            now = self._clock.now()
            due = [place for place in lease.places.values() if place.due_at <= now]
            await asyncio.gather(*map(self._give_up, due))
            with suppress(StoreError):  # Whoever leads hears of it by its own renewal.
                await self._look_after(lease, now)
            due_in_ns = min((place.due_at for place in lease.places.values()), default=NEVER) - self._clock.now()

    async def _look_after(self, lease: Lease, now: int) -> None:
        if not lease.places:
            if lease.lingering:
                self.lose(lease)  # Nobody may take it any more.
                await self._client.lease_revoke(lease.number)  # If that fails it ends by itself.
            return
        if now - lease.sent_at >= lease.ttl_ns // _RENEW_PER_TTL:
            await self.renew(lease, now)
        lingering = sorted(lease.lingering)
        for first in range(0, len(lingering), _DELETIONS_MAX):
            deletions = tuple(Delete(key) for key in lingering[first : first + _DELETIONS_MAX])
            with suppress(StoreError):  # One that fails keeps the others from nothing.
                await self._client.txn(Txn((), deletions, ()), operation="release")

    async def close(self) -> None:
        """Stop keeping, and end every lease on which nobody leads. The others end by themselves, when nobody may lead."""
        leases = [lease for same_ttl in self._by_ttl.values() for lease in same_ttl]
        keepers = list(self._keepers)  # Also those of leases that are lost.
        for keeper in keepers:
            keeper.cancel()
        free = [lease for lease in leases if not any(place.leading for place in lease.places.values())]
        revocations = (self._client.lease_revoke(lease.number) for lease in free)
        await asyncio.gather(*keepers, *revocations, return_exceptions=True)
