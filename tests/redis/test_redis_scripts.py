"""Each operation is one script, as the server tells whoever monitors it."""

import asyncio
from collections.abc import Awaitable
from secrets import token_hex
from typing import Any

import redis.asyncio

from tenure.stores.redis import from_url
from tenure.testing.engines import RedisCluster
from tests.counting import ONE, counted


def test_each_operation_is_one_script() -> None:
    with RedisCluster() as server:
        host, port = server.nodes[0].host, server.nodes[0].ports[0]

        async def run() -> tuple[dict[str, int], set[str]]:
            kinds: set[str] = set()
            async with (
                from_url(server.url) as store,
                redis.asyncio.Redis(host=host, port=port) as watching,
                redis.asyncio.Redis(host=host, port=port) as marking,
                watching.monitor() as seen,
            ):
                await marking.ping()

                async def said(asked: Awaitable[Any]) -> tuple[Any, int]:
                    first, last = token_hex(8), token_hex(8)
                    await marking.echo(first)
                    answer = await asked
                    await marking.echo(last)
                    commands: list[str] = []
                    is_between = False
                    while True:
                        line = await seen.next_command()
                        if last in line["command"]:
                            kinds.update(command.split()[0] for command in commands)
                            return answer, len(commands)
                        if is_between and line["client_type"] != "lua":
                            commands.append(line["command"])
                        is_between = is_between or first in line["command"]

                return await counted(said, store), kinds

        told, kinds = asyncio.run(run())
        assert told == ONE
        assert kinds == {"EVAL", "EVALSHA"}  # The first time it sends the script, as the server does not know it.
