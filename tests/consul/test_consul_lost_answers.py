"""Requests that come late, and answers that never come: nothing is granted twice, and no key stays in dead hands.

The stores here reach the cluster through a proxy; what is really there is asked for beside it.
"""

import asyncio

import pytest

from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Bid, Ended, Grant, Holder, Token, Wait
from tenure.stores.consul import from_url
from tenure.stores.consul.sessions import Session
from tenure.stores.consul.store import ConsulStore
from tenure.testing.engines import ConsulCluster, EngineFailed
from tests.consul.consul_faults import apart, lasting, lock_by_hand, pair_of
from tests.etcd.etcd_faults import bid_of, play, until


async def ready(consul: ConsulCluster, store: ConsulStore, bid: Bid, *, delete: bool = False) -> None:
    """Have ``bid`` wait for somebody who then goes, so that its next claim asks for the lock and for nothing else."""
    session = await asyncio.to_thread(lock_by_hand, consul, bid.election)
    wait = await store.claim(bid)
    assert isinstance(wait, Wait)
    woken = asyncio.create_task(store.changed(wait))
    gone = ("DELETE", f"/v1/kv/{bid.election}/.lock") if delete else ("PUT", f"/v1/session/destroy/{session}")
    await asyncio.to_thread(consul.api, *gone)
    await woken


def held_by(consul: ConsulCluster, name: str) -> str:
    """The session that holds an election; empty: none does."""
    try:
        return str(pair_of(consul, name)["Session"])
    except EngineFailed:  # There is no such key.
        return ""


def sessions_of(store: ConsulStore) -> list[Session]:
    return [session for alike in store._leases._alike.values() for session in alike]


def test_a_claim_whose_answer_was_lost_is_found_again_with_the_same_token(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _):
            bid = bid_of("lost")
            await ready(consul, store, bid)
            proxy.lose_answers()
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)
            await until(lambda: bool(held_by(consul, "lost")))  # Whoever gave it up need not have waited for that.
            pair = pair_of(consul, "lost")
            assert await store.claim(bid) == Grant(bid, Token(pair["ModifyIndex"]))
            assert pair_of(consul, "lost") == pair

    play(story())


@pytest.mark.parametrize("deleted", [False, True], ids=["the key is there", "there is no key"])
def test_a_lock_that_arrives_after_its_release_takes_nothing(consul: ConsulCluster, deleted: bool) -> None:
    async def story() -> None:
        name = f"late-{deleted}"
        async with apart(consul) as (proxy, store, _), lasting(store, f"{name}-kept"), from_url(consul.url) as other:
            bid = bid_of(name)
            await ready(consul, store, bid, delete=deleted)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)
            await store.release(bid)  # By a new connection, which is not held.
            assert held_by(consul, name) == ""
            proxy.deliver()
            await until(lambda: not proxy.held_bytes)
            # Long enough for it to be carried out: others do the same on the same server meanwhile.
            for serial in range(1, 20):
                grant = await other.claim(Bid(name, other_holder, serial, bid.ttl_ns))
                assert isinstance(grant, Grant), "the late one has taken it"
                await other.release(grant.bid)

    other_holder = Holder.fresh()
    play(story())


def test_a_lock_that_arrives_when_the_key_is_gone_again_takes_nothing(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _), lasting(store, "aba-kept"), from_url(consul.url) as other:
            bid = bid_of("aba")
            await ready(consul, store, bid, delete=True)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)
            await store.release(bid)
            # Deletes the key when it leaves: it is as absent as it was when the claim was sent.
            await asyncio.to_thread(consul.ctl, "lock", "aba", "true")
            proxy.deliver()
            await until(lambda: not proxy.held_bytes)
            for serial in range(1, 20):
                assert not held_by(consul, "aba"), "the late one has taken it, and nobody stands for it"
                grant = await other.claim(Bid("aba", other_holder, serial, bid.ttl_ns))
                assert isinstance(grant, Grant)
                await other.release(grant.bid)

    other_holder = Holder.fresh()
    play(story())


