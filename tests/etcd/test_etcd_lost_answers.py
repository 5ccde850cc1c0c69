"""Requests that come late, and answers that never come: nothing is granted twice, and no key is left behind.

The stores here reach the cluster through a proxy; a client that goes straight to it says what is really there.
"""

import asyncio

import pytest

from tenure.clients.etcd.messages import Put, Txn, created
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Ended, Grant, Holder, Token, Wait
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import appears, bid_of, disappears, keys, play, revision_of, until, until_so
from tests.etcd.etcd_proxy import apart, lasting
from tests.proxy import Proxy


def test_a_claim_whose_answer_was_lost_is_found_again_with_the_same_token(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _):
            bid = bid_of("lost")
            other = await store.claim(bid_of("lost/other"))  # There is a lease, and a stream of renewals.
            assert isinstance(other, Grant)
            proxy.lose_answers()
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)

            async def carried_out() -> bool:
                return any(b"other" not in kv.key for kv in await keys(direct, "lost"))

            await until_so(carried_out)  # Whoever gave it up need not have waited for that.
            (key,) = [kv for kv in await keys(direct, "lost") if b"other" not in kv.key]
            assert await store.claim(bid) == Grant(bid, Token(key.create_revision))
            assert await keys(direct, "lost/other") != ()
            assert [kv for kv in await keys(direct, "lost") if b"other" not in kv.key] == [key]

    play(story())


@pytest.mark.parametrize("asked", [False, True], ids=["as it was written", "with a word to resign"])
def test_a_claim_that_arrives_after_its_release_is_deleted_although_its_lease_lives_on(
    etcd: EtcdCluster, asked: bool
) -> None:
    async def story() -> None:
        name = f"late-{asked}"
        async with apart(etcd) as (proxy, store, direct, _), lasting(store, f"{name}-kept"):
            late = bid_of(name)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.claim(late)
            await store.release(late)
            assert await keys(direct, name) == ()
            since = await revision_of(direct)
            proxy.deliver()
            seen = await appears(direct, name, since)
            if asked:  # A value that is not the one that was put must not keep it either, unless it is gone already.
                there = created(seen.key, seen.create_revision)
                await direct.txn(Txn((there,), (Put(seen.key, b"resign!", seen.lease),)), operation="overwrite")
            await disappears(direct, name)
            assert (await keys(direct, f"{name}-kept"))[0].lease == seen.lease

    play(story())


def test_two_claims_of_one_name_that_arrive_late_are_both_deleted(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _), lasting(store, "twice-kept"):
            holder = Holder.fresh()
            for serial in (1, 3):
                proxy.hold_requests()
                with pytest.raises(OutcomeUnknown):
                    await store.claim(bid_of("twice", holder, serial))
                await store.release(bid_of("twice", holder, serial))
                await store.claim(bid_of("twice", holder, serial + 1))
                await store.release(bid_of("twice", holder, serial + 1))
            since = await revision_of(direct)
            proxy.deliver()
            await appears(direct, "twice", since)
            await disappears(direct, "twice")
            # Nobody else's key is hit by that, although it has the same holder and the same name.
            bid = bid_of("twice", holder, 5)
            while not isinstance(again := await store.claim(bid), Grant):
                await store.changed(again)  # The second one has come only now, and goes again.
            assert await store.renew(again) == again

    play(story())


def test_a_release_that_arrives_late_ends_nobody_elses_tenure(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _), lasting(store, "late release-kept"):
            holder = Holder.fresh()
            first = await store.claim(bid_of("late release", holder, 1))
            assert isinstance(first, Grant)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.release(first.bid)
            again = bid_of("late release", holder, 2)
            while not isinstance(second := await store.claim(again), Grant):
                await store.changed(second)
            proxy.deliver()
            await until(lambda: not proxy.held_bytes)
            assert second.token > first.token
            assert await store.renew(second) == second
            assert await store.renew(first) == Ended(first.bid, first.token)
            (key,) = await keys(direct, "late release")
            assert key.create_revision == second.token

    play(story())


