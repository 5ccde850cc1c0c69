"""Candidates of one election that arrive together in one process: each has a session of its own, and one leads."""

import asyncio

import pytest

import tenure
from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.settings import settings_of
from tenure.model import Bid, Grant, Wait
from tenure.office.opened import OpenStore
from tenure.stores.consul import from_url
from tenure.stores.consul.roll import call_the_roll
from tenure.stores.consul.sessions import Place
from tenure.stores.consul.store import ConsulStore
from tenure.stores.entry import entry_of
from tenure.testing.engines import ConsulCluster
from tests.consul.consul_faults import pair_of
from tests.etcd.etcd_faults import bid_of, play


class Telling(ConsulClient):
    """Says when a session was made, before whoever has asked for it hears of it."""

    def __init__(self, url: str) -> None:
        super().__init__(settings_of(url))
        self.made = asyncio.Event()

    async def create_session(self, name: str, ttl_ns: int, lock_delay_ns: int) -> str:
        session = await super().create_session(name, ttl_ns, lock_delay_ns)
        self.made.set()
        return session


@pytest.mark.parametrize("others_count", [1, 5])
def test_one_who_comes_while_a_session_is_made_for_another_does_not_share_it(
    consul: ConsulCluster, others_count: int
) -> None:
    async def story() -> None:
        name = f"together/{others_count}"
        client = Telling(consul.url)

        async def come(bid: Bid) -> Grant | Wait:
            await client.made.wait()
            return await store.claim(bid)

        async with ConsulStore(client) as store:
            others = [asyncio.create_task(come(bid_of(name))) for _ in range(others_count)]
            answers = [await store.claim(bid_of(name)), *await asyncio.gather(*others)]
            grants = [answer for answer in answers if isinstance(answer, Grant)]
            assert len(grants) == 1
            assert pair_of(consul, name)["ModifyIndex"] == grants[0].token
            sessions = {place.lease for place in store._places}
            assert len(sessions) == len(answers)

    play(story())


def test_of_many_that_come_at_once_one_is_granted_and_after_it_each_of_the_others(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(consul.url) as store:
            left = [bid_of("at-once") for _ in range(12)]
            tokens = []
            while left:
                answers = await asyncio.gather(*map(store.claim, left))
                (grant,) = [answer for answer in answers if isinstance(answer, Grant)]
                tokens.append(grant.token)
                left.remove(grant.bid)
                await store.release(grant.bid)
            assert tokens == sorted(set(tokens))

    play(story())


def test_what_a_session_holds_for_one_candidate_is_never_taken_for_anothers(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(consul.url) as store:
            grant = await store.claim(bid_of("one-of-two"))
            assert isinstance(grant, Grant)
            (place,) = store._places
            assert place.lease is not None
            bid = bid_of("one-of-two")
            stranger = Place(bid, place.key, entry_of(bid), place.lock_delay_ns, lease=place.lease)
            assert await call_the_roll(store._client, place.lease, [stranger]) == {stranger}
            assert pair_of(consul, "one-of-two")["ModifyIndex"] == grant.token
            assert await store.renew(grant) == grant

    play(story())


@pytest.mark.timeout(300)
def test_of_forty_tasks_at_one_lock_never_two_are_inside(consul: ConsulCluster) -> None:
    inside_count = 0
    tokens: list[int] = []

    async def enter(store: OpenStore, number: int) -> None:
        nonlocal inside_count
        await asyncio.sleep(number / 1000)  # While sessions are made for those before it.
        async with tenure.Lock(store, "forty", ttl=30) as term:
            inside_count += 1
            assert inside_count == 1
            tokens.append(term.token)
            # Whoever else believes to be in is let in by the event loop now.
            await asyncio.sleep(0.02)
            inside_count -= 1

    async def story() -> None:
        async with tenure.open_store(consul.url) as store:
            await asyncio.gather(*(enter(store, number) for number in range(40)))

    play(story(), within_s=250)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 40
