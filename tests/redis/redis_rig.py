"""The rig on which the stores of Redis are checked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio import to_thread

from tenure.stores.base import Store
from tenure.stores.opening import make_store
from tenure.testing.engines import RedisCluster

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
