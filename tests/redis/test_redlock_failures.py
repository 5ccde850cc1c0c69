"""Redlock on real servers: what a minority that fails costs, and what it cannot promise."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.errors import Refused, StoreError, Unreachable
from tenure.model import Bid, Ended, Grant, Holder
from tenure.sinks import SQLiteSink
from tenure.stores.redis.redlock import RedlockStore, from_url
from tenure.testing.engines import RedisCluster

MINUTE_NS = 60 * 10**9


@pytest.fixture
def servers() -> Iterator[RedisCluster]:
    with RedisCluster(5, independent=True) as running:
        yield running


async def granted(store: RedlockStore, election: str, ttl_ns: int = MINUTE_NS) -> Grant:
    answer = await store.claim(Bid(election, Holder.fresh(), 1, ttl_ns))
    assert isinstance(answer, Grant), answer
    return answer


def test_tokens_rise_although_majorities_share_one_server_only(servers: RedisCluster) -> None:
    async def run() -> list[int]:
        tokens = []
        async with from_url(servers.url) as store:
            assert store.identity.startswith("redlock/")
        for down in ((0, 1), (3, 4), (0, 4)):
            for index in down:
                servers.nodes[index].kill()
            async with from_url(servers.url) as store:  # It has seen nothing.
                for _ in range(3):
                    grant = await granted(store, "rising")
                    tokens.append(int(grant.token))
                    assert await store.renew(grant) == grant
                    await store.release(grant.bid)
            for index in down:
                servers.nodes[index].start()
        return tokens

    tokens = asyncio.run(run())
    assert tokens == sorted(set(tokens)), tokens
    assert len(tokens) == 9


def test_without_a_majority_nothing_is_granted_and_with_one_again_it_is(servers: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(servers.url, timeout="1") as store:
            grant = await granted(store, "minority")
            for node in servers.nodes[:2]:
                node.pause()
            assert await store.renew(grant) == grant  # Nobody waits for those who are silent.
            servers.nodes[2].kill()
            with pytest.raises(StoreError, match="servers did not answer"):
                await store.renew(grant)
            with pytest.raises(StoreError, match="servers did not answer"):
                await granted(store, "another")
            with pytest.raises(StoreError):
                await store.read("minority")
            for node in servers.nodes[:2]:
                node.resume()
            assert await store.renew(grant) == grant

    asyncio.run(run())


def test_who_looks_reads_or_leaves_does_not_wait_for_silent_servers(servers: RedisCluster) -> None:
    async def run() -> None:
        # A server that is waited for costs half a minute.
        async with from_url(servers.url, timeout="30") as store:
            grant = await granted(store, "silent", 8 * 30 * 10**9)
            for node in servers.nodes[:2]:
                node.pause()
            try:
                async with asyncio.timeout(20):
                    left_s = await store._look(["silent", "nobody"])
                    assert left_s["silent"] > 0
                    assert left_s["nobody"] == 0
                    assert await store.read("nobody") is None
                    asked = await store.ask_to_resign("silent")
                    assert asked is not None
                    assert asked.token == grant.token
                    await store.release(grant.bid)
                    assert await store.read("silent") is None
            finally:
                for node in servers.nodes[:2]:
                    node.resume()

    asyncio.run(run())  # Closing waits until those have heard of it as well.
    assert [servers.ctl("EXISTS", "tenure:office:silent", node=node) for node in servers.nodes] == ["0"] * 5


def test_the_first_time_all_servers_must_answer_and_afterwards_a_majority(servers: RedisCluster) -> None:
    async def name() -> str:
        async with from_url(servers.url) as store:
            return store.identity

    servers.nodes[4].kill()
    with pytest.raises(Unreachable, match="the first time all 5 servers must answer"):
        asyncio.run(name())
    servers.nodes[4].start()
    named = asyncio.run(name())
    servers.nodes[0].kill()
    assert asyncio.run(name()) == named
    for node in servers.nodes[1:4]:
        servers.ctl("SET", "tenure:id", node.name, node=node)
    with pytest.raises(Refused, match="belong to different sets"):
        asyncio.run(name())


def test_servers_that_forget_make_two_majorities_and_tokens_that_do_not_rise() -> None:
    with RedisCluster(3, independent=True, persistent=False) as servers:

        async def run() -> None:
            async with from_url(servers.url, timeout="1") as ada_store, from_url(servers.url) as bob_store:
                servers.nodes[2].kill()
                ada = await granted(ada_store, "forgotten")
                servers.nodes[1].kill()
                for node in servers.nodes[1:]:
                    node.start()  # Without its data.
                asked, bob = Bid("forgotten", Holder.fresh(), 1, MINUTE_NS), None
                async with asyncio.timeout(30):  # A connection may first have to learn that it broke.
                    while not isinstance(bob, Grant):
                        with suppress(StoreError):
                            bob = await bob_store.claim(asked)
                assert bob.token <= ada.token  # A minute before hers ends. She is told at her next renewal:
                assert await ada_store.renew(ada) == Ended(ada.bid, ada.token)

        asyncio.run(run())


PAUSED = """
import asyncio, sqlite3, sys
from types import SimpleNamespace
from tenure.errors import StaleToken
from tenure.model import Bid, Holder
from tenure.sinks import SQLiteSink
from tenure.stores.redis.redlock import from_url

