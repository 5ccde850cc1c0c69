"""The MySQL store, on MariaDB, keeps the contract, whoever's clock ends a lease.

Each promise makes up the names of its elections and mostly waits for leases to end, so many run at once on one server; the one
that restarts the engine runs when the others are done.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio import to_thread

from tenure.stores.base import CanAskToResign, CanList, CanProclaim, CanRenewTogether, Expiry, Store, Wake
from tenure.stores.mysql import from_url
from tenure.testing import CONTRACT, ContractBroken, Rig, check_promise
from tenure.testing.engines import MariaDbCluster

pytestmark = pytest.mark.anyio

RESTARTS = "tokens-rise-through-restart"
AT_ONCE = 16


class MySqlRig:
    """One server in real time."""

    ttl_ns = 3_000_000_000  # A third of it is what a busy machine may be late by.

    def __init__(self, cluster: MariaDbCluster, options: str) -> None:
        self.cluster, self.url = cluster, f"{cluster.url}?{options}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with from_url(self.url) as store:
            yield store

    async def delete_record(self, election: str) -> None:
        await to_thread.run_sync(self.cluster.sql, f"DELETE FROM test.tenure_office WHERE election = '{election}'")

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)


async def broken_promises(cluster: MariaDbCluster, options: str) -> list[str]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield MySqlRig(cluster, options)

    few = asyncio.Semaphore(AT_ONCE)

    async def check(name: str) -> str:
        try:
            async with few:
                await check_promise(name, make)
        except ContractBroken as broken:
            return str(broken)
        return ""

    told = await asyncio.gather(*(check(name) for name in CONTRACT if name != RESTARTS))
    return [broken for broken in [*told, await check(RESTARTS)] if broken]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", ["expiry=engine&poll=0.2", "expiry=observer&poll=0.2"], ids=["engine", "observer"])
async def test_every_promise_is_kept(options: str, cluster: MariaDbCluster) -> None:
    assert await broken_promises(cluster, options) == []


async def test_the_store_says_what_it_can_do(cluster: MariaDbCluster) -> None:
    async with from_url(cluster.url) as store:
        for ability in (CanAskToResign, CanList, CanProclaim, CanRenewTogether):
            assert isinstance(store, ability)
        assert (store.traits.expiry, store.traits.wake) == (Expiry.ENGINE, Wake.POLL)
        assert store.identity.startswith("mysql/")
    assert from_url(f"{cluster.url}?expiry=observer").traits.expiry is Expiry.OBSERVER
