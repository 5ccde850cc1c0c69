"""A cluster that is full: whoever leads goes on, nobody else begins, and all of it is told."""

import asyncio
from collections.abc import Iterator

import pytest

import tenure
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Put, Txn
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown
from tenure.model import Grant
from tenure.stores.etcd import from_url
from tenure.testing.engines import Binary, EtcdCluster
from tests.etcd.etcd_faults import Candidate, bid_of, keys, now_ns, play

QUOTA_BYTES = 4 << 20


@pytest.fixture(scope="module")
def small(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    with EtcdCluster(binary=etcd_binary, options=(f"--quota-backend-bytes={QUOTA_BYTES}",)) as cluster:
        yield cluster


async def fill(client: EtcdClient) -> None:
    """Write until the alarm is raised."""
    full = None
    while full is None:
        try:
            await client.txn(Txn((), (Put(b"ballast", bytes(1 << 19)),), ()), operation="fill")
        except OutcomeUnknown as error:
            full = error
    assert "database is full" in str(full)
    assert {alarm.kind for alarm in await client.alarms()} == {"NOSPACE"}


def make_room(cluster: EtcdCluster, revision: int) -> None:
    cluster.ctl("compact", str(revision))
    cluster.ctl("defrag")
    cluster.ctl("alarm", "disarm")


def test_in_a_full_cluster_a_leader_renews_and_leaves_and_nobody_begins_until_there_is_room(small: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(small.url) as store,
            from_url(small.url) as other,
            client_of(small.url) as client,
        ):
            held = await other.claim(bid_of("held", ttl_s=600))
            assert isinstance(held, Grant)
            async with Candidate(store, "led") as ada:
                await ada.leads()
                await fill(client)
                await ada.renews(now_ns())
                bid = bid_of("new", ttl_s=600)
                line = (
                    "its database is full: compact and defragment it, or raise its quota, then disarm the NOSPACE alarm"
                )
                with pytest.raises(OutcomeUnknown, match=line):
                    await other.claim(bid)
                await ada.renews(now_ns())
            # To delete needs no room.
            assert await keys(client, "led") == ()
            await other.release(held.bid)
            assert await keys(client, "held") == ()
            await asyncio.to_thread(make_room, small, client.revision)
            granted = await other.claim(bid)
            assert isinstance(granted, Grant)
            assert granted.token > held.token

    play(story())
