"""The Redis sink keeps the contract of sinks, with data of every kind, and refuses what somebody wrote over its fence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from anyio import to_thread

from tenure.clients.redis import RedisClient, settings_of
from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import Bound, RedisSink, Verify
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import EngineFailed, RedisCluster
from tenure.testing.engines.processes import wait_for
from tests.proxy import Proxy


class RedisSinkRig:
    """Values as a list, in the order in which they were accepted."""

    def __init__(self, server: RedisCluster) -> None:
        self.server = server

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[RedisSink]:
        async with RedisSink(self.server.url, verify=verify) as sink:
            yield sink

    async def write(self, client: RedisSink, term: Bound, value: str) -> None:
        await client.bind(term).txn([("RPUSH", f"written:{term.fence}", value)])

    async def read_all(self, fence: str) -> list[str]:
        async with RedisClient(settings_of(self.server.url)) as client:
            found = await client.call("LRANGE", f"written:{fence}", 0, -1, operation="read")
        return [part.decode() for part in found if isinstance(part, bytes)] if isinstance(found, list) else []

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Check and write are one script: a client dies and it is lost on its way, or the server dies in the middle of it."""
        node = self.server.nodes[0]
        async with Proxy(node.endpoint) as proxy, RedisSink(f"redis://{proxy.endpoint}?timeout=60") as lost:
            proxy.hold_requests()
            writing = asyncio.create_task(self.write(lost, term, value))
            assert await to_thread.run_sync(wait_for, lambda: proxy.held_bytes > 0, 30)
            writing.cancel()
            await asyncio.wait([writing])

        async with RedisSink(f"{self.server.url}?timeout=60") as answered_by_nobody:
            endless = "redis.call('RPUSH', KEYS[1], ARGV[1]) while true do end"
            await to_thread.run_sync(
                self.server.ctl, "CONFIG", "SET", "lua-time-limit", "1"
            )  # When it says that it is busy.
            bound = answered_by_nobody.bind(term)
            writing = asyncio.create_task(self._lost(bound.run(endless, [f"written:{term.fence}"], [value])))
            assert await to_thread.run_sync(wait_for, self._is_busy, 30)
            await to_thread.run_sync(node.kill)
            await writing
        await to_thread.run_sync(node.start)

    def _is_busy(self) -> bool:
        try:
            self.server.ctl("PING")
        except EngineFailed as told:
            return "BUSY" in str(told)
        return False

    @staticmethod
    async def _lost(call: Awaitable[object]) -> None:
        with pytest.raises(OutcomeUnknown):
            await call

    async def restart(self) -> None:
        await to_thread.run_sync(self.server.restart)


