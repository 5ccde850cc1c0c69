"""A place whose time is over while a claim for it is under way: whatever that claim is told must be so afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tenure.errors import OutcomeUnknown
from tenure.model import Bid, Grant, Wait
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.stores.zookeeper.leases import Place
from tenure.testing.engines import ZooKeeperEnsemble
from tests.proxy import Proxy
from tests.zookeeper.zookeeper_rig import bid, children_of, renewed, until, waits, wins

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def behind_a_proxy(ensemble: ZooKeeperEnsemble) -> AsyncIterator[tuple[Proxy, ZooKeeperStore]]:
    async with Proxy(ensemble.endpoints[0]) as proxy, from_url(f"zookeeper://{proxy.endpoint}") as store:
        yield proxy, store


async def begin_to_claim(proxy: Proxy, store: ZooKeeperStore, asked: Bid) -> "asyncio.Task[Grant | Wait]":
    """Claim, so that the claim is under way until the proxy delivers it."""
    proxy.hold_requests()
    claim = asyncio.create_task(store.claim(asked))

    async def sent() -> bool:
        return place_of(store, asked).turn is not None and proxy.held_bytes > 0

    await until(sent)
    return claim


def place_of(store: ZooKeeperStore, asked: Bid) -> Place:
    place = store._roster.places.find(asked)
    assert place is not None
    return place


async def all_done(store: ZooKeeperStore) -> None:
    async def idle() -> bool:
        return not store._roster._under_way

    await until(idle)


async def is_forgotten(store: ZooKeeperStore, asked: Bid) -> bool:
    return store._roster.places.find(asked) is None


async def test_a_place_that_was_due_and_is_granted_in_time_is_not_given_up(ensemble: ZooKeeperEnsemble) -> None:
    async with behind_a_proxy(ensemble) as (proxy, store), from_url(ensemble.url) as other:
        before = await wins(other, bid("due/granted"))
        asked = (await waits(store, bid("due/granted"))).bid
        await other.release(before.bid)
        claim = await begin_to_claim(proxy, store, asked)
        place_of(store, asked).heard_at -= asked.ttl_ns  # As if nothing had been heard of it for so long.
        store._roster._sweep_now()
        proxy.deliver()
        grant = await claim
        assert isinstance(grant, Grant)
        await all_done(store)
        assert len(await children_of(ensemble.url, "due/granted")) == 1
        assert await renewed(store, grant) == grant


async def test_a_place_that_was_due_and_whose_claim_came_to_nothing_is_given_up(ensemble: ZooKeeperEnsemble) -> None:
    async with behind_a_proxy(ensemble) as (proxy, store), from_url(ensemble.url) as other:
        before = await wins(other, bid("due/in-vain"))
        asked = (await waits(store, bid("due/in-vain"))).bid
        claim = await begin_to_claim(proxy, store, asked)
        place_of(store, asked).heard_at -= asked.ttl_ns
        store._roster._sweep_now()
        proxy.turn_to(ensemble.endpoints[0])  # which breaks the connection, and with it the claim
        with pytest.raises(OutcomeUnknown):
            await claim
        await until(partial(is_forgotten, store, asked))
        assert len(await children_of(ensemble.url, "due/in-vain")) == 1
        assert await renewed(other, before) == before


async def test_a_claim_that_comes_just_as_its_place_is_due_keeps_it(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store, from_url(ensemble.url) as other:
        await wins(other, bid("due/just"))
        asked = (await waits(store, bid("due/just"))).bid
        node = place_of(store, asked).node
        place_of(store, asked).heard_at -= asked.ttl_ns
        store._roster._sweep_now()
        await waits(store, asked)
        await all_done(store)
        assert place_of(store, asked).node == node


async def test_a_claim_whose_bid_is_released_meanwhile_is_not_granted(ensemble: ZooKeeperEnsemble) -> None:
    async with behind_a_proxy(ensemble) as (proxy, store):
        asked = (await wins(store, bid("due/released"))).bid
        claim = await begin_to_claim(proxy, store, asked)
        release = asyncio.create_task(store.release(asked))
        await asyncio.sleep(0)  # It waits for the claim to end.
        proxy.deliver()
        with pytest.raises(OutcomeUnknown, match="given up"):
            await claim
        await release
        assert await children_of(ensemble.url, "due/released") == []
