"""Leases of etcd, and the places in queues that stand on them.

A put or delete that was given up unanswered may reach the engine at any later time. The put would stand in the queue for as
long as others keep the lease alive; the delete would end the office of whoever has the same key by then. So a key that is
left unanswered is given to nobody else, and is deleted again and again until its lease has ended.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.keepalive import Begun
from tenure.clients.etcd.messages import Delete, Txn
from tenure.clock import Clock
from tenure.errors import OutcomeUnknown, StoreError
from tenure.stores.entry import entry_of
from tenure.stores.etcd.layout import Names
from tenure.stores.sharing.leases import Kind, SharedLease, SharedLeases, SharingPlace

# The engine takes 128 of them in one request.
_DELETIONS_MAX: Final = 100


@dataclass(slots=True, eq=False)
class Place(SharingPlace["Lease"]):
    """One bid's place in the queue of its election. Its token is the create revision of its key."""

    modified: int = 0  # the mod revision of its key when it was last seen
    ahead: tuple[bytes, int] | None = None  # the predecessor's key, and the engine's revision when it was that
    looked_in: int = 0  # the number of the roll call that last looked at its key
    unanswered: bool = False  # a put of it had no answer

    # Each is made anew whenever it is asked for: there may be ten thousand places, most of which only lead.
    def names_on(self, lease: "Lease") -> Names:
        return Names.of(lease.namespace, self.bid.election)

    def key_on(self, lease: "Lease") -> bytes:
        """Return its key, if it is on this lease."""
        return self.names_on(lease).key(lease.number)

    @property
    def value(self) -> bytes:
        """What its key has in it, unless somebody else wrote there."""
        return entry_of(self.bid).encode()

    @property
    def unsure(self) -> bool:
        return self.unanswered

    def settle(self) -> None:
        self.unanswered = False


@dataclass(slots=True, eq=False)
class Lease(SharedLease[Place]):
    """One lease at the engine."""

    number: int
    namespace: str  # of the store's elections, which every key on it begins with
    term: int = 0  # in which it was last renewed; 0: not since it was made, which takes a quorum
    read_term: int = 0  # in which the quorum last answered for it
    roll_number: int = 0  # of the last roll call of many places


class Renewing(NamedTuple):
    """A renewal that is on its way, dated before it was sent."""

    sent_at: int
    begun: Begun


class Leases(SharedLeases[Place, Lease]):
    """Every lease of one store, one or more for each ttl."""

    def __init__(
        self, client: EtcdClient, namespace: str, clock: Clock, give_up: Callable[[Place], Awaitable[None]]
    ) -> None:
        super().__init__(client.address, clock, give_up)
        self._client, self._namespace = client, namespace

    def _kind_of(self, place: Place) -> Kind:
        # The engine counts whole seconds; less than was asked for would be a lie.
        return (-(-place.bid.ttl_ns // 10**9),)

    async def _make(self, kind: Kind, place: Place) -> Lease:  # noqa: ARG002  (nothing of it is in a lease)
        (ttl_s,) = kind
        sent_at = self._clock.now()
        granted = await self._client.lease_grant(ttl_s)
        return Lease(ttl_s * 10**9, sent_at, granted.lease, self._namespace)

    def begin(self, lease: Lease, since: int) -> "Renewing | None":
        """Send what ``renew`` would, in one piece with what is sent next; it has to be told, and waits for the answer."""
        if lease.sent_at >= since or lease.gone:
            return None
        return Renewing(self._clock.now(), self._client.begin_renewal(lease.number))

    async def renew(self, lease: Lease, since: int, renewing: "Renewing | None" = None) -> None:
        if lease.sent_at < since and not lease.gone:
            sent_at, begun = renewing or (self._clock.now(), None)
            left_s, term = await self._client.lease_renewal(lease.number, begun)
            if left_s > 0:
                lease.term = term
                lease.sent_at = max(lease.sent_at, sent_at)
            else:
                self.lose(lease)
        if lease.gone:
            raise LeaseGone(self._client.address, "renew")

    def check_term(self, lease: Lease) -> None:
        """Raise if the renewal was said in an earlier term than what the quorum said beside it.

        Before 3.4.31 and 3.5.13 a leader renews leases without asking its quorum whether it still leads. One that was frozen,
        and has been succeeded meanwhile, says yes to a lease that its successor may be about to end.
        """
        if 0 < lease.term < lease.read_term:
            detail = "a leader of the cluster that has been succeeded said yes to the renewal"
            raise OutcomeUnknown(self._client.address, "renew", detail)

    def lose(self, lease: Lease) -> None:
        super().lose(lease)
        for place in lease.places.values():  # Its key is gone from the queue: it must stand anew.
            if place.waiting is not None:
                place.waiting.cancel()

    async def _settle(self, lease: Lease) -> None:
        if not lease.places:
            self.lose(lease)  # Nobody may take it any more.
            with suppress(StoreError):  # If that fails it ends by itself.
                await self._end(lease)
            return
        keys = sorted(place.key_on(lease) for place in lease.lingering.values())
        for first in range(0, len(keys), _DELETIONS_MAX):
            deletions = tuple(Delete(key) for key in keys[first : first + _DELETIONS_MAX])
            with suppress(StoreError):  # One that fails keeps the others from nothing.
                await self._client.txn(Txn((), deletions, ()), operation="release")

    async def _end(self, lease: Lease) -> None:
        await self._client.lease_revoke(lease.number)
