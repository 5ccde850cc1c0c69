"""A cluster that was restored or replaced behind our back: nothing that was learned from it holds, and we say so."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.errors import OutcomeUnknown, Refused
from tenure.testing.engines import Binary, EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, armed, client_of, fresh_key, get, play, put, until


@pytest.fixture
def single(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    with EtcdCluster(1, binary=etcd_binary) as cluster:
        yield cluster


def rewind(cluster: EtcdCluster, saved: Path) -> None:
    """Put back older data, as a restored snapshot does: the cluster keeps its identity, and its revisions run again."""
    node = cluster.nodes[0]
    node.stop()
    shutil.rmtree(node.folder / "data")
    shutil.copytree(saved, node.folder / "data")
    node.start()


def save(cluster: EtcdCluster, folder: Path) -> Path:
    node = cluster.nodes[0]
    node.stop()
    shutil.copytree(node.folder / "data", folder / "saved")
    node.start()
    return folder / "saved"


def test_a_restored_cluster_is_refused_from_then_on(single: EtcdCluster, tmp_path: Path) -> None:
    saved = save(single, tmp_path)

    async def story() -> None:
        async with client_of(single, call_timeout_s=20) as client:
            for _ in range(5):
                await put(client, fresh_key())
            seen = client.revision
            await asyncio.to_thread(rewind, single, saved)
            await until(lambda: client._connection is not None and client._connection.closed)
            key = fresh_key()
            with pytest.raises(OutcomeUnknown, match=f"went back from revision {seen}"):
                await put(client, key)
            async with client_of(single) as fresh:
                assert (await get(fresh, key)).kvs != ()  # It was carried out by the cluster that it betrayed.
            with pytest.raises(Refused, match="went back"):
                await get(client, key)
            with pytest.raises(Refused, match="went back"):
                await client.lease_grant(60)
            with pytest.raises(Refused, match="went back"):
                await client.lease_renew(1)
            with pytest.raises(Refused, match="went back"):
                await client.deleted(fresh_key(), 1)

    play(story())


def test_a_wait_hears_of_a_restored_cluster(single: EtcdCluster, tmp_path: Path) -> None:
    saved = save(single, tmp_path)

    async def story() -> None:
        async with client_of(single, call_timeout_s=20, idle_s=0.2) as client:
            for _ in range(5):
                await put(client, fresh_key())
            wait = asyncio.create_task(client.deleted(fresh_key(), client.revision))
            await armed(client)
            await asyncio.to_thread(rewind, single, saved)
            with pytest.raises(Refused, match="went back"):
                await wait

    play(story())


def test_another_cluster_at_the_same_address_is_refused(single: EtcdCluster, etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(single.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder", call_timeout_s=20) as client,
        ):
            await put(client, fresh_key())
            forwarder.target = etcd.endpoints[0]
            await forwarder.hang_up()
            await forwarder.listen()
            with pytest.raises(OutcomeUnknown, match="was replaced by cluster"):
                await put(client, fresh_key())
            with pytest.raises(Refused, match="was replaced by cluster"):
                await get(client, fresh_key())

    play(story())


def test_a_replica_that_lags_behind_is_not_taken_for_a_restored_one(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            for _ in range(30):
                await asyncio.gather(*(put(client, fresh_key()) for _ in range(5)))
                connection = client._connection
                assert connection is not None
                client.leave(connection, "the next member may not have heard of it yet")
                assert (await get(client, fresh_key())).kvs == ()

    play(story())
