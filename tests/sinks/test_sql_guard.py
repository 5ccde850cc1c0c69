"""``guard`` in transactions of the caller's own: where it would be worth nothing it is refused, and has raised no fence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import mysql, postgresql
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import PostgresSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tests.sinks.mysql_rig import asyncmy_connected, connected

NOTHING_OPEN = "transaction = none is open: must be open before guard"
WRITE = "INSERT INTO guarded VALUES ('{}')"


@pytest.fixture
def fence(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def ledger(postgresql: PostgresCluster) -> PostgresCluster:
    postgresql.sql("CREATE TABLE IF NOT EXISTS guarded (name text)")
    return postgresql


@pytest.fixture
def accounts(mariadb: MariaDbCluster) -> MariaDbCluster:
    mariadb.sql("CREATE TABLE IF NOT EXISTS guarded (name varchar(200))", database="test")
    return mariadb


def term(fence: str, token: int) -> SimpleNamespace:
    return SimpleNamespace(fence=fence, token=token)


def rows(cluster: PostgresCluster | MariaDbCluster, fence: str) -> str:
    query = f"SELECT count(*) FROM guarded WHERE name = '{fence}'"  # noqa: S608
    return cluster.sql(query) if isinstance(cluster, PostgresCluster) else cluster.sql(query, database="test")


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("connect", [by_asyncpg, by_psycopg])
def test_a_guard_of_postgresql_without_a_transaction_is_refused(
    connect: Any, ledger: PostgresCluster, fence: str
) -> None:
    async def run() -> None:
        async with PostgresSink(ledger.url) as sink, connect(ledger.url) as connection:
            await sink.seal(fence, Token(1))
            with pytest.raises(ConfigError, match=NOTHING_OPEN):
                await postgresql.guard(connection, term(fence, 2))
            async with connection.transaction():
                pass
            with pytest.raises(ConfigError, match=NOTHING_OPEN):  # Nor does one count that has ended.
                await postgresql.guard(connection, term(fence, 2))
            assert await sink.highest(fence) == 1
            async with connection.transaction():
                await postgresql.guard(connection, term(fence, 2))
            assert await sink.highest(fence) == 2

    asyncio.run(run())


def test_a_guard_of_postgresql_without_a_transaction_is_refused_to_threads(ledger: PostgresCluster, fence: str) -> None:
    with PsycopgSink(ledger.url) as sink, psycopg.connect(ledger.url, autocommit=True) as connection:
        sink.admit(fence, 1)
        with pytest.raises(ConfigError, match=NOTHING_OPEN):
            postgresql.guard_sync(connection, term(fence, 2))
        assert sink.highest(fence) == 1


def test_a_guard_of_mysql_without_a_transaction_is_refused(accounts: MariaDbCluster, fence: str) -> None:
    async def run() -> None:
        async with MySQLSink(accounts.url) as sink, asyncmy_connected(accounts.url, autocommit=True) as connection:
            await sink.seal(fence, Token(1))
            with pytest.raises(ConfigError, match=NOTHING_OPEN):
                await mysql.guard(connection, term(fence, 2))
            assert await sink.highest(fence) == 1

    asyncio.run(run())
    with PyMySQLSink(accounts.url) as sink, closing(connected(accounts.url, autocommit=True)) as connection:
        with pytest.raises(ConfigError, match=NOTHING_OPEN):
            mysql.guard_sync(connection, term(fence, 2))
        assert sink.highest(fence) == 1


def test_the_guard_of_asyncmy_takes_back_what_was_written_before_it(accounts: MariaDbCluster, fence: str) -> None:
    async def run() -> None:
        async with MySQLSink(accounts.url) as sink, asyncmy_connected(accounts.url) as connection:
            await sink.seal(fence, Token(5))
            for token, sealed_only, error in ((4, False, StaleToken), (6, True, UnverifiedToken)):
                async with connection.cursor() as cursor:
                    await cursor.execute(WRITE.format(fence))
                with pytest.raises(error, match="the highest seen is 5"):
                    await mysql.guard(connection, term(fence, token), sealed_only=sealed_only)
                await connection.commit()
            assert await asyncio.to_thread(rows, accounts, fence) == "0"
            async with connection.cursor() as cursor:
                await cursor.execute(WRITE.format(fence))
            await mysql.guard(connection, term(fence, 6))
            await connection.commit()
            assert await sink.highest(fence) == 6

    asyncio.run(run())
    assert rows(accounts, fence) == "1"


def test_a_guard_inside_a_savepoint_of_psycopg_is_refused(ledger: PostgresCluster, fence: str) -> None:
    async def run() -> None:
        async with by_psycopg(ledger.url) as connection, connection.transaction():
            with pytest.raises(ConfigError, match="nested"):
                async with connection.transaction():
                    await postgresql.guard(connection, term(fence, 2))
            await postgresql.guard(connection, term(fence, 2))

    with PsycopgSink(ledger.url) as sink, psycopg.connect(ledger.url, autocommit=True) as connection:
        sink.admit(fence, 1)
        with connection.transaction():
            with pytest.raises(ConfigError, match="nested"), connection.transaction():
                postgresql.guard_sync(connection, term(fence, 1))
            postgresql.guard_sync(connection, term(fence, 1))
        asyncio.run(run())
        assert sink.highest(fence) == 2


def test_a_guard_that_stands_last_holds_whatever_was_rolled_back_before_it(ledger: PostgresCluster, fence: str) -> None:
    """One inside a savepoint of asyncpg, which does not show it, is gone with it: only that at the end counts."""

    async def run() -> None:
        async with PostgresSink(ledger.url, wait_s=60) as successor, by_asyncpg(ledger.url) as connection:
            await successor.seal(fence, Token(1))
            with pytest.raises(StaleToken, match="the highest seen is 2"):  # noqa: PT012
                async with connection.transaction():
                    savepoint = connection.transaction()
                    await savepoint.start()
                    await postgresql.guard(connection, term(fence, 1))
                    await savepoint.rollback()
                    await successor.seal(fence, Token(2))  # It waits for nobody.
                    await connection.execute(WRITE.format(fence))
                    await postgresql.guard(connection, term(fence, 1))

    asyncio.run(run())
    assert rows(ledger, fence) == "0"
