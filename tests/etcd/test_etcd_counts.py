"""What reaches the engine, by its own count: one renewal for any number of elections, and no herd."""

import asyncio
from contextlib import AsyncExitStack

import pytest

import tenure
from tenure.clients.etcd.opening import client_of
from tenure.model import Grant, Holder, Wait
from tenure.stores.etcd import from_url
from tenure.testing.engines import EtcdCluster
from tenure.timing import Timing
from tests.etcd.etcd_faults import Candidate, bid_of, counted, keys, now_ns, play, until

KEEPALIVES = "msg_received LeaseKeepAlive"
GRANTS = "started LeaseGrant"
# Long, so that a busy machine ends no tenure while renewals are counted.
TIMING = Timing.of(ttl=24, heartbeat=2, attempt_timeout=5)


@pytest.mark.parametrize("count", [1, 300])
def test_elections_led_through_one_store_share_one_lease_and_one_renewal(newest: EtcdCluster, count: int) -> None:
    async def story() -> None:
        before = counted(newest)
        async with tenure.open_store(newest.url) as store, AsyncExitStack() as leading:
            led = [Candidate(store, f"many/{count}/{number}", timing=TIMING) for number in range(count)]
            for first in range(0, count, 50):  # Each claim has its deadline, and what is counted begins later.
                some = led[first : first + 50]
                await asyncio.gather(*(leading.enter_async_context(candidate) for candidate in some))
                await asyncio.gather(*(candidate.leads() for candidate in some))
            # Once around: their claims fell on any time of a heartbeat, and so does the first renewal of each.
            await asyncio.gather(*(candidate.renews(now_ns()) for candidate in led))
            begin, began_at = counted(newest), now_ns()
            for _ in range(2):
                await asyncio.gather(*(candidate.renews(now_ns()) for candidate in led))
            heartbeat_ns = led[0].election.timing.renew_every_ns
            heartbeats = (now_ns() - began_at) / heartbeat_ns
            sent = counted(newest) - begin
            assert sent[KEEPALIVES] <= heartbeats + 1
            assert sent["started Txn"] + sent["started LeaseTimeToLive"] <= 2 * sent[KEEPALIVES]
            assert counted(newest)[GRANTS] - before[GRANTS] == 1
            async with client_of(newest.url) as client:
                assert len({kv.lease for kv in await keys(client, f"many/{count}")}) == 1

    play(story())


def test_two_stores_of_one_process_have_a_lease_each_and_closing_one_ends_its_own_alone(newest: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(newest.url) as store, client_of(newest.url) as client:
            grant = await store.claim(bid_of("stores/stays", ttl_s=60))
            assert isinstance(grant, Grant)
            async with from_url(newest.url) as other:
                waits = await other.claim(bid_of("stores/stays", ttl_s=60))
                assert isinstance(waits, Wait)
                assert len({kv.lease for kv in await keys(client, "stores/stays")}) == 2
            (key,) = await keys(client, "stores/stays")
            assert key.create_revision == grant.token
            assert await store.renew(grant) == grant

    play(story())


def test_a_second_tenure_in_one_election_has_a_larger_token_on_the_same_lease(newest: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(newest.url) as store, client_of(newest.url) as client:
            holder = Holder.fresh()
            tokens, leases = [], []
            for serial in range(1, 6):
                grant = await store.claim(bid_of("again", holder, serial))
                assert isinstance(grant, Grant)
                (key,) = await keys(client, "again")
                tokens.append(grant.token)
                leases.append(key.lease)
                if serial % 2:  # A larger serial ends what went before it, released or not.
                    await store.release(grant.bid)
            assert tokens == sorted(set(tokens))
            assert len(set(leases)) == 1

    play(story())


def test_a_leader_of_two_hundred_standbys_who_leaves_wakes_one_of_them(newest: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(newest.url) as store:
            leader = await store.claim(bid_of("herd", ttl_s=600))
            waits = [await store.claim(bid_of("herd", ttl_s=600)) for _ in range(200)]
            assert isinstance(leader, Grant)
            watching = {asyncio.create_task(store.changed(wait)): wait.bid for wait in waits if isinstance(wait, Wait)}
            assert len(watching) == 200
            await until(lambda: len(store._client._watches._armed) == 200)
            before = counted(newest)
            await store.release(leader.bid)
            woken, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
            successor = await store.claim(watching[woken.pop()])
            sent = counted(newest) - before
            assert isinstance(successor, Grant)
            assert successor.bid == waits[0].bid
            # The release, and the claim with its renewal. A stream is not a call, but what is sent on it counts.
            assert sum(sent[call] for call in sent if call.startswith("msg_received")) <= 5, sent
            assert not woken
            for watch in watching:
                watch.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    play(story())