async def main(servers: str, database: str) -> None:
    async with from_url(servers) as store:
        # A server has an eighth of it to answer in: long enough for a busy machine.
        grant = await store.claim(Bid("paused", Holder.fresh(), 1, 6_000_000_000))
    term = SimpleNamespace(fence="paused", token=grant.token)
    row = "INSERT INTO written VALUES (?)", (grant.token,)
    with SQLiteSink(database) as sink:

        async def write() -> str:
            try:
                await sink.run(term, lambda connection: connection.execute(*row))
            except StaleToken as stale:
                return f"refused, {stale.highest} was seen"
            return "written"

        print(grant.token, await write(), flush=True)
        sys.stdin.readline()  # Stopped here, for longer than its ttl: it does not look at the clock, as most programs do not.
        with sqlite3.connect(database) as connection:
            connection.execute(row[0].replace("written", "unfenced"), row[1])  # Nothing keeps it from that.
        print(await write(), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_client_that_is_paused_past_its_validity_writes_on_and_only_the_fence_refuses_it(
    servers: RedisCluster, tmp_path: Path
) -> None:
    database = tmp_path / "books.db"
    with closing(sqlite3.connect(database)) as books:
        books.execute("CREATE TABLE written (token INTEGER)")
        books.execute("CREATE TABLE unfenced (token INTEGER)")
    command = [sys.executable, "-c", PAUSED, servers.url, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ada:
        assert ada.stdout is not None
        assert ada.stdin is not None
        token, _, told = ada.stdout.readline().strip().partition(" ")
        assert told == "written"
        ada.send_signal(signal.SIGSTOP)

        async def succeed() -> int:
            async with from_url(servers.url) as store:
                bid = Bid("paused", Holder.fresh(), 1, MINUTE_NS)
                answer = await store.claim(bid)
                while not isinstance(answer, Grant):
                    await store.changed(answer)
                    answer = await store.claim(bid)
            with SQLiteSink(database) as sink:
                await sink.run(
                    SimpleNamespace(fence="paused", token=answer.token),
                    lambda connection: connection.execute("INSERT INTO written VALUES (?)", (answer.token,)),
                )
            return int(answer.token)

        newer = asyncio.run(succeed())
        assert newer > int(token)
        ada.send_signal(signal.SIGCONT)
        ada.stdin.write("\n")
        ada.stdin.flush()
        assert ada.stdout.readline().strip() == f"refused, {newer} was seen"
    with closing(sqlite3.connect(database)) as books:
        assert books.execute("SELECT token FROM written ORDER BY rowid").fetchall() == [(int(token),), (newer,)]
        assert books.execute("SELECT token FROM unfenced").fetchall() == [(int(token),)]
