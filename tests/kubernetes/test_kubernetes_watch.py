"""One watch for all that a store waits for: what it costs, and what becomes of it when the API server forgets or goes away."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.clients.kubernetes.watch import Watch
from tenure.stores.kubernetes import from_url
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import (
    LEASES,
    KubernetesRig,
    bid,
    by_kubectl,
    operator,
    takes_over,
    until,
    waits,
    wins,
    with_proxy,
)
from tests.proxy import Proxy

pytestmark = pytest.mark.anyio

LONG_NS = 600 * 10**9
_WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*resource="leases".*verb="WATCH".*\} (\d+)$', re.MULTILINE)


async def watch_count(cluster: KubernetesCluster) -> int:
    """How many watches on Leases the API server has open, as it counts them."""
    return sum(map(int, _WATCHES.findall(await by_kubectl(cluster, "get", "--raw", "/metrics"))))


@asynccontextmanager
async def dead_end() -> AsyncIterator[str]:
    """The address of one who hangs up on everybody."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def compact(cluster: KubernetesCluster) -> None:
    """Have the etcd below forget everything but what is there now."""
    status = await asyncio.to_thread(cluster.etcd.ctl, "endpoint", "status", "--write-out=fields")
    revision = re.search(r'"Revision" : (\d+)', status)
    assert revision is not None
    await asyncio.to_thread(cluster.etcd.ctl, "compact", revision[1])


async def test_fifty_waits_have_one_watch_and_ask_nothing_while_nothing_changes(cluster: KubernetesCluster) -> None:
    before = await watch_count(cluster)
    async with from_url(cluster.url) as leading, from_url(cluster.url) as waiting:
        grants = [await wins(leading, bid(f"fifty-{number}", ttl_ns=LONG_NS)) for number in range(50)]
        asked = [await waits(waiting, bid(f"fifty-{number}", ttl_ns=LONG_NS)) for number in range(50)]
        changes = [asyncio.create_task(waiting.changed(wait)) for wait in asked]
        counted = waiting.client.request_count
        assert await watch_count(cluster) - before == 2  # one for each store
        for grant in grants[:25]:
            assert await leading.renew(grant) == grant
        # Whoever is released is woken, in the order of events: by then every renewal was heard of.
        await leading.release(grants[-1].bid)
        await asyncio.wait_for(changes[-1], 30)
        assert not any(change.done() for change in changes[:-1])
        assert waiting.client.request_count == counted
        for change in changes:
            change.cancel()
        await asyncio.wait(changes)


async def test_a_process_that_only_reads_has_no_watch(cluster: KubernetesCluster) -> None:
    before = await watch_count(cluster)
    async with from_url(cluster.url) as store:
        await store.read("reading")
        await store.elections()
        assert await watch_count(cluster) == before


async def test_what_a_renewal_and_a_tenure_cost_is_counted(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid("counted"))
        counted = store.client.request_count
        for _ in range(5):
            assert await store.renew(grant) == grant
        assert store.client.request_count - counted == 5
        await store.release(grant.bid)
        counted = store.client.request_count
        again = bid("counted", grant.bid.holder, 2)
        await wins(store, again)
        await store.release(again)
        assert store.client.request_count - counted == 2


async def test_a_version_that_the_api_server_has_forgotten_begins_the_watch_anew(cluster: KubernetesCluster) -> None:
    heard: list[str] = []
    anew: list[None] = []
    async with from_url(cluster.url) as store, operator(cluster.url) as by_hand:
        await wins(store, bid("gone"))
        await compact(cluster)
        await KubernetesRig(cluster).restart()  # Else the API server remembers for longer than its etcd.
        watch = Watch(
            by_hand.client,
            LEASES,
            lambda what, thing: heard.append(f"{what} {thing['metadata']['name']}"),
            lambda: anew.append(None),
        )
        watch._version = "1"  # as one has whose connection was cut for longer than anybody remembers
        try:
            await watch.begin()

            async def begun_anew() -> bool:
                return bool(anew)

            await until(begun_anew)
            await wins(store, bid("gone-after"))

            async def events_come() -> bool:
                return "ADDED gone-after" in heard

            await until(events_come)
            assert len(anew) == 1
        finally:
            await watch.end()


async def test_a_release_between_two_watches_is_heard_of_by_the_second(cluster: KubernetesCluster) -> None:
    async with (
        Proxy(cluster.endpoints[0]) as proxy,
        from_url(cluster.url) as leading,
        from_url(with_proxy(cluster, proxy.endpoint)) as waiting,
    ):
        grant = await wins(leading, bid("between", ttl_ns=LONG_NS))
        wait = await waits(waiting, bid("between", ttl_ns=LONG_NS))
        standby = asyncio.create_task(takes_over(waiting, wait))
        for connection in proxy._tasks:
            connection.cancel()
        await asyncio.wait(proxy._tasks)
        await leading.release(grant.bid)
        assert (await standby).token == grant.token + 1


async def test_a_release_that_the_api_server_has_forgotten_is_found_by_who_was_cut_off(
    cluster: KubernetesCluster,
) -> None:
    async with (
        Proxy(cluster.endpoints[0]) as proxy,
        from_url(cluster.url) as leading,
        from_url(with_proxy(cluster, proxy.endpoint)) as waiting,
    ):
        grant = await wins(leading, bid("compacted", ttl_ns=LONG_NS))
        wait = await waits(waiting, bid("compacted", ttl_ns=LONG_NS))
        standby = asyncio.create_task(takes_over(waiting, wait))
        async with dead_end() as nowhere:
            proxy.turn_to(nowhere)
            assert await leading.renew(grant) == grant
            await leading.release(grant.bid)
            await compact(cluster)
            await KubernetesRig(cluster).restart()
            assert not standby.done()
        proxy.turn_to(cluster.endpoints[0])
        assert (await standby).token == grant.token + 1
