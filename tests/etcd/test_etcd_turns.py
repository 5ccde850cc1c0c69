"""A standby gets its turn whatever was done to its key, or to what etcd remembers, while it waited."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import tenure
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Range
from tenure.clients.etcd.opening import client_of
from tenure.model import Grant, Wait
from tenure.office.opened import OpenStore
from tenure.stores.etcd import from_url
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import Candidate, bid_of, ctl, keys, member_of, play, store_of, until

# Whoever stands with this ttl asks again by itself only after its test has lost patience: it has to be told.
PATIENT_TTL_S = 60.0
Meddle = Callable[[EtcdClient, OpenStore], Awaitable[None]]


async def turn_of(etcd: EtcdCluster, name: str, meddle: Meddle) -> tuple[KeyValue, KeyValue]:
    """Have somebody wait, meddle, and see that it leads when the leader leaves.

    Returns the key by which it waited and the key by which it leads. That is the only one there is: an office that was taken
    on the word of a key that is gone, as a win in Go may be, has a larger token than the one before as well.
    """
    async with (
        tenure.open_store(etcd.url) as one,
        tenure.open_store(etcd.url) as two,
        client_of(etcd.url) as client,
        AsyncExitStack() as leaves,
    ):
        ada = await leaves.enter_async_context(Candidate(one, name, PATIENT_TTL_S))
        await ada.leads()
        async with Candidate(two, name, PATIENT_TTL_S) as bob:
            await bob.waits(etcd)
            await until(lambda: len(armed_of(two)) == 1)
            first, second = await keys(client, name)
            assert [first.create_revision] == ada.tokens
            await meddle(client, two)
            await leaves.aclose()
            await bob.leads()
            (led,) = await keys(client, name)
            assert bob.tokens == [led.create_revision]
            return second, led


def armed_of(store: OpenStore) -> list[int]:
    """The revisions from which the watches of a store begin, of those that etcd has taken over."""
    return [wait.start_revision for wait in list(store_of(store)._client._watches._armed.values())]


async def compact(etcd: EtcdCluster, client: EtcdClient) -> None:
    """Have etcd forget all that was before now."""
    for value in ("else", "again"):  # A watch from the next revision on is not from before.
        await ctl(etcd, "put", "something", value)
    await client.range(Range(b"nothing", limit=1, keys_only=True), operation="look")
    await ctl(etcd, "compact", str(client.revision))


def test_a_waiter_whose_key_is_deleted_leads_by_a_newer_one_and_never_by_the_one_that_is_gone(
    etcd: EtcdCluster,
) -> None:
    async def push_out(client: EtcdClient, _: OpenStore) -> None:
        await ctl(etcd, "del", (await keys(client, "pushed out"))[1].key.decode())

    async def story() -> None:
        deleted, led = await turn_of(etcd, "pushed out", push_out)
        assert led.create_revision > deleted.create_revision

    play(story())


def test_a_compaction_while_a_standby_watches_costs_it_neither_its_place_nor_its_turn(etcd: EtcdCluster) -> None:
    async def forget(client: EtcdClient, store: OpenStore) -> None:
        (begins_at,) = armed_of(store)
        await compact(etcd, client)
        assert begins_at < client.revision

    async def story() -> None:
        waited, led = await turn_of(etcd, "compacted", forget)
        assert led == waited

    play(story())


def test_a_watch_that_breaks_after_a_compaction_begins_anew_from_what_etcd_still_knows(cluster: EtcdCluster) -> None:
    async def forget_and_break(client: EtcdClient, store: OpenStore) -> None:
        (begins_at,) = armed_of(store)
        await compact(cluster, client)
        await asyncio.to_thread(member_of(store, cluster).kill)
        # It is told that what it waits for is forgotten, looks for itself, and waits again.
        await until(lambda: [revision > begins_at for revision in armed_of(store)] == [True])

    async def story() -> None:
        waited, led = await turn_of(cluster, "compacted and broken", forget_and_break)
        assert led == waited

    play(story())


def test_a_watch_from_before_a_compaction_says_at_once_that_claiming_may_help(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(etcd.url) as store, from_url(etcd.url) as other, client_of(etcd.url) as client:
            first = await other.claim(bid_of("forgotten", ttl_s=PATIENT_TTL_S))
            waits = await store.claim(bid_of("forgotten", ttl_s=PATIENT_TTL_S))
            assert isinstance(waits, Wait)
            await other.release(first.bid)
            await compact(etcd, client)
            await store.changed(waits)  # The deletion that it waits for cannot be told any more.
            assert isinstance(await store.claim(waits.bid), Grant)

    play(story())
