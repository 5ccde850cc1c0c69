"""What Redis loses, shown on real servers, and what a fence makes of it: why these stores are best effort."""

import asyncio
import sqlite3
import time
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
from tenure.testing.sink_rig import Term

PASSWORD = "s3cret"
TTL_NS = 600 * 10**9  # Longer than any failover takes on a busy machine.


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
    answer = await store.claim(Bid("office", holder or Holder.fresh(), serial, TTL_NS))
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


async def granted_unheard(servers: RedisCluster, store: RedisStore, claims: int) -> Grant:
    """Return an office that the replica does not hear of. All it knows is that somebody was in office, and has left it."""
    known = await granted(store)
    await store.release(known.bid)
    assert await asyncio.to_thread(servers.ctl, "WAIT", "1", "30000") == "1"
    await asyncio.to_thread(cut_replication, servers)
    holder = Holder.fresh()
    grant = [await granted(store, serial, holder) for serial in range(1, claims + 1)][-1]
    assert grant.token == known.token + claims
    return grant


async def fail_over(servers: RedisCluster, sentinels: RedisSentinels, unheard: Grant, claims: int) -> None:
    """Kill the primary, and have the replica promoted, which has no office and counts on from where it was."""
    await asyncio.to_thread(servers.nodes[0].kill)
    new = await promoted(sentinels, servers.nodes[0])
    told = [servers.ctl(*words, node=new) for words in (("EXISTS", "tenure:office:office"), ("GET", "tenure:token"))]
    assert told == ["0", str(unheard.token - claims)]


async def written(sink: SQLiteSink, fence: str, grant: Grant) -> None:
    """Write a row under the token of a grant."""

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS entries (token INTEGER)")
        connection.execute("INSERT INTO entries VALUES (?)", (grant.token,))

    await sink.run(Term(fence, grant.token), write)


async def entries(sink: SQLiteSink, fence: str, leader: Grant) -> list[int]:
    def read(connection: sqlite3.Connection) -> list[int]:
        return [token for (token,) in connection.execute("SELECT token FROM entries ORDER BY rowid")]

    return await sink.run(Term(fence, leader.token), read)


def test_a_promoted_replica_has_lost_the_office_and_its_token_and_the_fence_refuses_the_newer_leader(
    servers: RedisCluster, sentinels: RedisSentinels, tmp_path: Path
) -> None:
    async def run() -> None:
        async with opened(sentinels.url) as ada_store:
            begun_s = time.monotonic()
            ada = await granted_unheard(servers, ada_store, claims=2)
            await fail_over(servers, sentinels, ada, claims=2)

            # Bob has just begun. Nobody has released anything, nobody's lease has ended, and the office is his.
            async with opened(sentinels.url) as bob_store:
                assert bob_store.identity == ada_store.identity
                bob = await granted(bob_store)
                assert time.monotonic() - begun_s < TTL_NS / 1e9  # Hers lasts as well: two are in office,
                assert bob.token < ada.token  # and the later one has the lower token.
                assert await ada_store.renew(ada) == Ended(ada.bid, ada.token)  # She is told at her next renewal.
                sink = SQLiteSink(tmp_path / "books.db")
                fence = f"{bob_store.identity}/office"
                await sink.seal(fence, ada.token)
                await written(sink, fence, ada)
                with pytest.raises(StaleToken):  # Nothing stale is accepted: and nothing of the newer leader either.
                    await sink.seal(fence, bob.token)
                with pytest.raises(StaleToken):
                    await written(sink, fence, bob)
                assert await entries(sink, fence, ada) == [ada.token]

    asyncio.run(run())


def test_a_promoted_replica_that_lost_one_office_gives_its_token_out_again_and_no_fence_tells_the_two_apart(
    servers: RedisCluster, sentinels: RedisSentinels, tmp_path: Path
) -> None:
    async def run() -> None:
        async with opened(sentinels.url) as ada_store:
            ada = await granted_unheard(servers, ada_store, claims=1)
            await fail_over(servers, sentinels, ada, claims=1)
            async with opened(sentinels.url) as bob_store:
                bob = await granted(bob_store)
                assert bob.bid.holder != ada.bid.holder
                assert bob.token == ada.token
                sink = SQLiteSink(tmp_path / "books.db")
                fence = f"{bob_store.identity}/office"
                for grant in (ada, bob, ada):  # What the documents call the limit of every fence.
                    await sink.seal(fence, grant.token)
                assert await ada_store.renew(ada) == Ended(ada.bid, ada.token)  # The store tells them apart, by name.
                assert await bob_store.renew(bob) == bob

    asyncio.run(run())


def test_a_standby_that_had_seen_the_lost_token_goes_on_above_it_and_the_fence_goes_with_it(
    servers: RedisCluster, sentinels: RedisSentinels, tmp_path: Path
) -> None:
    async def run() -> None:
        async with opened(sentinels.url) as ada_store, opened(sentinels.url) as eve_store:
            ada = await granted_unheard(servers, ada_store, claims=2)
            standby = await eve_store.claim(Bid("office", Holder.fresh(), 1, TTL_NS))
            assert isinstance(standby, Wait)  # So this process has seen the token.
            await fail_over(servers, sentinels, ada, claims=2)
            eve = await eve_store.claim(standby.bid)
            assert isinstance(eve, Grant)
            assert eve.token > ada.token
            sink = SQLiteSink(tmp_path / "books.db")
            fence = f"{eve_store.identity}/office"
            await sink.seal(fence, ada.token)
            await written(sink, fence, ada)
            await sink.seal(fence, eve.token)
            with pytest.raises(StaleToken):
                await sink.seal(fence, ada.token)
            with pytest.raises(StaleToken, match=f"token {ada.token} is stale: the highest seen is {eve.token}"):
                await written(sink, fence, ada)  # Her lease has not ended, and she was told nothing.
            await written(sink, fence, eve)
            assert await entries(sink, fence, eve) == [ada.token, eve.token]

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
