"""Sessions of Consul, and the places that take their keys by them.

A lock that was given up unanswered may reach the engine at any later time, and would hold the key for as long as others keep
the session alive. So whoever leaves makes sure that it cannot land any more (``roll.leave``), again and again until that is
answered, and until then nobody else stands for that election by this session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from tenure.clients.consul.client import ConsulClient
from tenure.clock import Clock
from tenure.errors import Refused, StoreError
from tenure.stores.entry import Entry
from tenure.stores.sharing.leases import Kind, SharedLease, SharedLeases, SharingPlace


class SessionGone(Refused):
    """Definite: the session has ended, and holds nothing any more."""

    what = "found its session gone"


@dataclass(slots=True, eq=False)
class Place(SharingPlace["Session"]):
    """One bid's way to the office of its election. Its token is the index of the write that took the key."""

    key: str
    entry: Entry
    lock_delay_ns: int
    index: int = 0  # the index of the key when it was last seen in our hands
    guard: int | None = None  # the index that a lock without an answer was to find there, and may still find
    floor: int = 0  # the largest token here when that lock was sent: its own is larger, unless the engine went back
    free_at: int | None = None  # the index at which the key was just seen in nobody's hands
    wait_from: int = 1  # the index to wait from
    delayed: bool = False  # the engine keeps the key empty for a while (lock-delay)
    freed_at_s: float | None = None  # when it was heard to be in nobody's hands, by the event loop; None: it was not

    @property
    def unsure(self) -> bool:
        return self.guard is not None

    def settle(self) -> None:
        self.guard = None


@dataclass(slots=True, eq=False)
class Session(SharedLease[Place]):
    """One session at the engine."""

    name: str
    renewing: "asyncio.Task[None] | None" = None


class Sessions(SharedLeases[Place, Session]):
    """Every session of one store, one or more for each ttl and lock-delay."""

    def __init__(
        self,
        client: ConsulClient,
        clock: Clock,
        give_up: Callable[[Place], Awaitable[None]],
        withdraw: Callable[[Place, Session], Awaitable[None]],
    ) -> None:
        super().__init__(client.address, clock, give_up)
        self._client, self._withdraw = client, withdraw

    def _kind_of(self, place: Place) -> Kind:
        return place.bid.ttl_ns, place.lock_delay_ns

    async def _make(self, kind: Kind, place: Place) -> Session:
        ttl_ns, delay_ns = kind
        sent_at = self._clock.now()
        name = await self._client.create_session(f"tenure {place.bid.holder}", ttl_ns, delay_ns)
        return Session(ttl_ns, sent_at, name)

    async def renew(self, lease: Session, since: int) -> None:
        while lease.sent_at < since and not lease.gone:
            if lease.renewing is None or lease.renewing.done():
                lease.renewing = self._request(self._renew(lease))
            await asyncio.shield(lease.renewing)
        if lease.gone:
            raise SessionGone(self._client.address, "renew")

    async def _renew(self, session: Session) -> None:
        sent_at = self._clock.now()
        if await self._client.renew_session(session.name):
            session.sent_at = max(session.sent_at, sent_at)
        else:
            self.lose(session)

    async def _settle(self, lease: Session) -> None:
        # All at once: one after the other, each up to its deadline, would keep others from being given up in time.
        await asyncio.gather(*(self._settle_one(lease, place) for place in lease.lingering.values()))

    async def _settle_one(self, lease: Session, place: Place) -> None:
        with suppress(StoreError):
            await self._withdraw(place, lease)
            lease.lingering.pop(place.bid.election, None)

    async def _end(self, lease: Session) -> None:
        await self._client.destroy_session(lease.name)
