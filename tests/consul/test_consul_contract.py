"""The Consul store keeps the contract.

Each promise makes up the names of its elections and mostly waits for sessions to end, so many run at once on one cluster; the
one that restarts the engine runs when the others are done.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio import to_thread

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.settings import settings_of
from tenure.stores.base import Store
from tenure.stores.consul import from_url
from tenure.testing import CONTRACT, RESTARTING, ContractBroken, Rig, check_promise
from tenure.testing.engines import ConsulCluster

AT_ONCE = 12
# As shipped: servers that are told to be quick lose their leader when the machine is busy for a second.
SETTINGS = ("limits { http_max_conns_per_client = 2000 }", "performance { raft_multiplier = 5 }")


class ConsulRig:
    """One cluster in real time, whose sessions may be shorter than Consul allows as shipped."""

    ttl_ns = 5_000_000_000  # A third of it is what a busy machine may be late by.

    def __init__(self, cluster: ConsulCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with from_url(self.cluster.url, lock_delay="0") as store:
            yield store

    async def delete_record(self, election: str) -> None:
        async with ConsulClient(settings_of(self.cluster.url)) as client:
            await client.delete(f"{election}/.lock", operation="delete")

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)


@pytest.fixture
def own_cluster() -> Iterator[ConsulCluster]:
    # Every check opens up to ten stores, and a store has a connection for each that waits.
    with ConsulCluster(session_ttl_min_s=1, options=[f"-hcl={setting}" for setting in SETTINGS]) as running:
        yield running


async def broken_promises(cluster: ConsulCluster) -> list[str]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield ConsulRig(cluster)

    few = asyncio.Semaphore(AT_ONCE)

    async def check(name: str) -> str:
        try:
            async with few:
                await check_promise(name, make)
        except ContractBroken as broken:
            return str(broken)
        return ""

    told = await asyncio.gather(*(check(name) for name in CONTRACT if name not in RESTARTING))
    return [broken for broken in [*told, *[await check(name) for name in sorted(RESTARTING)]] if broken]


@pytest.mark.timeout(300)
def test_every_promise_is_kept(own_cluster: ConsulCluster) -> None:
    assert asyncio.run(broken_promises(own_cluster)) == []
