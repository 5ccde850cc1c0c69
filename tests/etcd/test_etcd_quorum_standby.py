"""Without a quorum a standby gets nothing, also while the leader's time runs out; with it again, one of both leads."""

import asyncio

import pytest

import tenure
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.stores.etcd import from_url
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import Candidate, bid_of, play, until


@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_a_standby_is_not_elected_until_the_quorum_is_back(newest: EtcdCluster, fate: str) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(newest.url) as store,
            tenure.open_store(newest.url) as other,
            from_url(newest.url) as third,
            Candidate(store, f"quorum-standby/{fate}") as ada,
        ):
            term = await ada.leads()
            async with Candidate(other, f"quorum-standby/{fate}") as bob:
                await bob.waits(newest)
                for node in newest.nodes[:2]:
                    await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
                await until(lambda: bool(ada.left))
                for _ in range(4):  # More than there are members to ask: nobody else gets it either.
                    with pytest.raises((Unreachable, OutcomeUnknown)):
                        await third.claim(bid_of(f"quorum-standby/{fate}"))
                assert bob.tokens == []
                assert ada.tokens == [term.token]
                await asyncio.to_thread(newest.mend)
                await until(lambda: bool(bob.tokens) or len(ada.tokens) > 1)
                assert min(bob.tokens + ada.tokens[1:]) > term.token

    play(story())
