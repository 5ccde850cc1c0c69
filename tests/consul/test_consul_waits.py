"""Those who wait: what they cost the agent, which takes a limited number of connections from one address."""

import asyncio
from collections.abc import Iterator

import pytest

import tenure
from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.messages import Op, lock
from tenure.clients.consul.settings import settings_of
from tenure.model import Bid, Grant, Wait
from tenure.office.opened import OpenStore
from tenure.stores.consul import from_url
from tenure.stores.consul.layout import LOCK_FLAG
from tenure.stores.consul.store import ConsulStore
from tenure.testing.engines import ConsulCluster
from tests.consul.consul_faults import lock_by_hand, pair_of
from tests.etcd.etcd_faults import bid_of, play, until
from tests.leaping import LeapingClock

CONNECTIONS_MAX = 130
STANDBY_COUNT = 170


@pytest.fixture
def stingy() -> Iterator[ConsulCluster]:
    """A Consul that takes fewer connections than there are standbys; as shipped it takes 200."""
    limits = f"-hcl=limits {{ http_max_conns_per_client = {CONNECTIONS_MAX} }}"
    with ConsulCluster(size=1, session_ttl_min_s=1, options=[limits]) as cluster:
        yield cluster


def hold_many(cluster: ConsulCluster, names: list[str]) -> str:
    """Hold many elections by hand, and return the session."""
    session = lock_by_hand(cluster, names[0], ttl="600s")
    for first in range(1, len(names), 64):
        ops: list[Op] = [lock(f"{name}/.lock", b"", LOCK_FLAG, session) for name in names[first : first + 64]]
        cluster.api("PUT", "/v1/txn", ops)
    return session


async def waiting(store: ConsulStore, bids: list[Bid]) -> "dict[Bid, asyncio.Task[None]]":
    """Have all of these wait, and return their waits once they are under way."""
    answers = [await store.claim(bid) for bid in bids]
    waits = [answer for answer in answers if isinstance(answer, Wait)]
    assert len(waits) == len(bids)
    tasks = {wait.bid: asyncio.create_task(store.changed(wait)) for wait in waits}
    await until(lambda: all(place.waiting for place in store._places if not place.leading))
    return tasks


async def end(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_more_standbys_than_the_agent_takes_connections_cost_no_leader_its_office_and_are_woken(
    stingy: ConsulCluster,
) -> None:
    async def story() -> None:
        names = [f"many/{number}" for number in range(STANDBY_COUNT)]
        session = await asyncio.to_thread(hold_many, stingy, names)
        async with from_url(stingy.url) as store:
            grant = await store.claim(bid_of("mine", ttl_s=60))
            assert isinstance(grant, Grant)
            tasks = await waiting(store, [bid_of(name, ttl_s=600) for name in names])
            for _ in range(20):
                assert await store.renew(grant) == grant
                async with from_url(stingy.url) as other:  # Somebody else on this machine.
                    assert await other.read("mine") is not None
            assert not any(task.done() for task in tasks.values())
            await asyncio.to_thread(stingy.api, "PUT", f"/v1/session/destroy/{session}")
            await asyncio.gather(*tasks.values())
            assert await store.renew(grant) == grant

    play(story())


def test_many_waits_for_one_key_are_one_request_and_those_that_are_given_up_cost_no_more(
    stingy: ConsulCluster,
) -> None:
    async def story() -> None:
        session = await asyncio.to_thread(lock_by_hand, stingy, "given-up", ttl="600s")
        async with from_url(stingy.url) as store:
            bid = bid_of("given-up", ttl_s=60)
            for _ in range(2 * CONNECTIONS_MAX):
                tasks = await waiting(store, [bid])
                assert await store.read("given-up") is not None  # So that its request is on its way.
                await end(list(tasks.values()))
            async with from_url(stingy.url) as other:
                assert await other.read("given-up") is not None
            # The next one waits by the request of those, and is woken.
            tasks = await waiting(store, [bid])
            await asyncio.to_thread(stingy.api, "PUT", f"/v1/session/destroy/{session}")
            await tasks[bid]
            assert isinstance(await store.claim(bid), Grant)

    play(story())


def test_impatient_tasks_at_a_held_lock_shut_out_nobody(stingy: ConsulCluster) -> None:
    async def story() -> None:
        await asyncio.to_thread(lock_by_hand, stingy, "impatient", ttl="600s")
        tries_count = 0

        async def impatient(store: OpenStore) -> None:
            nonlocal tries_count
            while tries_count < 2 * CONNECTIONS_MAX:
                tries_count += 1
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05), tenure.Lock(store, "impatient", ttl=30):
                        pytest.fail("it was let in")

        async with tenure.open_store(stingy.url) as store, from_url(stingy.url) as other:
            tasks = [asyncio.create_task(impatient(store)) for _ in range(4)]
            while not all(task.done() for task in tasks):
                async with from_url(stingy.url) as fresh:
                    assert await fresh.read("impatient") is not None
                assert await other.read("impatient") is not None
                await asyncio.sleep(0.1)
            await asyncio.gather(*tasks)

    play(story())


def test_a_standby_is_not_woken_by_what_its_leader_writes_about_itself(consul: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(consul.url) as store, from_url(consul.url) as other:
            grant = await store.claim(bid_of("moved"))
            assert isinstance(grant, Grant)
            bid = bid_of("moved")
            tasks = await waiting(other, [bid])

            def asks_from_there() -> bool:
                since, _ = other._waits._latest.get("moved/.lock", (0, None))
                return bool(since == pair_of(consul, "moved")["ModifyIndex"])

            for number in range(5):
                assert await store.proclaim(grant, f"elsewhere:{number}") == grant
                assert await store.renew(grant) == grant
                await until(asks_from_there)  # So its question was answered, and that has not woken it.
                assert not tasks[bid].done()
            await store.release(grant.bid)
            await tasks[bid]
            assert isinstance(await other.claim(bid), Grant)

    play(story())


def test_a_standby_that_never_asks_again_is_forgotten_although_its_session_was_destroyed(consul: ConsulCluster) -> None:
    async def story() -> None:
        await asyncio.to_thread(lock_by_hand, consul, "abandoned", ttl="60s")
        clock = LeapingClock()
        async with ConsulStore(ConsulClient(settings_of(consul.url)), clock=clock) as store:
            bid = bid_of("abandoned")
            assert isinstance(await store.claim(bid), Wait)
            (place,) = store._places
            session = place.lease
            assert session is not None
            await asyncio.to_thread(consul.api, "PUT", f"/v1/session/destroy/{session.name}")
            await until(lambda: session.gone)
            assert list(store._places) == [place]  # It may still ask again.
            clock.ahead_ns += 3 * bid.ttl_ns  # Longer than a standby is ever silent for.
            await until(lambda: not store._places)

    play(story())
