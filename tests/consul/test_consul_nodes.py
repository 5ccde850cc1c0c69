"""Servers that die, freeze and come back: a tenure of twenty seconds outlives each of them, and renews through another."""

import asyncio
from contextlib import AsyncExitStack

import pytest

import tenure
from tenure.errors import OutcomeUnknown, Reason, Unreachable
from tenure.stores.consul import from_url
from tenure.testing.engines import ConsulCluster
from tests.consul.consul_faults import member_of, stands_by
from tests.etcd.etcd_faults import TTL_S, Candidate, bid_of, now_ns, play, until


@pytest.mark.parametrize("which", ["the leader", "the one that the candidate talks to"])
@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_a_tenure_of_twenty_seconds_outlives_a_server(cluster: ConsulCluster, which: str, fate: str) -> None:
    async def story() -> None:
        name = f"{fate}/{which}"
        async with (
            tenure.open_store(cluster.url) as store,
            tenure.open_store(cluster.url) as other,
            Candidate(store, name, ttl_s=20) as ada,
        ):
            await ada.leads()
            async with Candidate(other, name, ttl_s=20) as bob:
                await stands_by(other, bob)
                node = await asyncio.to_thread(cluster.leader) if which == "the leader" else member_of(store, cluster)
                await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
                await ada.renews(now_ns())
                await asyncio.to_thread(cluster.mend)
                await ada.renews(now_ns())
                assert bob.tokens == []

    play(story())


def test_a_tenure_of_thirty_seconds_outlives_the_leader_of_servers_as_shipped() -> None:
    async def story(cluster: ConsulCluster) -> None:
        async with tenure.open_store(cluster.url) as store, Candidate(store, "as-shipped", ttl_s=30) as ada:
            term = await ada.leads()
            node = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(node.kill)
            gone_at = now_ns()
            assert await asyncio.to_thread(cluster.leader) is not node
            await ada.renews(gone_at)
            assert ada.tokens == [term.token]

    with ConsulCluster(options=["-hcl=performance { raft_multiplier = 5 }"]) as cluster:
        play(story(cluster))


def test_a_leader_and_a_standby_outlive_a_rolling_restart_of_all_servers(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(cluster.url) as store,
            tenure.open_store(cluster.url) as other,
            AsyncExitStack() as leaves,
        ):
            ada = await leaves.enter_async_context(Candidate(store, "rolling", ttl_s=30))
            term = await ada.leads()
            async with Candidate(other, "rolling", ttl_s=30) as bob:
                await stands_by(other, bob)
                for node in cluster.nodes:
                    await asyncio.to_thread(node.stop)
                    await asyncio.to_thread(node.start)
                    await ada.renews(now_ns())
                assert bob.tokens == []
                await leaves.aclose()
                assert (await bob.leads()).token > term.token

    play(story())


@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_without_a_quorum_a_leader_lapses_in_time_and_leads_again_when_it_is_back(
    cluster: ConsulCluster, fate: str
) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(cluster.url) as store,
            from_url(cluster.url) as other,
            Candidate(store, f"quorum/{fate}") as ada,
        ):
            term = await ada.leads()
            for node in cluster.nodes[:2]:
                await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
            lost_at = now_ns()
            for _ in range(4):  # More than there are servers to ask.
                with pytest.raises((Unreachable, OutcomeUnknown)):
                    await other.claim(bid_of("quorum/free"))
            await until(lambda: bool(ada.left))
            # No renewal was sent and answered later, so the engine lets go of it later than it stopped believing.
            assert term._term.valid_until < lost_at + TTL_S * 1e9
            assert not term.valid
            assert [fact.reason for fact in ada.left] in ([Reason.STORE_GONE], [Reason.LAPSED])
            assert ada.tokens == [term.token]
            await asyncio.to_thread(cluster.mend)
            again = await ada.leads()
            await until(lambda: ada.tokens == [term.token, again.token])  # Its hooks hear of it beside its body.
            assert again.token > term.token
            assert again.valid

    play(story())


def test_a_consul_without_a_leader_is_told_in_one_line_that_names_the_fix(cluster: ConsulCluster) -> None:
    for node in cluster.nodes[:2]:
        node.kill()

    async def story() -> None:
        with pytest.raises(Unreachable, match=r"has no leader: more than half of the servers must run") as told:
            async with from_url(f"consul://{cluster.nodes[2].endpoint}"):
                pytest.fail("it opened")
        assert "\n" not in str(told.value)

    play(story())
