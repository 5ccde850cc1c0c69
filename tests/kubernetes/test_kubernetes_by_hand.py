"""Whatever people, and programs of others, do to a Lease: tenures end where they must, tokens rise, and it is told."""

import asyncio
import logging
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from tenure.clients.kubernetes import settings_of
from tenure.errors import Refused
from tenure.model import Ended, Grant, Holder, Wait
from tenure.stores.kubernetes import KubernetesStore, from_url
from tenure.stores.kubernetes.lease import NOTE
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import TTL_NS, bid, by_kubectl, operator, takes_over, until, waits, wins
from tests.leaping import LeapingClock

pytestmark = pytest.mark.anyio


async def test_a_lease_that_is_deleted_by_hand_ends_its_tenure_and_the_next_has_a_larger_token(
    cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with from_url(cluster.url) as store, from_url(cluster.url) as other, operator(cluster.url) as by_hand:
        grant = await wins(store, bid("deleted"))
        wait = await waits(other, bid("deleted"))
        with caplog.at_level(logging.WARNING, "tenure"):
            async with asyncio.TaskGroup() as tasks:
                standby = tasks.create_task(takes_over(other, wait))
                await by_hand.delete("deleted")
                assert await store.renew(grant) == Ended(grant.bid, grant.token)
            assert standby.result().token > grant.token
        assert "Lease deleted was deleted; its tokens go on from 1" in caplog.text


async def test_a_lease_that_another_program_made_anew_does_not_set_tokens_back(
    cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with from_url(cluster.url) as store, operator(cluster.url) as by_hand:
        holder = Holder.fresh()
        grants = [await wins(store, bid("rewound", holder, serial)) for serial in (1, 2, 3)]
        grant = grants[-1]
        await store.release(grant.bid)
        with caplog.at_level(logging.WARNING, "tenure"):
            await by_hand.edit("rewound", leaseTransitions=0)
            again = await wins(store, bid("rewound", holder, 4))
        assert again.token == grant.token + 1
        assert "went back to leaseTransitions 1 from 3" in caplog.text


async def test_a_count_that_is_set_back_under_a_leader_is_put_right_by_its_next_renewal(
    cluster: KubernetesCluster,
) -> None:
    async with from_url(cluster.url) as store, operator(cluster.url) as by_hand:
        holder = Holder.fresh()
        await wins(store, bid("set-back", holder, 1))
        grant = await wins(store, bid("set-back", holder, 2))
        await by_hand.edit("set-back", leaseTransitions=0, leaseDurationSeconds=4000)
        assert await store.renew(grant) == grant
        spec = (await by_hand.lease("set-back"))["spec"]
        assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (grant.token, TTL_NS // 10**9)


async def test_a_label_that_somebody_adds_ends_no_tenure_and_prolongs_none(cluster: KubernetesCluster) -> None:
    clock = LeapingClock()
    async with (
        from_url(cluster.url) as store,
        KubernetesStore(settings_of(cluster.url), clock=clock) as other,
        operator(cluster.url) as by_hand,
    ):
        grant = await wins(store, bid("labelled", ttl_ns=60 * 10**9))
        for value in ("one", "two"):
            await by_hand.label("labelled", value)
            assert await store.renew(grant) == grant
        lease = await by_hand.lease("labelled")
        assert lease["metadata"]["labels"] == {"edited": "two"}
        asked = bid("labelled")
        await waits(other, asked)
        clock.ahead_ns += 40 * 10**9
        await by_hand.label("labelled", "three")
        await waits(other, asked)  # which has looked: the label is seen
        clock.ahead_ns += 21 * 10**9
        assert (await wins(other, asked)).token == grant.token + 1
        assert await store.renew(grant) == Ended(grant.bid, grant.token)


async def test_whoever_is_put_into_a_lease_by_hand_has_the_office(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store, operator(cluster.url) as by_hand:
        grant = await wins(store, bid("usurped"))
        await by_hand.edit("usurped", holderIdentity="somebody else", leaseDurationSeconds=60)
        assert await store.renew(grant) == Ended(grant.bid, grant.token)
        wait = await waits(store, grant.bid)
        assert wait.incumbent is not None
        assert wait.incumbent.holder.host == "somebody else"
        await store.release(grant.bid)
        assert (await by_hand.lease("usurped"))["spec"]["holderIdentity"] == "somebody else"


async def test_nonsense_in_a_lease_is_told_of_with_the_value_the_limit_and_the_fix(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store, from_url(cluster.url) as other, operator(cluster.url) as by_hand:
        grant = await wins(store, bid("nonsense"))
        await by_hand.edit("nonsense", leaseDurationSeconds=2**31 - 1)
        with pytest.raises(
            Refused, match=r"leaseDurationSeconds .* is 2147483647, and more than 604800 .*kubectl edit"
        ):
            await other.claim(bid("nonsense"))
        await store.release(grant.bid)
        await by_hand.edit("nonsense", leaseTransitions=2**31 - 1)
        with pytest.raises(
            Refused, match=r"leaseTransitions .* is 2147483647, and no tenure can have more .* kubectl edit"
        ):
            await other.claim(bid("nonsense"))
        await by_hand.edit("nonsense", leaseTransitions=5)

        async def heard_of() -> bool:
            """Its watch has told it of that."""
            with suppress(Refused):
                return isinstance(await other.claim(again), Grant)
            return False

        again = bid("nonsense")
        await until(heard_of)
        assert (await wins(other, again)).token == 6


async def test_a_count_that_is_raised_under_a_leader_stays_and_its_token_is_still_told(
    cluster: KubernetesCluster,
) -> None:
    async with from_url(cluster.url) as store, operator(cluster.url) as by_hand:
        grant = await wins(store, bid("raised"))
        await by_hand.edit("raised", leaseTransitions=1000)
        assert await store.renew(grant) == grant
        assert await wins(store, grant.bid) == grant
        assert (await by_hand.lease("raised"))["spec"]["leaseTransitions"] == 1000
        incumbent = await store.read("raised")
        assert incumbent is not None
        assert incumbent.token == grant.token
        await store.release(grant.bid)
        assert (await wins(store, bid("raised"))).token == 1001


async def test_a_lease_without_a_record_is_nobodys(cluster: KubernetesCluster) -> None:
    await by_kubectl(
        cluster,
        "apply",
        "--filename=-",
        stdin="apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: bare, namespace: default}\n",
    )
    async with from_url(cluster.url) as store:
        assert await store.read("bare") is None
        grant = await wins(store, bid("bare"))
        assert await store.renew(grant) == grant


async def test_a_note_that_is_stripped_by_hand_ends_no_tenure(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid("stripped", ttl_ns=60 * 10**9, advertise="http://here"))
        await by_kubectl(cluster, "annotate", "lease", "stripped", f"{NOTE}-")
        assert await store.renew(grant) == grant
        incumbent = await store.read("stripped")
        assert incumbent is not None
        assert (incumbent.holder, incumbent.advertised) == (grant.bid.holder, "http://here")


async def test_kubectl_shows_who_leads(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid("shown/to-kubectl"))
        table = await by_kubectl(cluster, "get", "lease", "shownx--2fto-kubectl", "--no-headers")
        assert table.split()[:2] == ["shownx--2fto-kubectl", f"{grant.bid.holder}#1"]
        times = "{.spec.acquireTime} {.spec.renewTime} {.spec.leaseDurationSeconds} {.spec.leaseTransitions}"
        said = await by_kubectl(cluster, "get", "lease", "shownx--2fto-kubectl", f"--output=jsonpath={times}")
        six = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
        assert re.fullmatch(rf"{six} {six} {TTL_NS // 10**9} 1", said)
        await store.release(grant.bid)
        said = await by_kubectl(cluster, "get", "lease", "shownx--2fto-kubectl", "--output=jsonpath={.spec}")
        assert '"leaseDurationSeconds":1' in said
        assert "holderIdentity" not in said


async def test_who_asks_to_resign_is_heard_at_the_next_renewal_and_strangers_are_not_asked(
    cluster: KubernetesCluster,
) -> None:
    async with from_url(cluster.url) as store, from_url(cluster.url) as other, operator(cluster.url) as by_hand:
        assert await other.ask_to_resign("resign") is None
        grant = await wins(store, bid("resign"))
        assert await store.renew(grant) == grant
        assert not store.resign_asked(grant)
        asked = await other.ask_to_resign("resign")
        assert asked is not None
        assert asked.token == grant.token
        # Said anew meanwhile, the word is still there.
        assert await store.proclaim(grant, "http://new") == grant
        assert await store.renew(grant) == grant
        assert store.resign_asked(grant)
        assert [status.resign_asked for status in await other.elections() if status.election == "resign"] == [True]
        await store.release(grant.bid)
        grant = await wins(store, replace(grant.bid, serial=2))
        assert not store.resign_asked(grant)
        await by_hand.edit("resign", holderIdentity="client-go")
        with pytest.raises(Refused, match="not a program of ours"):
            await other.ask_to_resign("resign")


async def test_elections_are_listed_with_who_leads_and_who_of_this_process_waits(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store, from_url(cluster.url) as other:
        grant = await wins(store, bid("listed/led"))
        standby = bid("listed/led")
        await waits(other, standby)
        await wins(store, bid("listed/empty", grant.bid.holder))
        await store.release(bid("listed/empty", grant.bid.holder))
        found = {status.election: status for status in await other.elections()}
        assert "tenure-doctor" not in found
        led, empty = found["listed/led"], found["listed/empty"]
        assert empty.incumbent is None
        assert led.incumbent is not None
        assert (led.incumbent.holder, led.incumbent.token) == (grant.bid.holder, grant.token)
        assert led.standbys == (standby.holder,)
        assert led.held_for_ns is not None
        assert led.remaining_ns is not None
        assert 0 <= led.remaining_ns <= TTL_NS


async def test_names_that_no_lease_can_have_are_spelled_and_too_long_ones_are_refused(
    cluster: KubernetesCluster,
) -> None:
    async with from_url(cluster.url) as store:
        for name in ("Übung/1", "a..b", "-", "x--2f", "smile/😀", "a b"):
            grant = await wins(store, bid(name))
            assert await store.renew(grant) == grant
        assert {"Übung/1", "a..b", "-", "x--2f"} <= {status.election for status in await store.elections()}
        with pytest.raises(Refused, match="253 are allowed"):
            await store.claim(bid("a" * 254))


async def test_tokens_of_resource_versions_rise_though_nobody_has_seen_the_lease_that_was_deleted(
    cluster: KubernetesCluster,
) -> None:
    url = f"{cluster.url}&token=resourceversion"
    async with from_url(url) as store, operator(cluster.url) as by_hand:
        grant = await wins(store, bid("versions"))
        assert await store.renew(grant) == grant
        incumbent = await store.read("versions")
        assert incumbent is not None
        assert incumbent.token == grant.token
        store._seen._of.clear()
        await by_hand.delete("versions")
        again = await wins(store, bid("versions"))
        assert again.token > grant.token
        assert isinstance(await store.claim(replace(grant.bid, holder=Holder.fresh())), Wait)
