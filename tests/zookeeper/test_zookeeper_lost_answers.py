"""A create whose answer is lost is found again by its name, and never left behind in the queue."""

import asyncio
from contextlib import suppress
from functools import partial

import anyio
import pytest

from tenure.clients.zookeeper.wire import get_children, sync
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Bid, Grant
from tenure.stores.base import Store
from tenure.stores.zookeeper import from_url
from tenure.testing.engines import ZooKeeperEnsemble
from tests.proxy import Proxy
from tests.zookeeper.zookeeper_rig import LIMIT_S, bid, children_of, operator, server_of, session_of, until, waits, wins

pytestmark = pytest.mark.anyio


async def has_children(ensemble: ZooKeeperEnsemble, election: str, count: int) -> bool:
    return len(await children_of(ensemble.url, election)) == count


async def claims_in_the_end(store: Store, asked: Bid) -> Grant:
    """Claim as the office does: again and again, until there is an answer."""
    with anyio.fail_after(LIMIT_S):
        while True:
            try:
                return await wins(store, asked)
            except (OutcomeUnknown, Unreachable):
                await anyio.sleep(0.02)


async def claim_without_answer(ensemble: ZooKeeperEnsemble, proxy: Proxy, store: Store, asked: Bid) -> None:
    """Claim so that the node is made and nobody hears of it."""
    proxy.lose_answers()
    async with asyncio.TaskGroup() as tasks:
        claim = tasks.create_task(outcome(store, asked))
        await until(partial(has_children, ensemble, asked.election, 1))
    assert claim.result() is OutcomeUnknown


async def outcome(store: Store, asked: Bid) -> type[Exception] | None:
    try:
        await store.claim(asked)
    except (OutcomeUnknown, Unreachable) as error:
        return type(error)
    return None


async def test_a_lost_answer_is_found_again_and_is_one_tenure(ensemble: ZooKeeperEnsemble) -> None:
    async with Proxy(ensemble.endpoints[0]) as proxy, from_url(f"zookeeper://{proxy.endpoint}") as store:
        await wins(store, bid("lost/warm"))
        await store.release(bid("lost/warm"))
        await wins(store, bid("lost/answer"))  # So that the number of the next node is known, and it is made at once.
        asked = bid("lost/found")
        await wins(store, asked)
        await store.release(asked)
        asked = bid("lost/found", asked.holder, 2)
        await claim_without_answer(ensemble, proxy, store, asked)
        (made,) = await children_of(ensemble.url, "lost/found")
        grant = await claims_in_the_end(store, asked)
        assert await children_of(ensemble.url, "lost/found") == [made]
        assert await store.renew(grant) == grant


async def test_a_bid_that_is_released_before_its_lost_answer_is_found_leaves_nothing(
    ensemble: ZooKeeperEnsemble,
) -> None:
    async with Proxy(ensemble.endpoints[0]) as proxy, from_url(f"zookeeper://{proxy.endpoint}") as store:
        kept = await wins(store, bid("lost/kept"))
        asked = bid("lost/released")
        await wins(store, asked)
        await store.release(asked)
        asked = bid("lost/released", asked.holder, 2)
        await claim_without_answer(ensemble, proxy, store, asked)
        with suppress(OutcomeUnknown, Unreachable):  # It may have to wait for a connection, and is done then anyway.
            await store.release(asked)
        await until(partial(has_children, ensemble, "lost/released", 0))
        assert await store.renew(kept) == kept


async def test_a_bid_whose_answer_was_lost_and_that_nobody_asks_for_again_is_given_up(
    ensemble: ZooKeeperEnsemble,
) -> None:
    async with Proxy(ensemble.endpoints[0]) as proxy, from_url(f"zookeeper://{proxy.endpoint}") as store:
        asked = bid("lost/forgotten")
        await wins(store, asked)
        await store.release(asked)
        await claim_without_answer(ensemble, proxy, store, bid("lost/forgotten", asked.holder, 2))
        await until(partial(has_children, ensemble, "lost/forgotten", 0))
        assert len(store._roster.places) == 0


async def test_a_request_that_lands_after_its_session_has_moved_makes_no_second_node(
    ensemble: ZooKeeperEnsemble,
) -> None:
    slow, quick = ensemble.endpoints[:2]
    async with Proxy(slow) as proxy, from_url(f"zookeeper://{proxy.endpoint},{quick}") as store:
        asked = bid("lost/late")
        await wins(store, asked)
        session = session_of(store, asked)
        while server_of(session) != proxy.endpoint:
            assert session._link is not None
            session._link.abort("moved by hand")
            await claims_in_the_end(store, asked)
        await store.release(asked)
        proxy.hold_requests()
        asked = bid("lost/late", asked.holder, 2)
        assert await outcome(store, asked) is OutcomeUnknown
        assert proxy.held_bytes > 0
        grant = await claims_in_the_end(store, asked)
        assert server_of(session) == quick
        proxy.deliver()
        async with operator(f"zookeeper://{slow}") as looking:
            await looking.ask(sync("/"))  # After this the slow server has handed over everything to its leader.
            names, _ = await looking.ask(get_children("/lost/late"))
        assert len(names) == 1
        assert await store.renew(grant) == grant
        await waits(store, bid("lost/late"))
