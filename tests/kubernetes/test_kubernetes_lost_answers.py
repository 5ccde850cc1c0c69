"""Requests that come late, and answers that never come: nothing is granted twice, and no office is left behind.

The stores here reach the API server through a proxy, which passes on what is encrypted; an operator who goes straight to it
says what is really there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.clients.kubernetes import NotThere, settings_of
from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Ended, Holder
from tenure.stores.kubernetes import KubernetesStore, from_url
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import Operator, bid, operator, until, waits, wins, with_proxy
from tests.leaping import LeapingClock
from tests.proxy import Proxy

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def apart(cluster: KubernetesCluster) -> AsyncIterator[tuple[Proxy, KubernetesStore, Operator, LeapingClock]]:
    """A store behind a proxy, which has a connection already, and an operator who is not."""
    clock = LeapingClock()
    async with (
        Proxy(cluster.endpoints[0]) as proxy,
        operator(cluster.url) as by_hand,
        KubernetesStore(settings_of(with_proxy(cluster, proxy.endpoint)), clock=clock) as store,
    ):
        yield proxy, store, by_hand, clock


async def holder_of(by_hand: Operator, election: str) -> str:
    try:
        return str((await by_hand.lease(election))["spec"].get("holderIdentity", ""))
    except NotThere:
        return ""


@pytest.mark.parametrize("before", [False, True], ids=["a new Lease", "a Lease that was left"])
async def test_a_claim_whose_answer_was_lost_is_found_again_with_the_same_token(
    cluster: KubernetesCluster, before: bool
) -> None:
    name = f"lost-{before}"
    async with apart(cluster) as (proxy, store, by_hand, _):
        holder = Holder.fresh()
        await wins(store, bid(name if before else f"{name}-other", holder))
        await store.release(bid(name if before else f"{name}-other", holder))
        await store.read(name)
        asked = bid(name, holder, 2)
        proxy.lose_answers()
        with pytest.raises(OutcomeUnknown):
            await store.claim(asked)

        async def carried_out() -> bool:
            return await holder_of(by_hand, name) != ""

        await until(carried_out)  # Whoever gave it up need not have waited for that.
        written = await by_hand.lease(name)
        assert written["spec"]["holderIdentity"] == f"{holder}#2"
        grant = await wins(store, asked)
        assert grant.token == written["spec"]["leaseTransitions"]
        assert await store.renew(grant) == grant


@pytest.mark.parametrize("before", [False, True], ids=["a new Lease", "a Lease that was left"])
async def test_a_claim_that_arrives_after_its_release_takes_no_office(cluster: KubernetesCluster, before: bool) -> None:
    name = f"late-{before}"
    async with apart(cluster) as (proxy, store, by_hand, _):
        holder = Holder.fresh()
        await wins(store, bid(name if before else f"{name}-other", holder))
        await store.release(bid(name if before else f"{name}-other", holder))
        late = bid(name, holder, 2)
        await store.read(name)
        proxy.hold_requests()
        with pytest.raises(OutcomeUnknown):
            await store.claim(late)
        await store.release(late)
        proxy.deliver()

        async def delivered() -> bool:
            return not proxy.held_bytes

        await until(delivered)
        # Whatever was kept back is answered before this, on a connection that came later than it was delivered.
        async with from_url(cluster.url) as other:
            assert await other.read(name) is None
            assert await holder_of(by_hand, name) == ""
            grant = await wins(other, bid(name))
            assert await other.renew(grant) == grant


async def test_a_renewal_whose_answer_was_lost_does_not_end_the_tenure(cluster: KubernetesCluster) -> None:
    async with apart(cluster) as (proxy, store, by_hand, _):
        grant = await wins(store, bid("renewal-lost"))
        renewed = (await by_hand.lease("renewal-lost"))["spec"]["renewTime"]
        proxy.lose_answers()
        with pytest.raises(OutcomeUnknown):
            await store.renew(grant)

        async def carried_out() -> bool:
            return bool((await by_hand.lease("renewal-lost"))["spec"]["renewTime"] > renewed)

        await until(carried_out)  # Whoever gave it up need not have waited for that.
        assert await store.renew(grant) == grant


async def test_a_renewal_without_an_answer_counts_for_nothing_and_a_late_one_revives_nothing(
    cluster: KubernetesCluster,
) -> None:
    async with apart(cluster) as (proxy, store, _, clock), from_url(cluster.url) as other:
        grant = await wins(store, bid("renewal-late"))
        await waits(other, bid("renewal-late"))
        proxy.hold_requests()
        with pytest.raises(OutcomeUnknown):
            await store.renew(grant)
        clock.ahead_ns += grant.bid.ttl_ns
        assert await store.renew(grant) == Ended(grant.bid, grant.token)
        proxy.deliver()
        assert await store.renew(grant) == Ended(grant.bid, grant.token)
        again = await wins(store, grant.bid)
        assert again.token == grant.token + 1


async def test_a_release_that_arrives_late_ends_nobody_elses_tenure(cluster: KubernetesCluster) -> None:
    async with apart(cluster) as (proxy, store, by_hand, _):
        holder = Holder.fresh()
        first = await wins(store, bid("late-release", holder, 1))
        proxy.hold_requests()
        with pytest.raises(OutcomeUnknown):
            await store.release(first.bid)
        second = await wins(store, bid("late-release", holder, 2))
        proxy.deliver()

        async def delivered() -> bool:
            return not proxy.held_bytes

        await until(delivered)
        assert await store.renew(second) == second
        assert await store.renew(first) == Ended(first.bid, first.token)
        assert await holder_of(by_hand, "late-release") == f"{holder}#2"


async def test_a_store_that_is_closed_while_nothing_answers_ends_within_its_deadlines(
    cluster: KubernetesCluster,
) -> None:
    async with Proxy(cluster.endpoints[0]) as proxy:
        async with from_url(with_proxy(cluster, proxy.endpoint)) as store:
            await wins(store, bid("closed"))
            proxy.hold_requests()
            with pytest.raises(StoreError):
                await store.claim(bid("closed-too"))
        with pytest.raises(StoreError, match="the store is not open"):
            await store.read("closed")
