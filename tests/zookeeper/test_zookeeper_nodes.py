"""Servers die, freeze and come back: tenures go on where they can, and nobody claims to lead where they cannot."""

import anyio
import pytest
from anyio import to_thread

from tenure.errors import OutcomeUnknown, StoreError, Unreachable
from tenure.model import Grant
from tenure.stores.zookeeper import from_url
from tenure.testing.engines import Node, ZooKeeperEnsemble
from tests.zookeeper.zookeeper_rig import (
    LIMIT_S,
    bid,
    move,
    renewed,
    server_of,
    session_of,
    takes_over,
    until,
    waits,
    wins,
)

pytestmark = pytest.mark.anyio


def node_at(ensemble: ZooKeeperEnsemble, endpoint: str) -> Node:
    return next(node for node in ensemble.nodes if node.endpoint == endpoint)


async def test_a_tenure_outlives_the_server_that_it_was_connected_to(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store:
        asked = bid("nodes/killed")
        grant = await wins(store, asked)
        session = session_of(store, asked)
        number, left = session.id, server_of(session)
        await to_thread.run_sync(node_at(ensemble, left).kill)
        assert await renewed(store, grant) == grant
        assert session_of(store, asked).id == number
        assert server_of(session) != left


async def test_a_tenure_outlives_a_server_that_freezes_under_it(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store:
        asked = bid("nodes/frozen")
        grant = await wins(store, asked)
        session = session_of(store, asked)
        leader = (await to_thread.run_sync(ensemble.leader)).endpoint
        # To a follower: without its leader the whole ensemble stands still.
        await move(store, grant, next(one for one in ensemble.endpoints if one != leader))
        left = server_of(session)
        node_at(ensemble, left).pause()
        assert await renewed(store, grant) == grant
        assert server_of(session) != left


async def test_without_a_quorum_nobody_leads_and_with_it_everything_goes_on(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store, from_url(ensemble.url) as other:
        grant = await wins(store, bid("nodes/quorum"))
        wait = await waits(other, bid("nodes/quorum"))
        for node in ensemble.nodes[:2]:
            await to_thread.run_sync(node.kill)

        async def nobody_answers() -> bool:
            try:
                await store.renew(grant)
            except (Unreachable, OutcomeUnknown):
                return True
            return False

        await until(nobody_answers)
        with pytest.raises(StoreError) as refusal:
            await store.claim(bid("nodes/quorum/other"))
        assert isinstance(refusal.value, Unreachable | OutcomeUnknown)
        with pytest.raises((Unreachable, OutcomeUnknown)):
            await other.claim(wait.bid)
        await to_thread.run_sync(ensemble.mend)
        # The tenure was not renewed for longer than its ttl, or was just in time: either way there is one leader, in the end.
        if isinstance(await renewed(store, grant), Grant):
            await store.release(grant.bid)
        answer = None
        with anyio.fail_after(LIMIT_S):
            while not isinstance(answer, Grant):
                try:
                    answer = await takes_over(other, wait)
                except StoreError:
                    await anyio.sleep(0.02)
        assert answer.token > grant.token


async def test_a_store_opens_while_a_server_is_down(ensemble: ZooKeeperEnsemble) -> None:
    await to_thread.run_sync(ensemble.nodes[0].kill)
    await to_thread.run_sync(ensemble.leader)  # It may have been that one.
    for _ in range(5):
        async with from_url(ensemble.url) as store:
            mine = bid("nodes/opens")
            await wins(store, mine)
            await store.release(mine)
    ensemble.nodes[1].pause()  # And while another one is frozen, so that there is no quorum: it says so in good time.
    with pytest.raises(Unreachable, match=r"no answer|nothing listens|hung up"):
        async with from_url(ensemble.url, timeout="1"):
            pass
