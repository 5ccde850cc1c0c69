"""The name of a fence is the same text in a database of any encoding, in the client and in the server."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.model import Token
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink
from tenure.testing.engines import PostgresCluster


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink], ids=lambda kind: kind.__name__)
def test_a_fence_of_any_letters_is_known_in_a_database_of_another_encoding(
    kind: Any, postgresql: PostgresCluster
) -> None:
    name, term = f"latin_{kind.__name__.lower()}", SimpleNamespace(fence="früh", token=Token(1))
    postgresql.sql(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    url = postgresql.url.rpartition("/")[0] + f"/{name}"

    async def on_loop() -> None:
        async with kind(url) as sink:
            await sink.seal(term.fence, term.token)
            async with sink.transaction(term) as connection:
                await connection.execute("CREATE TABLE early (name text)")
            await sink.install_triggers("early", fence=term.fence)
            async with sink.transaction(term) as connection:
                await connection.execute("INSERT INTO early VALUES ('früh')")
            assert await sink.highest(term.fence) == 1
            async with sink.transaction(term) as connection:
                await connection.execute("SELECT tenure_fence.present('früh', 1)")
                await connection.execute("INSERT INTO early VALUES ('früh')")

    try:
        asyncio.run(on_loop())
    finally:
        postgresql.sql(f"DROP DATABASE {name} WITH (FORCE)")
