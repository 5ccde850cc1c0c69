"""Behind a pooler that gives every transaction another session, everything that a sink says is said in one transaction.

A statement that is prepared under a name is known to one session only. Drivers prepare what they are asked often, so everything
here is asked more often than that, and of several sessions in turn.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink, guard, guard_sync
from tenure.sinks.sql.talk import Rows
from tenure.testing.engines import PgBouncer, PostgresCluster

SESSIONS = 5  # what PgBouncer keeps here
REPEATS = 3 * SESSIONS  # psycopg prepares what it was asked five times, asyncpg at once
INSERT = "INSERT INTO pooled VALUES ({}, {}) RETURNING pg_backend_pid()"
COUNT = "SELECT count(*) FROM pooled WHERE name = '{}'"


@pytest.fixture
def pooler(postgresql: PostgresCluster) -> Iterator[PgBouncer]:
    """A pooler in transaction mode that has all its sessions open, and gives them out in turn."""
    postgresql.sql("CREATE TABLE IF NOT EXISTS pooled (name text, token bigint)")
    with PgBouncer(postgresql) as pooler:
        admin = pooler.url.removesuffix("postgres") + "pgbouncer"
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("SET server_round_robin = 1")
        with ExitStack() as at_once:
            clients = [at_once.enter_context(psycopg.connect(pooler.url)) for _ in range(SESSIONS)]
            pids = {client.execute("SELECT pg_backend_pid()").fetchone() for client in clients}
        assert len(pids) == SESSIONS
        yield pooler


def holding(postgresql: PostgresCluster, fence: str, token: int) -> psycopg.Connection[Any]:
    """Return a session that has checked its token and goes no further."""
    connection = psycopg.connect(postgresql.url)
    guard_sync(connection, SimpleNamespace(fence=fence, token=token))
    return connection


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_sink_that_awaits_works_behind_a_pooler_however_often_it_is_asked(
    kind: type[Any], pooler: PgBouncer, postgresql: PostgresCluster, request: pytest.FixtureRequest
) -> None:
    fence = str(request.node.name)
    places = ("$1", "$2") if kind is PostgresSink else ("%s", "%s")

    async def write(connection: Any, token: int) -> int:
        if kind is PostgresSink:
            return int(await connection.fetchval(INSERT.format(*places), fence, token))
        [(pid,)] = await (await connection.execute(INSERT.format(*places), (fence, token))).fetchall()
        return int(pid)

    async def run() -> set[int]:
        pids = set()
        async with kind(pooler.url, wait_s=0.1) as sink, kind(pooler.url) as other:
            for number in range(1, REPEATS + 1):
                term = SimpleNamespace(fence=fence, token=number)
                await sink.seal(fence, Token(number))
                assert await sink.highest(fence) == number
                async with sink.transaction(term) as connection:
                    pids.add(await write(connection, number))
                async with other.transaction(term) as connection:  # It does not know that this token is sealed.
                    await write(connection, number)
            for number in range(REPEATS + 1, 2 * REPEATS + 1):
                with closing(holding(postgresql, fence, number - 1)):  # The seal asks who it is, in no transaction.
                    await sink.seal(fence, Token(number))
            with pytest.raises(StaleToken):
                async with other.transaction(SimpleNamespace(fence=fence, token=REPEATS)) as connection:
                    await write(connection, REPEATS)
        return pids

    assert len(asyncio.run(run())) > 1
    assert postgresql.sql(COUNT.format(fence)) == str(2 * REPEATS)


def test_a_sink_for_threads_works_behind_a_pooler_however_often_it_is_asked(
    pooler: PgBouncer, postgresql: PostgresCluster, request: pytest.FixtureRequest
) -> None:
    fence = str(request.node.name)
    pids = set()

    def write(connection: Any, token: int) -> Rows:
        found: Rows = connection.execute(INSERT.format("%s", "%s"), (fence, token)).fetchall()
        return found

    with PsycopgSink(pooler.url, wait_s=0.1) as sink, PsycopgSink(pooler.url) as other:
        for number in range(1, REPEATS + 1):
            term = SimpleNamespace(fence=fence, token=number)
            sink.admit(fence, number)
            assert sink.highest(fence) == number
            with sink.transaction(term) as connection:
                pids.update(write(connection, number))
            with other.transaction(term) as connection:
                write(connection, number)
        for number in range(REPEATS + 1, 2 * REPEATS + 1):
            with closing(holding(postgresql, fence, number - 1)):
                asyncio.run(sink.seal(fence, Token(number)))
        with pytest.raises(StaleToken), other.transaction(SimpleNamespace(fence=fence, token=REPEATS)) as connection:
            write(connection, REPEATS)
    assert len(pids) > 1
    assert postgresql.sql(COUNT.format(fence)) == str(2 * REPEATS)


@pytest.mark.parametrize("kind", ["asyncpg", "async psycopg", "psycopg"])
def test_a_guard_is_prepared_under_no_name_whatever_the_connection_is_set_to(
    kind: str, pooler: PgBouncer, postgresql: PostgresCluster, request: pytest.FixtureRequest
) -> None:
    fence = str(request.node.name)
    write = INSERT.format(f"'{fence}'", 1)
    term = SimpleNamespace(fence=fence, token=1)
    with PsycopgSink(postgresql.url) as sink:
        sink.admit(fence, 1)

    async def on_asyncpg() -> None:
        connection = await asyncpg.connect(pooler.url)
        try:
            for _ in range(REPEATS):
                async with connection.transaction():
                    await connection.execute(write)
                    await guard(connection, term)
        finally:
            await connection.close()

    async def on_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(pooler.url) as connection:
            for _ in range(REPEATS):
                async with connection.transaction():
                    await connection.execute(write.encode(), prepare=False)
                    await guard(connection, term)

    def on_thread() -> None:
        with psycopg.connect(pooler.url) as connection:
            for _ in range(REPEATS):
                with connection.transaction():
                    connection.execute(write.encode(), prepare=False)
                    guard_sync(connection, term)

    match kind:
        case "asyncpg":
            asyncio.run(on_asyncpg())
        case "async psycopg":
            asyncio.run(on_psycopg())
        case _:
            on_thread()
    assert postgresql.sql(COUNT.format(fence)) == str(REPEATS)


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink, PsycopgSink])
def test_where_there_is_no_pooler_statements_are_prepared_and_kept(
    kind: type[Any], postgresql: PostgresCluster
) -> None:
    named = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pooled%'"
    term = SimpleNamespace(fence=f"direct/{kind.__name__}", token=1)

    async def on_loop() -> int:
        async with kind(postgresql.url) as sink:
            found = 0
            for _ in range(REPEATS):
                async with sink.transaction(term) as connection:
                    if kind is PostgresSink:
                        await connection.fetch("SELECT name FROM pooled WHERE token = $1", 1)
                        found = await connection.fetchval(named)
                    else:
                        await connection.execute("SELECT name FROM pooled WHERE token = %s", (1,))
                        [found] = await (await connection.execute(named)).fetchone()
            return int(found)

    def on_thread() -> int:
        with kind(postgresql.url) as sink:
            found = 0
            for _ in range(REPEATS):
                with sink.transaction(term) as connection:
                    connection.execute("SELECT name FROM pooled WHERE token = %s", (1,))
                    [found] = connection.execute(named).fetchone()
            return int(found)

    postgresql.sql("CREATE TABLE IF NOT EXISTS pooled (name text, token bigint)")
    assert (on_thread() if kind is PsycopgSink else asyncio.run(on_loop())) >= 1


def test_rows_that_a_caller_wants_as_something_else_are_read_all_the_same(postgresql: PostgresCluster) -> None:
    with PsycopgSink(postgresql.url, row_factory=dict_row) as sink:
        sink.admit("rows", 7)
        assert sink.highest("rows") == 7
        with sink.transaction(SimpleNamespace(fence="rows", token=7)) as connection:
            assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}


def test_connections_that_are_opened_at_once_all_learn_of_the_pooler(
    pooler: PgBouncer, postgresql: PostgresCluster, request: pytest.FixtureRequest
) -> None:
    term = SimpleNamespace(fence=str(request.node.name), token=1)

    async def write(sink: PostgresSink, together: asyncio.Barrier) -> None:
        async with sink.transaction(term) as connection:
            await together.wait()  # Each has a connection of its own.
            await connection.execute("INSERT INTO pooled VALUES ($1, $2)", term.fence, term.token)

    async def run() -> None:
        async with PostgresSink(pooler.url) as first:
            await first.seal(term.fence, Token(1))
        async with PostgresSink(pooler.url) as sink:  # It has sealed nothing, so it knows nothing yet.
            for _ in range(3):
                together = asyncio.Barrier(SESSIONS)
                await asyncio.gather(*(write(sink, together) for _ in range(SESSIONS)))
            assert {kept.raw._config.statement_cache_size for kept in sink._idle} == {0}

    asyncio.run(run())
    assert int(postgresql.sql(COUNT.format(term.fence))) == 3 * SESSIONS
