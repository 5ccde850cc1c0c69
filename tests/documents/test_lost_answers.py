"""``store.update`` on real engines, through a proxy: an answer that is lost and a request that comes late make no change twice."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

from tenure.office.updating import flow_of, proceed, read
from tenure.stores.base import Store
from tenure.stores.opening import make_store
from tenure.testing.engines import (
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MariaDbCluster,
    PostgresCluster,
    RedisCluster,
    ZooKeeperEnsemble,
)
from tests.kubernetes.kubernetes_rig import with_proxy
from tests.proxy import Proxy

_LIMIT_S = 60.0

ONCE_EACH = [["first", "second", "third"]] * 2  # however an answer was lost

Fault = Callable[[Proxy], None]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = make_store(url, {}, accept_best_effort=True)
    async with cast("AbstractAsyncContextManager[Store]", store) as entered:
        yield entered


async def updated(store: Store, key: str, name: bytes, before_the_write: Callable[[], None] = lambda: None) -> None:
    """Add a name on this very loop, as the office would, and let something happen between the read and the write."""
    flow = flow_of(store, key, lambda old: (old or b"") + name + b" ", within=_LIMIT_S)
    asked, _ = proceed(flow, None)
    assert asked is not None
    asked, _ = proceed(flow, await asked)
    before_the_write()
    while asked is not None:
        asked, _ = proceed(flow, await asked)


async def names(store: Store, key: str) -> list[str]:
    found = await read(store, key)
    return [] if found is None else found.value.decode().split()


def kept(endpoint: str, url: str, url_through: Callable[[str], str]) -> list[list[str]]:
    """Lose the answer to a write, and hold another one back until long after it was repeated; return what is there then."""

    async def story(fault: Fault) -> list[str]:
        key = f"lost/{secrets.token_hex(4)}"
        async with Proxy(endpoint) as proxy, opened(url_through(proxy.endpoint)) as store, opened(url) as direct:
            await updated(store, key, b"first")
            await updated(store, key, b"second", lambda: fault(proxy))
            assert await names(direct, key) == ["first", "second"], fault
            proxy.deliver()
            await updated(direct, key, b"third")  # behind whatever was delivered, or before it
            return await names(direct, key)

    async def main() -> list[list[str]]:
        async with asyncio.timeout(2 * _LIMIT_S):
            return list(await asyncio.gather(story(Proxy.lose_answers), story(Proxy.hold_requests)))

    return asyncio.run(main())


def test_etcd(etcd: EtcdCluster) -> None:
    assert kept(etcd.endpoints[0], etcd.url, lambda endpoint: f"etcd://{endpoint}") == ONCE_EACH


def test_zookeeper(zookeeper: ZooKeeperEnsemble) -> None:
    assert kept(zookeeper.endpoints[0], zookeeper.url, lambda endpoint: f"zookeeper://{endpoint}") == ONCE_EACH


def test_consul(consul: ConsulCluster) -> None:
    assert kept(consul.endpoints[0], consul.url, lambda endpoint: f"consul://{endpoint}?timeout=1") == ONCE_EACH


def test_kubernetes(kubernetes: KubernetesCluster) -> None:
    assert kept(kubernetes.endpoints[0], kubernetes.url, lambda endpoint: with_proxy(kubernetes, endpoint)) == ONCE_EACH


def test_postgresql(postgresql: PostgresCluster) -> None:
    there = postgresql.endpoints[0]
    assert kept(there, postgresql.url, lambda endpoint: postgresql.url.replace(there, endpoint)) == ONCE_EACH


def test_mysql(mariadb: MariaDbCluster) -> None:
    there = mariadb.endpoints[0]
    assert kept(there, mariadb.url, lambda endpoint: mariadb.url.replace(there, endpoint)) == ONCE_EACH


def test_redis(redis: RedisCluster) -> None:
    assert kept(redis.endpoints[0], redis.url, lambda endpoint: f"redis://{endpoint}") == ONCE_EACH
