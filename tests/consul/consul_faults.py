"""What the tests of faults on Consul have in common."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.settings import settings_of
from tenure.errors import StoreError
from tenure.model import Ended, Grant
from tenure.office.opened import OpenStore
from tenure.stores.consul.layout import LOCK_FLAG
from tenure.stores.consul.store import ConsulStore
from tenure.testing.engines import ConsulCluster, Node
from tests.etcd.etcd_faults import Candidate, bid_of, until
from tests.leaping import LeapingClock
from tests.proxy import Proxy


def store_of(opened: OpenStore) -> ConsulStore:
    store = opened.store
    assert isinstance(store, ConsulStore)
    return store


def member_of(opened: OpenStore, cluster: ConsulCluster) -> Node:
    """The node that the next request of a store goes to."""
    endpoint = store_of(opened)._client._endpoints[0]
    return next(node for node in (*cluster.nodes, *cluster.agents) if node.endpoint == endpoint)


async def stands_by(opened: OpenStore, candidate: Candidate) -> None:
    """Wait until a candidate waits for its turn."""
    name = candidate.election.name
    await until(lambda: any(one.bid.election == name and one.waiting for one in store_of(opened)._places))


def pair_of(cluster: ConsulCluster, name: str) -> dict[str, Any]:
    """The key of an election as Consul shows it; its value is read."""
    (pair,) = json.loads(cluster.api("GET", f"/v1/kv/{name}/.lock?consistent"))
    pair["Value"] = base64.b64decode(pair["Value"] or "").decode()
    found: dict[str, Any] = {"Session": "", **pair}  # Nobody's is left out.
    return found


def lock_by_hand(cluster: ConsulCluster, name: str, *, ttl: str = "60s", delay: str = "0s") -> str:
    """Take an election as the Go api does, and return the session."""
    body = {"Name": "by hand", "TTL": ttl, "LockDelay": delay}
    session = str(json.loads(cluster.api("PUT", "/v1/session/create", body))["ID"])
    path = f"/v1/kv/{name}/.lock?acquire={session}&flags={LOCK_FLAG}"
    assert cluster.api("PUT", path).strip() == "true"
    return session


def session_lives(cluster: ConsulCluster, session: str) -> bool:
    """Say whether the servers know a session."""
    return bool(json.loads(cluster.api("GET", f"/v1/session/info/{session}?consistent")))


@asynccontextmanager
async def apart(cluster: ConsulCluster) -> AsyncIterator[tuple[Proxy, ConsulStore, LeapingClock]]:
    """A store that reaches its cluster through a proxy. What is really there, ``pair_of`` tells."""
    clock = LeapingClock()
    async with (
        Proxy(cluster.endpoints[0]) as proxy,
        ConsulStore(
            ConsulClient(settings_of(f"consul://{proxy.endpoint}?timeout=1&lock_delay=0")), clock=clock
        ) as store,
    ):
        yield proxy, store, clock


@asynccontextmanager
async def lasting(store: ConsulStore, name: str) -> AsyncIterator[Grant]:
    """A tenure that is renewed all the while, and so keeps the session alive that it shares with others."""
    grant = await store.claim(bid_of(name))
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
