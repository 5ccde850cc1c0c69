"""What Redis loses, shown on real servers, and what a fence makes of it: why these stores are best effort."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenure.errors import StaleToken
from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.sinks import SQLiteSink
from tenure.stores.redis import RedisStore, from_url
from tenure.testing.engines import Node, RedisCluster, RedisSentinels
from tenure.testing.engines.processes import wait_for

PASSWORD = "s3cret"
MINUTE_NS = 60 * 10**9


@pytest.fixture
def servers() -> Iterator[RedisCluster]:
    with RedisCluster(2, password=PASSWORD) as running:
        yield running


@pytest.fixture
def sentinels(servers: RedisCluster) -> Iterator[RedisSentinels]:
    with RedisSentinels(servers) as running:
        yield running


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    async with from_url(url.replace("://", f"://:{PASSWORD}@", 1)) as store:
        yield store


async def granted(store: RedisStore, serial: int = 1, holder: Holder | None = None) -> Grant:
    answer = await store.claim(Bid("office", holder or Holder.fresh(), serial, MINUTE_NS))
    assert isinstance(answer, Grant), answer
    return answer


async def promoted(sentinels: RedisSentinels, old: Node) -> Node:
    def is_promoted() -> bool:
        return sentinels.promoted(old) is not None

    assert await asyncio.to_thread(wait_for, is_promoted, 60)
    new = sentinels.promoted(old)
    assert new is not None
    return new


def cut_replication(servers: RedisCluster) -> None:
    """Have the replica fall behind: it can no longer log in to its primary."""
    primary, replica = servers.nodes
    servers.ctl("CONFIG", "SET", "masterauth", "wrong", node=replica)
    servers.ctl("CLIENT", "KILL", "TYPE", "replica", node=primary)
    assert wait_for(lambda: "connected_slaves:0" in servers.info(primary, "replication"), 30)


def test_a_promoted_replica_has_lost_the_office_and_its_token_and_the_fence_refuses_the_newer_leader(
    servers: RedisCluster, sentinels: RedisSentinels, tmp_path: Path
) -> None:
    async def run() -> None:
        async with opened(sentinels.url) as ada_store, opened(sentinels.url) as eve_store:
            ada = Holder.fresh()
            replicated = await granted(ada_store, 1, ada)
            assert await asyncio.to_thread(servers.ctl, "WAIT", "1", "30000") == "1"
            await asyncio.to_thread(cut_replication, servers)
            lost = [await granted(ada_store, serial, ada) for serial in (2, 3)][-1]  # Acknowledged, a minute long.
            standby = await eve_store.claim(Bid("office", Holder.fresh(), 1, MINUTE_NS))
            assert isinstance(standby, Wait)  # So this process has seen the token.

            await asyncio.to_thread(servers.nodes[0].kill)
            await promoted(sentinels, servers.nodes[0])

            # Somebody who has just begun: two are in office, and the later one has the lower token.
            async with opened(sentinels.url) as bob_store:
                assert bob_store.identity == ada_store.identity
                await bob_store.release(replicated.bid)  # The promoted one knows of her first tenure only.
                bob = await granted(bob_store)
                assert bob.token < lost.token
                assert await ada_store.renew(lost) == Ended(lost.bid, lost.token)  # She is told at her next renewal.
                sink = SQLiteSink(tmp_path / "books.db")
                fence = f"{bob_store.identity}/office"
                await sink.seal(fence, lost.token)
                with pytest.raises(StaleToken):  # Nothing stale is accepted: and nothing of the newer leader either.
                    await sink.seal(fence, bob.token)
                await bob_store.release(bob.bid)

            # Somebody who had stood by: it had seen the token, so the next one is above it, and the fence goes with it.
            eve = await eve_store.claim(standby.bid)
            assert isinstance(eve, Grant)
            assert eve.token > lost.token
            await sink.seal(fence, eve.token)
            with pytest.raises(StaleToken):
                await sink.seal(fence, lost.token)

    asyncio.run(run())


def test_a_paused_primary_gives_out_offices_after_it_was_succeeded(
    servers: RedisCluster, sentinels: RedisSentinels
) -> None:
    old = servers.nodes[0]

    async def run() -> None:
        async with opened(sentinels.url) as store:
            await store.release((await granted(store)).bid)
        assert await asyncio.to_thread(servers.ctl, "WAIT", "1", "30000") == "1"
        old.pause()
        await promoted(sentinels, old)
        async with opened(sentinels.url) as new_store:
            bob = await granted(new_store)
            old.resume()
            # Whoever was not told goes on to the old one, which does not know either: two in office, by one token. No fence
            # can tell these two apart.
            async with opened(f"redis://{old.endpoint}") as old_store:
                ada = await granted(old_store)
                assert ada.token == bob.token
                assert old_store.identity == new_store.identity
                assert await new_store.renew(bob) == bob

    asyncio.run(run())
