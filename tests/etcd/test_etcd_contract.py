"""The etcd store keeps the contract on every etcd that is at hand.

Each promise makes up the names of its elections and mostly waits for leases to end, so all run at once on one cluster; the
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
from tenure.testing import CONTRACT, RESTARTING, ContractBroken, Rig, check_promise
from tenure.testing.engines import Binary, EtcdCluster


class EtcdRig:
    """One cluster in real time."""

    ttl_ns = (
        5_000_000_000  # A request has a fifth of it: on a busy machine 0.6 s were not enough when fifty claim at once.
    )

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


async def broken_promises(cluster: EtcdCluster) -> list[str]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield EtcdRig(cluster)

    async def check(name: str) -> str:
        try:
            await check_promise(name, make)
        except ContractBroken as broken:
            return str(broken)
        return ""

    told = await asyncio.gather(*(check(name) for name in CONTRACT if name not in RESTARTING))
    return [broken for broken in [*told, *[await check(name) for name in sorted(RESTARTING)]] if broken]


def test_every_promise_is_kept(own_cluster: EtcdCluster) -> None:
    assert asyncio.run(broken_promises(own_cluster)) == []
