"""A client of etcd: transactions, ranges, leases, waits for deletions, and what an operator wants to know.

What may happen to a request on its way is ``link.py``.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from ssl import SSLContext
from typing import Self

from tenure.clients.etcd import codec
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.keepalive import Begun, Keepalive
from tenure.clients.etcd.link import Link
from tenure.clients.etcd.messages import (
    Alarm,
    LeaseGranted,
    Member,
    Range,
    RangeAnswer,
    Renewal,
    Seen,
    Status,
    Txn,
    TxnAnswer,
)
from tenure.clients.etcd.watches import Watches
from tenure.errors import StoreError

_IDLE_S = 10.0  # how long a connection with a watch on it may be silent before it is looked at


class EtcdClient(Link):
    """Calls etcd. Used on one event loop, between ``async with`` and its end."""

    def __init__(  # noqa: PLR0913  (each is a setting of its own, by name)
        self,
        endpoints: Sequence[str],
        *,
        address: str,
        tls: SSLContext | None = None,
        user: str | None = None,
        password: str | None = None,
        call_timeout_s: float = 2.0,
        idle_s: float = _IDLE_S,
    ) -> None:
        super().__init__(
            endpoints, address=address, tls=tls, user=user, password=password, call_timeout_s=call_timeout_s
        )
        self._keepalive = Keepalive(self)
        self._watches = Watches(self, idle_s)

    async def __aenter__(self) -> Self:
        self._open, self._pid = True, os.getpid()
        async with AsyncExitStack() as unless_it_answers:
            unless_it_answers.push_async_callback(self.close)
            await self.call("Maintenance/Status", b"", codec.decode_status, "open")
            unless_it_answers.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the cluster. Whoever still waits for an answer is told that it will not come."""
        if self.is_forked:
            return  # It is the other process's to close.
        self._open = False
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.callback(self._hang_up)
            closing.push_async_callback(self._connecting.end)
            closing.push_async_callback(self._authenticating.end)
            await self._watches.close()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.abort("the client was closed")
            self._connection = None

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        """Carry out a transaction, once."""
        floor, ask = self.revision, codec.encode_txn(txn)
        return await self.call("KV/Txn", ask, codec.decode_txn, operation, floor)

    async def range(self, ask: Range, *, operation: str) -> RangeAnswer:
        """Read keys: as the cluster decides it, unless the range is serializable."""
        floor = None if ask.serializable else self.revision
        return await self.call("KV/Range", codec.encode_range(ask), codec.decode_range, operation, floor)

    async def lease_grant(self, ttl_s: int) -> LeaseGranted:
        """Make a lease. One whose answer is lost ends by itself."""
        ask = codec.encode_lease_grant(ttl_s)
        return await self.call("Lease/LeaseGrant", ask, codec.decode_lease, "grant a lease")

    async def lease_renew(self, lease: int) -> int:
        """Prolong a lease by its full ttl from now on, and return that in seconds; 0: the lease is gone."""
        return (await self.lease_renewal(lease)).ttl_s

    def begin_renewal(self, lease: int) -> Begun:
        """Send a renewal, in one piece with what is sent next, and return what ``lease_renewal`` has its answer by."""
        self.check("renew a lease")  # Before it shares what somebody else has begun: that may be another process's.
        return self._keepalive.begin(lease)

    async def lease_renewal(self, lease: int, begun: Begun | None = None) -> Renewal:
        """Do the same, and tell the term as well. No quorum was asked: a leader that was succeeded may have answered."""
        self.check("renew a lease")
        renewal = await self._keepalive.renew(lease, self._keepalive.begin(lease) if begun is None else begun)
        self.check("renew a lease")  # Whoever answered may have been another cluster, also while this waited.
        return renewal

    async def lease_revoke(self, lease: int) -> None:
        """End a lease, and delete its keys. One that is gone already is fine."""
        try:
            await self.call("Lease/LeaseRevoke", codec.encode_lease(lease), codec.decode_nothing, "revoke a lease")
        except LeaseGone:
            return

    async def lease_keys(self, lease: int) -> tuple[int, list[bytes]]:
        """Return what is left of a lease in seconds, and its keys; (-1, []) if it is gone."""
        ask = codec.encode_lease_keys(lease)
        return await self.call("Lease/LeaseTimeToLive", ask, codec.decode_lease_keys, "read a lease")

    async def deleted(self, key: bytes, after_revision: int) -> None:
        """Return when the key was deleted after that revision, or when that can no longer be told. Never late."""
        self.check("watch")
        await self._watches.deleted(key, after_revision)

    async def members(self) -> list[Member]:
        """Return the members of the cluster as one of them lists them."""
        return await self.call("Cluster/MemberList", b"", codec.decode_members, "list members")

    async def alarms(self) -> list[Alarm]:
        """Return the alarms that are raised."""
        return await self.call("Maintenance/Alarm", b"", codec.decode_alarms, "list alarms")

    async def status(self) -> Status:
        """Return what the member that requests go to says of itself."""
        return await self.call("Maintenance/Status", b"", codec.decode_status, "read a status")

    async def seen_at_each(self, within_s: float) -> dict[str, Seen | StoreError]:
        """Ask every member that this client was told of, each on a connection of its own, for its status."""
        endpoints = sorted(map(str, self._endpoints))
        seen = await asyncio.gather(*(self._seen_at(endpoint, within_s) for endpoint in endpoints))
        return dict(zip(endpoints, seen, strict=True))

    async def _seen_at(self, endpoint: str, within_s: float) -> Seen | StoreError:
        one = EtcdClient(
            [endpoint],
            address=self.address,
            tls=self._tls,
            user=self._user,
            password=self._password,
            call_timeout_s=within_s,
        )
        try:
            async with one:
                began_s = time.perf_counter()
                status = await one.status()
                return Seen(status, one.cluster_id, time.perf_counter() - began_s)
        except StoreError as error:
            return error
