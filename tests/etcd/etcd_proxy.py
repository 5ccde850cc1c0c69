"""A store behind a proxy, beside a client that is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.opening import client_of
from tenure.errors import StoreError
from tenure.model import Ended, Grant
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of
from tests.leaping import LeapingClock
from tests.proxy import Proxy


@asynccontextmanager
async def apart(etcd: EtcdCluster) -> AsyncIterator[tuple[Proxy, EtcdStore, EtcdClient, LeapingClock]]:
    """A store behind a proxy, and a client that is not."""
    clock = LeapingClock()
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        client_of(etcd.url) as direct,
        EtcdStore(client_of(f"etcd://{proxy.endpoint}"), clock=clock) as store,
    ):
        yield proxy, store, direct, clock


@asynccontextmanager
async def lasting(store: EtcdStore, name: str, ttl_s: float = 6.0) -> AsyncIterator[Grant]:
    """A tenure that is renewed all the while, and so keeps the lease alive that it shares with others."""
    grant = await store.claim(bid_of(name, ttl_s=ttl_s))
    assert isinstance(grant, Grant)
    answers: list[Grant | Ended] = []

    async def renew() -> None:
        while True:
            with suppress(StoreError):
                answers.append(await store.renew(grant))
            await asyncio.sleep(grant.bid.ttl_ns / 1e9 / 10)

    renewing = asyncio.create_task(renew())
    yield grant
    renewing.cancel()
    await asyncio.wait([renewing])
    assert set(answers) == {grant}
