"""Nodes that die, freeze and come back: a tenure outlives each of them, and renews through another."""

import asyncio
from contextlib import AsyncExitStack

import pytest

import tenure
from tenure.clients.etcd.opening import client_of
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import ENDURING, Candidate, keys, member_of, now_ns, play


@pytest.mark.parametrize("which", ["the leader", "the one that the candidate talks to"])
@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_a_tenure_outlives_a_node(cluster: EtcdCluster, which: str, fate: str) -> None:
    async def story() -> None:
        name = f"{fate}/{which}"
        async with (
            tenure.open_store(cluster.url) as store,
            tenure.open_store(cluster.url) as other,
            Candidate(store, name, timing=ENDURING) as ada,
        ):
            await ada.leads()
            async with Candidate(other, name, timing=ENDURING) as bob:
                await bob.waits(cluster)
                node = await asyncio.to_thread(cluster.leader) if which == "the leader" else member_of(store, cluster)
                await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
                await ada.renews(now_ns())
                assert member_of(store, cluster) is not node
                await asyncio.to_thread(cluster.mend)
                await ada.renews(now_ns())
                assert bob.tokens == []

    play(story())


def test_a_leader_and_a_standby_outlive_a_rolling_restart_of_all_nodes(cluster: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(cluster.url) as store,
            tenure.open_store(cluster.url) as other,
            AsyncExitStack() as leaves,
        ):
            ada = await leaves.enter_async_context(Candidate(store, "rolling", timing=ENDURING))
            term = await ada.leads()
            async with Candidate(other, "rolling", timing=ENDURING) as bob:
                await bob.waits(cluster)
                for node in cluster.nodes:
                    await asyncio.to_thread(node.stop)
                    await asyncio.to_thread(node.start)
                    await ada.renews(now_ns())
                async with client_of(cluster.url) as client:
                    assert len(await keys(client, "rolling")) == 2
                assert bob.tokens == []
                await leaves.aclose()
                assert (await bob.leads()).token > term.token

    play(story())
