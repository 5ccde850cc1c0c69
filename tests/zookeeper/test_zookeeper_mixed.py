"""One election with programs of others: kazoo itself, and nodes as Curator makes them."""

import asyncio
from collections.abc import Iterator

import pytest
from anyio import to_thread
from kazoo.client import KazooClient

from tenure.clients.zookeeper.wire import ANYBODY, create, delete
from tenure.errors import Refused
from tenure.stores.zookeeper import from_url
from tenure.stores.zookeeper.names import contenders
from tenure.testing.engines import ZooKeeperEnsemble
from tests.zookeeper.zookeeper_rig import bid, children_of, operator, takes_over, waits, wins

pytestmark = pytest.mark.anyio

LATCH = "_c_0f2e1c9a-7d3b-4f6e-8a5c-1b2d3e4f5a6b-latch-"
MUTEX = "_c_0f2e1c9a-7d3b-4f6e-8a5c-1b2d3e4f5a6b-lock-"


@pytest.fixture
def kazoo(newest: ZooKeeperEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(newest.url.removeprefix("zookeeper://"))
    client.start()
    yield client
    client.stop()
    client.close()


async def test_kazoos_lock_and_ours_are_one_election(newest: ZooKeeperEnsemble, kazoo: KazooClient) -> None:
    async with from_url(newest.url) as store:
        lock = kazoo.Lock("/mixed/kazoo", "theirs")
        for _ in range(3):
            await to_thread.run_sync(lock.acquire)
            asked = bid("mixed/kazoo")
            wait = await waits(store, asked)
            assert wait.incumbent is not None
            assert wait.incumbent.advertised == "theirs"
            async with asyncio.TaskGroup() as tasks:
                ours = tasks.create_task(takes_over(store, wait))
                await to_thread.run_sync(lock.release)
            rival = kazoo.Lock("/mixed/kazoo", "rival")
            assert not await to_thread.run_sync(lambda: rival.acquire(blocking=False))  # noqa: B023  (called here)
            assert str(asked.holder) in lock.contenders()[0]
            async with asyncio.TaskGroup() as tasks:
                theirs = tasks.create_task(to_thread.run_sync(lock.acquire))
                await store.release(asked)
            assert theirs.result()
            assert ours.result().token < (await kazoo_token(lock))
            await to_thread.run_sync(lock.release)


async def kazoo_token(lock: object) -> int:
    client, path, node = lock.client, lock.path, lock.node  # type: ignore[attr-defined]
    return int((await to_thread.run_sync(client.exists, f"{path}/{node}")).czxid)


@pytest.mark.parametrize("theirs", [LATCH, MUTEX], ids=["latch", "mutex"])
async def test_a_curator_that_comes_between_is_put_in_the_same_place_by_everybody(
    newest: ZooKeeperEnsemble, theirs: str
) -> None:
    election = f"mixed/between-{theirs[-6:-1]}"
    async with from_url(newest.url) as store, operator(newest.url) as session:
        await wins(store, bid(election))  # From here on the store believes to know the next number.
        await store.release(next(iter(store._roster.places)).bid)
        between, _ = await session.ask(create(f"/{election}/{theirs}", b"", ANYBODY, ephemeral=True, sequential=True))
        asked = bid(election)
        wait = await waits(store, asked)
        own = next(one for one in contenders(await children_of(newest.url, election)) if one.shown is not None)
        number = int(between[-10:])
        assert own.shown is not None
        assert number < own.shown <= own.number
        async with asyncio.TaskGroup() as tasks:
            taken = tasks.create_task(takes_over(store, wait))
            await session.ask(delete(between))
        assert await store.renew(taken.result()) == taken.result()


async def test_a_stranger_in_office_cannot_be_asked_to_resign_by_us(
    newest: ZooKeeperEnsemble, kazoo: KazooClient
) -> None:
    lock = kazoo.Lock("/mixed/stranger", "theirs")
    await to_thread.run_sync(lock.acquire)
    async with from_url(newest.url) as store:
        with pytest.raises(Refused, match="ask it in its own way"):
            await store.ask_to_resign("mixed/stranger")
        incumbent = await store.read("mixed/stranger")
        assert incumbent is not None
        assert (incumbent.holder.host, incumbent.holder.pid) == ("theirs", 0)
    await to_thread.run_sync(lock.release)
