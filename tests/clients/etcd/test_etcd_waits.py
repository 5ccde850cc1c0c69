"""Waits for a deletion: never late, not woken by what is none of their business, and all over one stream."""

import asyncio
from collections.abc import Iterator

import pytest

from tenure.clients.etcd import codec
from tenure.clients.etcd.client import EtcdClient
from tenure.errors import Refused
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import (
    Forwarder,
    armed,
    client_of,
    delete,
    follower_of,
    fresh_key,
    play,
    put,
    until,
)
from tests.etcd.etcd_faults import counted


@pytest.fixture
def cluster(etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    yield etcd
    etcd.mend()


def test_a_wait_ends_with_the_deletion_of_its_key_and_with_nothing_else(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(cluster) as client:
            revision = await put(client, key)
            wait = asyncio.create_task(client.deleted(key, revision))
            other = asyncio.create_task(client.deleted(key + b"/other", revision))
            await armed(client, 2)
            await put(client, key, b"again")
            await put(client, key + b"/more")
            await delete(client, key + b"/more")
            await delete(client, key)
            await wait
            assert not other.done()
            await until(lambda: len(client._watches._armed) == 1)

    play(story())


def test_a_deletion_before_the_wait_began_ends_it_at_once_if_it_came_after_the_revision(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(cluster) as client:
            revision = await put(client, key)
            await delete(client, key)
            again = await put(client, key)
            await client.deleted(key, revision)
            later = asyncio.create_task(client.deleted(key, again))
            await armed(client)
            assert not later.done()
            await delete(client, key)
            await later

    play(story())


def test_all_waits_share_one_stream(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(cluster) as client:
            revision = await put(client, key)
            before = counted(cluster)["started Watch"]
            waits = [asyncio.create_task(client.deleted(key, revision)) for _ in range(300)]
            await armed(client, 300)
            assert counted(cluster)["started Watch"] - before == 1
            await delete(client, key)
            await asyncio.gather(*waits)
            assert client._watches._armed == {}

    play(story())


def test_a_killed_member_wakes_nobody_and_every_wait_goes_on_elsewhere(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key, dead = fresh_key(), follower_of(cluster)
        async with client_of(cluster, dead) as client:
            revision = await put(client, key)
            waits = [asyncio.create_task(client.deleted(key + b"/%d" % n, revision)) for n in range(50)]
            await armed(client, 50)
            dead.kill()
            await until(lambda: client.endpoint != dead.endpoint)
            await armed(client, 50)
            assert not any(wait.done() for wait in waits)
            for number in range(50):
                await put(client, key + b"/%d" % number)
                await delete(client, key + b"/%d" % number)
            await asyncio.gather(*waits)

    play(story())


def test_a_deletion_while_the_connection_is_down_is_not_missed(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with (
            Forwarder(cluster.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder") as client,
            client_of(cluster) as direct,
        ):
            revision = await put(client, key)
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            await forwarder.hang_up()
            await delete(direct, key)
            await put(direct, key, b"somebody else's")  # The engine has gone on since.
            assert not wait.done()
            await forwarder.listen()
            await wait

    play(story())


def test_a_deletion_of_the_past_is_not_missed_if_the_connection_broke_before_etcd_told_of_it(
    cluster: EtcdCluster,
) -> None:
    async def story() -> None:
        key = fresh_key()
        async with (
            Forwarder(cluster.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder") as client,
            EtcdClient([cluster.endpoints[0]], address="etcd://direct") as direct,
        ):
            revision = await put(direct, key)
            deleted_at = await delete(direct, key)
            forwarder.messages_left = 1
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            await until(lambda: forwarder.deaf)
            header, answer = codec.decode_watch(forwarder.last_message)
            assert answer.created
            assert (
                header.revision >= deleted_at
            )  # Whoever goes on from what is said here will not hear of the deletion.
            assert not wait.done()
            await forwarder.hang_up()
            forwarder.deaf = False
            await forwarder.listen()
            await wait

    play(story())


def test_a_frozen_member_is_noticed_while_only_a_watch_is_open(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key, frozen = fresh_key(), follower_of(cluster)
        elsewhere = [endpoint for endpoint in cluster.endpoints if endpoint != frozen.endpoint]
        async with (
            EtcdClient(elsewhere, address="etcd://elsewhere", call_timeout_s=20) as other,
            client_of(cluster, frozen, call_timeout_s=1.5, idle_s=0.3) as client,
        ):
            revision = await put(client, key)
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            frozen.pause()
            await delete(other, key)
            await wait
            assert client.endpoint != frozen.endpoint

    play(story())


def test_looking_often_costs_no_connection(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(cluster, idle_s=0.02) as client:
            revision = await put(client, key)
            connection = client._connection
            before = counted(cluster)["started Range"]
            wait = asyncio.create_task(client.deleted(key, revision))
            # A hundred pings at this pace would have been answered with too_many_pings.
            await until(lambda: counted(cluster)["started Range"] >= before + 100)
            assert client._connection is connection
            assert not wait.done()
            await delete(client, key)
            await wait

    play(story())


def test_a_member_without_a_leader_is_left_although_it_answers(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key, lonely = fresh_key(), follower_of(cluster)
        others = [node for node in cluster.nodes if node is not lonely]
        async with client_of(cluster, lonely, idle_s=3600) as client:
            revision = await put(client, key)
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            for node in others:
                node.kill()
            await until(lambda: client.endpoint != lonely.endpoint)
            assert not wait.done()
            cluster.mend()
            await delete(client, key)
            await wait

    play(story())


def test_a_wait_whose_past_was_compacted_ends_early_and_not_never(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(cluster) as client:
            revision = await put(client, key)
            await put(client, key)
            latest = await put(client, key)
            await asyncio.to_thread(cluster.ctl, "compact", str(latest))
            await client.deleted(key, revision)
            wait = asyncio.create_task(client.deleted(key, latest))
            await armed(client)
            assert not wait.done()
            await delete(client, key)
            await wait

    play(story())


def test_a_client_that_is_closed_tells_whoever_waits(cluster: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(cluster) as client:
            wait = asyncio.create_task(client.deleted(fresh_key(), 1 << 40))
            await armed(client)
        with pytest.raises(Refused, match="closed"):
            await wait
        with pytest.raises(Refused, match="not open"):
            await put(client, b"k")

    play(story())
