"""The etcd store keeps the contract on every etcd that is at hand.

Each promise makes up the names of its elections and mostly waits for leases to end, so many run at once on one cluster; the
one that restarts the engine runs when the others are done.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio import to_thread

from tenure.clients.etcd.messages import Delete, Txn, prefix_end
from tenure.clients.etcd.opening import client_of
from tenure.stores.base import Store
from tenure.stores.etcd import from_url
from tenure.testing.engines import Binary, EtcdCluster
from tests.promises import broken_promises

# A request has a second. When all fifty claimed at once, a busy machine took longer than that.
AT_ONCE = 12


class EtcdRig:
    """One cluster in real time."""

    ttl_ns = 5_000_000_000  # A request has a fifth of it: on a busy machine 0.6 s were not enough.

    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with from_url(self.cluster.url) as store:
            yield store

    async def delete_record(self, election: str) -> None:
        prefix = f"{election}/".encode()
        async with client_of(self.cluster.url) as client:
            await client.txn(Txn((), (Delete(prefix, prefix_end(prefix)),), ()), operation="delete")

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)


@pytest.fixture
def own_cluster(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    with EtcdCluster(binary=etcd_binary) as running:
        yield running


@pytest.mark.timeout(300)
def test_every_promise_is_kept(own_cluster: EtcdCluster) -> None:
    assert asyncio.run(broken_promises(EtcdRig(own_cluster), AT_ONCE)) == []
