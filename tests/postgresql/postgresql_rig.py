"""What the tests of the PostgreSQL store share."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from tenure.errors import StoreError
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.base import Store
from tenure.testing.engines import PostgresCluster
from tenure.testing.engines.cluster import Node

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


async def sql(cluster: PostgresCluster, statement: str, node: Node | None = None) -> str:
    return await asyncio.to_thread(lambda: cluster.sql(statement, node=node))


def at(cluster: PostgresCluster, node: int, options: str = "") -> str:
    """The URL of one server."""
    return f"postgresql://postgres@{cluster.endpoints[node]}/postgres{options}"
