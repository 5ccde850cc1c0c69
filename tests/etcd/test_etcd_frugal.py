"""What a cluster need not have, and is not asked for: progress of watches, and the gateway for JSON."""

import asyncio

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Delete, Put, Txn
from tenure.clients.etcd.opening import client_of
from tenure.model import Grant, Wait
from tenure.stores.etcd import from_url
from tenure.testing.engines import Binary, EtcdCluster
from tests.etcd.etcd_faults import bid_of, counted, play, until

WATCHED = "msg_received Watch"
IDLE_S = 0.1


def test_a_watch_that_is_idle_sends_nothing_but_its_creation_and_its_end(newest: EtcdCluster) -> None:
    """A request for progress on a watch that is being made is answered by etcd for all watches, and may lose news."""

    async def story() -> None:
        async with (
            EtcdClient(newest.endpoints, address=newest.url, idle_s=IDLE_S) as client,
            client_of(newest.url) as direct,
        ):
            before = counted(newest)
            made = await direct.txn(Txn((), (Put(b"idle/0", b""), Put(b"idle/1", b""))), operation="put")
            waits = [asyncio.create_task(client.deleted(b"idle/%d" % n, made.revision)) for n in range(2)]
            await until(lambda: len(client._watches._armed) == 2)
            # Whoever is silent for so long is looked at, again and again: by reads, which are no part of the stream.
            await until(lambda: (counted(newest) - before)["started Range"] >= 5)
            assert (counted(newest) - before)[WATCHED] == 2
            await direct.txn(Txn((), (Delete(b"idle/0"),)), operation="delete")
            await waits[0]
            waits[1].cancel()
            await asyncio.wait(waits)
            await until(lambda: (counted(newest) - before)[WATCHED] >= 4)
            await direct.txn(Txn((), (Delete(b"idle/1"),)), operation="delete")  # Which is told to nobody any more.
            assert (counted(newest) - before)[WATCHED] == 4  # two were made, and two ended

    play(story())


@pytest.fixture
def without_gateway(etcd_binary: Binary | None) -> "EtcdCluster":
    return EtcdCluster(1, binary=etcd_binary, options=["--enable-grpc-gateway=false"])


def test_a_cluster_without_the_gateway_serves_a_claim_a_wait_and_a_hand_over(without_gateway: EtcdCluster) -> None:
    async def story() -> None:
        with without_gateway as cluster:
            async with from_url(cluster.url) as store, from_url(cluster.url) as other:
                grant = await store.claim(bid_of("no gateway"))
                assert isinstance(grant, Grant)
                assert await store.renew(grant) == grant
                wait = await other.claim(bid_of("no gateway"))
                assert isinstance(wait, Wait)
                told = asyncio.create_task(other.changed(wait))
                await until(lambda: len(other._client._watches._armed) == 1)
                await store.release(grant.bid)
                await told
                assert isinstance(await other.claim(wait.bid), Grant)

    play(story())