def test_every_promise_is_kept(server: RedisCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[RedisSinkRig]:
        yield RedisSinkRig(server)

    async def broken() -> list[str]:
        told = []
        for name in SINK_CONTRACT:
            try:
                await check_sink_promise(name, make)
            except ContractBroken as error:
                told.append(str(error))
        return told

    assert asyncio.run(broken()) == []


def term(fence: str, token: int) -> SimpleNamespace:
    return SimpleNamespace(fence=fence, token=token)


def test_strings_hashes_streams_and_scripts_are_fenced_alike(server: RedisCluster) -> None:
    old, new = term("kinds", 1), term("kinds", 2)

    async def run() -> None:
        async with RedisSink(server.url) as sink, RedisSink(server.url) as another:
            bound = sink.bind(old)
            await bound.set("kinds:text", "v1")
            await bound.hset("kinds:hash", {"a": "1", "b": "ä"})
            assert "-" in await bound.xadd("kinds:stream", {"event": "paid"})
            script = "if ARGV[1] == 'go' then return redis.call('INCRBY', KEYS[1], ARGV[2]) end return -1"
            assert await bound.run(script, ["kinds:count"], ["go", 5]) == 5
            assert await bound.run("return nil") is None
            await another.seal("kinds", Token(2))
            for stale in (
                bound.set("kinds:text", "stale"),
                bound.delete("kinds:text"),
                bound.hset("kinds:hash", {"a": "stale"}),
                bound.xadd("kinds:stream", {"event": "stale"}),
                bound.run(script, ["kinds:count"], ["go", 5]),
            ):
                with pytest.raises(StaleToken, match="highest seen is 2"):
                    await stale
            assert await another.bind(new).delete("kinds:text", "kinds:none") == 1

    asyncio.run(run())
    assert server.ctl("EXISTS", "kinds:text") == "0"
    assert server.ctl("HGET", "kinds:hash", "a") == "1"
    assert server.ctl("XLEN", "kinds:stream") == "1"
    assert server.ctl("GET", "kinds:count") == "5"


def test_a_command_that_redis_refuses_is_told_in_one_line_and_what_came_before_stays(server: RedisCluster) -> None:
    async def run() -> None:
        async with RedisSink(server.url) as sink:
            await sink.bind(term("refusing", 1)).txn([("SET", "refusing:a", "1"), ("HSET", "refusing:a", "f", "v")])

    with pytest.raises(Refused, match="another kind of value"):
        asyncio.run(run())
    assert server.ctl("GET", "refusing:a") == "1"


@pytest.mark.parametrize(
    "script",
    [
        "redis.call('SET', KEYS[1], '1') return redis.error_reply('ERR not today')",
        "redis.call('SET', KEYS[1], '1') return {err='LOADING not today'}",  # It is not the server that says so.
    ],
)
def test_a_script_that_returns_an_error_has_failed(server: RedisCluster, script: str) -> None:
    async def run() -> None:
        async with RedisSink(server.url) as sink:
            await sink.bind(term("erring", 1)).run(script, ["erring:a"])

    server.ctl("DEL", "erring:a")
    with pytest.raises(Refused, match="not today"):
        asyncio.run(run())
    assert server.ctl("GET", "erring:a") == "1"


def test_tokens_beyond_the_numbers_of_lua_are_told_apart(server: RedisCluster) -> None:
    async def run() -> None:
        async with RedisSink(server.url) as sink:
            for token in (2**53 + 1, 2**62 + 1, TOKEN_MAX):
                await sink.bind(term("large", token)).set("large:x", str(token))
                with pytest.raises(StaleToken, match=f"highest seen is {token}"):
                    await sink.bind(term("large", token - 1)).set("large:x", "stale")

    asyncio.run(run())
    assert server.ctl("GET", "large:x") == str(TOKEN_MAX)


@pytest.mark.parametrize("rubbish", ["seven", "-5", "1e9", "9" * 21, "0x10", "1 2"])
def test_a_fence_that_somebody_wrote_over_is_refused_in_one_line(server: RedisCluster, rubbish: str) -> None:
    server.ctl("SET", "tenure:fence:rubbish", rubbish)

    async def run() -> None:
        async with RedisSink(server.url) as sink:
            await sink.bind(term("rubbish", 9)).set("rubbish:x", "1")

    with pytest.raises(Refused, match="where a number must be: mend it"):
        asyncio.run(run())
    assert server.ctl("EXISTS", "rubbish:x") == "0"


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, 2**70, "7", 7.0, 7.5, True, None])
def test_a_token_that_cannot_be_one_is_refused_before_anything_is_asked(server: RedisCluster, token: Any) -> None:
    async def run() -> None:
        async with RedisSink(server.url) as sink:
            await sink.bind(term("none", token)).set("none:x", "1")

    with pytest.raises(ConfigError, match=r"must lie between 1 and|must be an integer"):
        asyncio.run(run())
    assert server.ctl("EXISTS", "none:x", "tenure:fence:none") == "0"


def test_the_guard_holds_in_a_transaction_of_another_program(server: RedisCluster) -> None:
    import redis.asyncio

    async def write(key: str, text: str, value: str) -> bool:
        host, port = server.nodes[0].host, server.nodes[0].ports[0]
        async with redis.asyncio.Redis(host=host, port=port) as client, client.pipeline() as pipe:
            await pipe.watch(key)
            if await pipe.get(key) != text.encode():
                return False
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.set("guarded:x", value)
            await pipe.execute()
            return True

    async def run() -> list[bool]:
        async with RedisSink(server.url) as sink:
            await sink.seal("guarded", Token(7))
            first = await write(*sink.guard(term("guarded", 7)), "first")
            await sink.seal("guarded", Token(8))
            return [first, await write(*sink.guard(term("guarded", 7)), "stale")]

    assert asyncio.run(run()) == [True, False]
    assert server.ctl("GET", "guarded:x") == "first"


def test_a_sink_of_several_servers_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError, match="several servers") as told:
        RedisSink("redlock://:hunter2@h1,h2,h3")
    assert "hunter2" not in str(told.value)
