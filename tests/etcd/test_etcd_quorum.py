"""Without a quorum nothing is granted, and whoever leads stops by its own clock; with it again, the same candidate leads."""

import asyncio

import pytest

import tenure
from tenure.errors import OutcomeUnknown, Reason, Unreachable
from tenure.stores.etcd import from_url
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import TTL_S, Candidate, bid_of, now_ns, play, until


@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_without_a_quorum_a_leader_lapses_in_time_and_leads_again_when_it_is_back(
    newest: EtcdCluster, fate: str
) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(newest.url) as store,
            from_url(newest.url) as other,
            Candidate(store, f"quorum/{fate}") as ada,
        ):
            term = await ada.leads()
            for node in newest.nodes[:2]:
                await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
            lost_at = now_ns()
            for _ in range(4):  # More than there are members to ask.
                with pytest.raises((Unreachable, OutcomeUnknown)):
                    await other.claim(bid_of("quorum/free"))
            await until(lambda: bool(ada.left))
            # No renewal was sent and answered later, so the engine lets go of it later than it stopped believing.
            assert 0 < ada.believed_until < lost_at + TTL_S * 1e9
            assert not term.valid
            assert [fact.reason for fact in ada.left] in ([Reason.STORE_GONE], [Reason.LAPSED])
            assert ada.tokens == [term.token]
            await asyncio.to_thread(newest.mend)
            again = await ada.leads()
            await until(lambda: ada.tokens == [term.token, again.token])  # Its hooks hear of it beside its body.
            assert again.token > term.token
            assert again.valid

    play(story())
