"""The rig on which the stores of Redis are checked, and the check itself: many promises at once, those that restart last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio import to_thread

from tenure.stores.base import Store
from tenure.stores.opening import make_store
from tenure.testing import CONTRACT, ContractBroken, Rig, check_promise
from tenure.testing.engines import RedisCluster

RESTARTS = "tokens-rise-through-restart"
AT_ONCE = 12


class RedisRig:
    """Servers in real time."""

    ttl_ns = 5_000_000_000  # A third of it is what a busy machine may be late by.

    def __init__(self, cluster: RedisCluster, url: str) -> None:
        self.cluster, self.url = cluster, url

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with make_store(self.url, {}, accept_best_effort=True) as store:
            yield store

    async def delete_record(self, election: str) -> None:
        for node in self.cluster.nodes if self.cluster.independent else [await to_thread.run_sync(self.cluster.leader)]:
            await to_thread.run_sync(partial(self.cluster.ctl, "DEL", f"tenure:office:{election}", node=node))

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)


async def broken_promises(cluster: RedisCluster, url: str) -> list[str]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield RedisRig(cluster, url)

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