def test_a_release_without_an_answer_is_repeated_until_the_key_is_gone(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _), lasting(store, "unanswered-kept"):
            grant = await store.claim(bid_of("unanswered"))
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.release(grant.bid)
            await disappears(direct, "unanswered")  # Nothing of what was kept back was delivered.

    play(story())


def test_a_bid_that_claims_while_its_place_is_given_up_stands_anew_and_can_leave(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, clock):
            bid = bid_of("given up")
            first = await store.claim(bid)
            assert isinstance(first, Grant)
            proxy.hold_requests()
            clock.ahead_ns += 2 * bid.ttl_ns  # Its holder has not asked for longer than its lease would have lasted.
            place = store._places.find(bid)
            assert place is not None
            await until(lambda: place.busy is not None)
            claim = asyncio.create_task(store.claim(bid))
            await asyncio.sleep(0)
            proxy.deliver()
            second = await claim
            assert isinstance(second, Grant)
            assert second.token > first.token
            assert await store.renew(second) == second
            assert await store.renew(first) == Ended(bid, first.token)
            await store.release(bid)
            assert await keys(direct, "given up") == ()

    play(story())


def test_a_release_that_is_given_up_while_a_claim_is_under_way_still_takes_place(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _):
            bid = bid_of("impatient", ttl_s=600)  # So long that nothing but the release can end it here.
            first = await store.claim(bid_of("impatient/other", ttl_s=600))
            proxy.hold_requests()
            calls = [asyncio.create_task(store.claim(bid)), asyncio.create_task(store.release(bid))]
            await until(lambda: proxy.held_bytes > 0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            proxy.deliver()
            await store.release(first.bid)
            # Before that there may be no key because it has not been put yet.
            await store._turns.all_ended()
            assert await keys(direct, "impatient") == ()
            assert await store.read("impatient") is None

    play(story())


def test_a_standby_that_claims_again_after_it_was_given_up_goes_to_the_end_of_the_queue(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (_, store, direct, clock), EtcdStore(client_of(etcd.url)) as others:
            leader = await others.claim(bid_of("requeued", ttl_s=60))
            bid = bid_of("requeued")
            waits = await store.claim(bid)
            assert isinstance(leader, Grant)
            assert isinstance(waits, Wait)
            woken = asyncio.create_task(store.changed(waits))
            clock.ahead_ns += 4 * bid.ttl_ns
            await woken
            third = await others.claim(bid_of("requeued", ttl_s=60))
            assert isinstance(await store.claim(bid), Wait)
            await others.release(leader.bid)
            assert isinstance(await others.claim(third.bid), Grant)
            assert isinstance(await store.claim(bid), Wait)
            assert len(await keys(direct, "requeued")) == 2

    play(story())


def test_a_store_that_is_closed_while_nothing_answers_ends_within_its_deadlines(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with Proxy(etcd.endpoints[0]) as proxy, client_of(etcd.url) as direct:
            async with EtcdStore(client_of(f"etcd://{proxy.endpoint}")) as store:
                waits = await store.claim(bid_of("closed"))
                behind = await store.claim(bid_of("closed"))
                assert isinstance(waits, Grant)
                assert isinstance(behind, Wait)
                watch = asyncio.create_task(store.changed(behind))
                proxy.hold_requests()
                claims = [asyncio.create_task(store.claim(bid_of(f"closed/{n}"))) for n in range(20)]
                await until(lambda: proxy.held_bytes > 0)
            told = await asyncio.gather(watch, *claims, return_exceptions=True)
            assert all(isinstance(one, StoreError | Grant) for one in told), told
            proxy.deliver()
            # Where nobody may lead any more nothing is left once the leases have ended.
            for name in ("closed", *(f"closed/{n}" for n in range(20))):
                await disappears(direct, name)

    play(story())
