"""A pooler that loses its server while a commit is on its way does not know what became of it, and says so in a code of its own."""

import asyncio
from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import OutcomeUnknown
from tenure.model import Token
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.sinks.postgresql.sqlstate import by_server
from tenure.testing.engines import PgBouncer, PostgresCluster
from tenure.testing.engines.processes import wait_for

FENCE = "lost"
TERM = SimpleNamespace(fence=FENCE, token=Token(1))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresCluster]:
    with PostgresCluster(1) as cluster:
        cluster.sql("CREATE TABLE lost (name text)")
        yield cluster


def transact(kind: Any, url: str, name: str) -> None:
    """Write and commit, by any sink."""
    insert = f"INSERT INTO lost VALUES ('{name}')"  # noqa: S608

    async def on_loop() -> None:
        async with kind(url) as sink, sink.transaction(TERM) as connection:
            await connection.execute(insert)

    if kind is not PsycopgSink:
        asyncio.run(on_loop())
        return
    with kind(url) as sink, sink.transaction(TERM) as connection:
        connection.execute(insert)


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink, PsycopgSink], ids=lambda kind: kind.__name__)
def test_a_commit_that_took_place_before_its_server_was_lost_is_not_said_to_have_failed(
    kind: Any, server: PostgresCluster
) -> None:
    told: list[BaseException] = []

    def run(url: str) -> None:
        try:
            transact(kind, url, kind.__name__)
        except OutcomeUnknown as error:
            told.append(error)

    with PgBouncer(server) as pooler:
        transact(kind, pooler.url, "before")
        # What is committed waits for a standby that is not there, and is on the disk.
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.sql("SELECT pg_reload_conf()")
        thread = Thread(target=run, args=(pooler.url,))
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        assert wait_for(lambda: server.sql(waits) == "1", 60)
        server.nodes[0].kill()
        thread.join(60)
        server.mend()
        server.sql("ALTER SYSTEM RESET synchronous_standby_names")
        server.sql("SELECT pg_reload_conf()")
    assert server.sql(f"SELECT count(*) FROM lost WHERE name = '{kind.__name__}'") == "1"  # noqa: S608
    assert len(told) == 1


@pytest.mark.parametrize(
    ("code", "heard"),
    [("08P01", ""), ("08006", ""), ("58000", ""), (None, ""), ("23505", "23505"), ("58P01", "58P01")],
)
def test_what_a_pooler_says_of_its_own_is_not_taken_for_the_servers_word(code: str | None, heard: str) -> None:
    assert by_server(code) == heard