def test_a_release_that_arrives_late_ends_no_later_tenure(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _), lasting(store, "late-release-kept"):
            holder = Holder.fresh()
            first = await store.claim(bid_of("late-release", holder, 1))
            assert isinstance(first, Grant)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.release(first.bid)
            await until(lambda: not held_by(consul, "late-release"))  # Whoever looks after the session has seen to it.
            await until(lambda: not any(one.lingering for one in sessions_of(store)))
            second = await store.claim(bid_of("late-release", holder, 2))
            assert isinstance(second, Grant)
            assert held_by(consul, "late-release") == held_by(consul, "late-release-kept")
            proxy.deliver()
            await until(lambda: not proxy.held_bytes)
            assert second.token > first.token
            for _ in range(20):
                assert await store.renew(second) == second
            assert await store.renew(first) == Ended(first.bid, first.token)
            assert pair_of(consul, "late-release")["ModifyIndex"] == second.token

    play(story())


def test_a_release_without_an_answer_is_repeated_until_the_key_is_free(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _), lasting(store, "unanswered-kept"):
            grant = await store.claim(bid_of("unanswered"))
            assert isinstance(grant, Grant)
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown):
                await store.release(grant.bid)
            assert held_by(consul, "unanswered")  # It is still on its way, and stays there.
            await until(lambda: not held_by(consul, "unanswered"))

    play(story())


def test_a_renewal_without_an_answer_prolongs_nothing_and_the_next_one_does(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _):
            grant = await store.claim(bid_of("renewed"))
            assert isinstance(grant, Grant)
            proxy.lose_answers()
            with pytest.raises(OutcomeUnknown):
                await store.renew(grant)
            assert await store.renew(grant) == grant

    play(story())


def test_a_consul_that_went_back_as_a_restored_one_does_is_refused_whoever_asks_again(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _):
            holder = Holder.fresh()
            first = await store.claim(bid_of("restored", holder, 1))
            assert isinstance(first, Grant)
            while first.token < 200:  # More than a new one has written before anybody asks it for anything.
                await store.release(first.bid)
                first = await store.claim(bid_of("restored", holder, first.bid.serial + 1))
                assert isinstance(first, Grant)
            with ConsulCluster(size=1, session_ttl_min_s=1) as restored:
                proxy.turn_to(restored.endpoints[0])
                bid = bid_of("restored", holder, first.bid.serial + 1)
                refusals: list[StoreError] = []
                while len(refusals) < 3:
                    with pytest.raises(StoreError) as told:  # The first ones tell that the connections are gone.
                        await store.claim(bid)
                    if "went back" in str(told.value):
                        assert held_by(restored, "restored") == ""  # Others may have it, if they know no better.
                        refusals.append(told.value)
                for refusal in refusals:
                    assert isinstance(refusal, OutcomeUnknown)
                    assert "as a restored snapshot does: make sure that no old leader runs" in str(refusal)

    play(story())


def test_a_claim_without_an_answer_that_a_restored_consul_has_carried_out_is_refused(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _):
            bid = bid_of("restored-unanswered")
            await ready(consul, store, bid)
            # As if it had given out larger ones before the snapshot was restored.
            store._candidacy._highest = 10**9
            proxy.lose_answers()
            with pytest.raises(OutcomeUnknown, match="no answer"):
                await store.claim(bid)
            await until(lambda: bool(held_by(consul, bid.election)))
            with pytest.raises(OutcomeUnknown, match="went back from index 1000000000 to"):
                await store.claim(bid)
            assert held_by(consul, bid.election) == ""

    play(story())


def test_a_claim_without_an_answer_is_granted_although_another_election_was_granted_meanwhile(
    consul: ConsulCluster,
) -> None:
    async def story() -> None:
        async with apart(consul) as (proxy, store, _):
            bid = bid_of("overtaken")
            await ready(consul, store, bid)
            proxy.lose_answers()
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)
            await until(lambda: bool(held_by(consul, "overtaken")))
            index = pair_of(consul, "overtaken")["ModifyIndex"]
            later = await store.claim(bid_of("overtaken-later"))
            assert isinstance(later, Grant)
            assert later.token > index
            assert await store.claim(bid) == Grant(bid, Token(index))

    play(story())
