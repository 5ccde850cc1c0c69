"""A command is sent once: what was not answered may have been carried out, and is not asked for again."""

import asyncio
from secrets import token_hex
from types import SimpleNamespace

import pytest

from tenure.errors import OutcomeUnknown
from tenure.model import Token
from tenure.sinks import RedisSink
from tenure.testing.engines import RedisCluster
from tenure.testing.engines.processes import wait_for
from tests.proxy import Proxy


def test_what_was_sent_and_not_answered_is_sent_no_second_time(server: RedisCluster) -> None:
    endpoint, fence = server.nodes[0].endpoint, token_hex(4)
    counter = f"{fence}:count"

    async def run() -> None:
        async with Proxy(endpoint) as proxy, RedisSink(f"redis://{proxy.endpoint}?timeout=30") as sink:
            await sink.seal(fence, Token(1))
            bound = sink.bind(SimpleNamespace(fence=fence, token=1))

            async def count() -> object:
                return await bound.run("return redis.call('INCR', KEYS[1])", [counter])

            assert await count() == 1  # From now on the server has the script.
            proxy.lose_answers()
            counting = asyncio.create_task(count())
            assert await asyncio.to_thread(wait_for, lambda: server.ctl("GET", counter) == "2", 30)
            proxy.turn_to(endpoint)  # The connection ends, and another one to the same server would work.
            with pytest.raises(OutcomeUnknown):
                await counting
            assert server.ctl("GET", counter) == "2"
            assert await count() == 3  # It does work.

    asyncio.run(run())
