"""Each operation is one statement, as the server has logged them."""

import asyncio
import re
from collections.abc import Awaitable
from secrets import token_hex
from typing import Any

from tenure.stores.postgresql import from_url
from tenure.testing.engines import PostgresCluster
from tests.counting import ONE, counted


def test_each_operation_is_one_statement() -> None:
    with PostgresCluster(options=["log_statement=all", "log_line_prefix=%a|"]) as cluster:
        files = [file for file in cluster.nodes[0].folder.rglob("*") if file.is_file()]
        [log] = [file for file in files if b"is ready to accept" in file.read_bytes()]

        async def said(asked: Awaitable[Any]) -> tuple[Any, int]:
            before = log.stat().st_size
            answer = await asked
            await asyncio.to_thread(cluster.sql, f"SELECT '{token_hex(8)}'")  # Logged after it.
            lines = log.read_bytes()[before:].decode().splitlines()
            return answer, sum(bool(re.match(r"tenure\|LOG:  (statement|execute)", line)) for line in lines)

        async def run() -> dict[str, int]:
            async with from_url(cluster.url) as store:
                return await counted(said, store)

        assert asyncio.run(run()) == ONE
