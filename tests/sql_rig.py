"""What the tests of the SQL stores share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from tenure.errors import StoreError
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.base import Store
from tenure.stores.opening import make_store
from tenure.testing.engines.cluster import Node
from tenure.testing.engines.database import Database

TTL_NS = 6 * 10**9
LIMIT_S = 60


def bid(election: str, holder: Holder | None = None, serial: int = 1, ttl_ns: int = TTL_NS) -> Bid:
    return Bid(election, holder or Holder.fresh(), serial, ttl_ns)


async def wins(store: Store, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant)
    return answer


async def waits(store: Store, asked: Bid) -> Wait:
    answer = await store.claim(asked)
    assert isinstance(answer, Wait)
    return answer


async def wins_in_time(store: Store, asked: Bid) -> Grant:
    """Claim until it is granted: a connection may first have to learn that it broke."""
    with anyio.fail_after(LIMIT_S):
        while True:
            try:
                answer = await store.claim(asked)
            except StoreError:
                await anyio.sleep(0.05)
                continue
            if isinstance(answer, Grant):
                return answer
            await store.changed(answer)


async def until(seen: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that will happen; fails if it does not."""
    with anyio.fail_after(LIMIT_S):
        while not await seen():  # noqa: ASYNC110  (another process does it)
            await anyio.sleep(0.05)


async def sql(cluster: Database, statement: str, node: Node | None = None) -> str:
    return await asyncio.to_thread(lambda: cluster.sql(statement, node=node))


def at(cluster: Database, node: int, options: str = "") -> str:
    """The URL of one server."""
    return cluster.url.replace(",".join(cluster.endpoints), cluster.endpoints[node]) + options


class SqlRig:
    """One server in real time. ``offices`` is the table with a row for each election."""

    ttl_ns = 5_000_000_000  # A fifth of it is what one request has: a disk that others sync to may need all of that.

    def __init__(self, cluster: Database, options: str, offices: str) -> None:
        self.cluster, self.url, self._offices = cluster, f"{cluster.url}?{options}", offices

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with make_store(self.url, {}) as store:
            yield store

    async def delete_record(self, election: str) -> None:
        await sql(self.cluster, f"DELETE FROM {self._offices} WHERE election = '{election}'")  # noqa: S608

    async def restart(self) -> None:
        await asyncio.to_thread(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)
