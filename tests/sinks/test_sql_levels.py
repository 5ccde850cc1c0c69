"""A transaction has the level of isolation that it was asked for, and is refused after a seal at each of them: the sinks of each driver.

What overlaps of guard and seal there are is tested elsewhere, by one driver for each server (``test_*_isolation``).
"""

import asyncio
from types import SimpleNamespace

import pytest

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import AsyncPsycopgSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster

LEVELS = ("read committed", "repeatable read", "serializable")
MAKE = "CREATE TABLE IF NOT EXISTS levels (fence varchar(200))"
# InnoDB tells it of a transaction that has written; and what it has told before, if anybody has looked within 0.1 s.
UNTIL_A_LOOK = "SELECT SLEEP(0.25)"
SHOWN = "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()"


def write(fence: str) -> str:
    return f"INSERT INTO levels VALUES ('{fence}')"  # noqa: S608


def landed(fence: str) -> str:
    return f"SELECT count(*) FROM levels WHERE fence = '{fence}'"  # noqa: S608


@pytest.mark.parametrize("level", LEVELS)
def test_psycopg_in_a_thread(level: str, postgresql: PostgresCluster) -> None:
    term = SimpleNamespace(fence=f"levels/psycopg/{level}", token=1)
    postgresql.sql(MAKE)
    with PsycopgSink(postgresql.url) as old, PsycopgSink(postgresql.url) as new:
        old.admit(term.fence, 1)
        with pytest.raises(StaleToken, match="highest seen is 2"), old.transaction(term, level) as connection:  # noqa: PT012
            assert connection.execute("SHOW transaction_isolation").fetchone() == (level,)
            connection.execute(write(term.fence))
            new.admit(term.fence, 2)
    assert postgresql.sql(landed(term.fence)) == "0"


@pytest.mark.parametrize("level", LEVELS)
def test_psycopg_on_a_loop(level: str, postgresql: PostgresCluster) -> None:
    term = SimpleNamespace(fence=f"levels/async psycopg/{level}", token=1)
    postgresql.sql(MAKE)

    async def run() -> None:
        async with AsyncPsycopgSink(postgresql.url) as old, AsyncPsycopgSink(postgresql.url) as new:
            await old.seal(term.fence, Token(1))
            with pytest.raises(StaleToken, match="highest seen is 2"):  # noqa: PT012
                async with old.transaction(term, level) as connection:
                    assert await (await connection.execute("SHOW transaction_isolation")).fetchone() == (level,)
                    await connection.execute(write(term.fence))
                    await new.seal(term.fence, Token(2))

    asyncio.run(run())
    assert postgresql.sql(landed(term.fence)) == "0"


@pytest.mark.parametrize("level", LEVELS)
def test_pymysql_in_a_thread(level: str, mariadb: MariaDbCluster) -> None:
    term = SimpleNamespace(fence=f"levels/pymysql/{level}", token=1)
    mariadb.sql(MAKE, database="test")
    with PyMySQLSink(mariadb.url) as old, PyMySQLSink(mariadb.url) as new:
        old.admit(term.fence, 1)
        with pytest.raises(StaleToken, match="highest seen is 2"), old.transaction(term, level) as connection:  # noqa: PT012
            cursor = connection.cursor()
            cursor.execute(write(term.fence))
            cursor.execute(UNTIL_A_LOOK)
            cursor.execute(SHOWN)
            assert cursor.fetchall() == ((level.upper(),),)
            new.admit(term.fence, 2)
    assert mariadb.sql(landed(term.fence), database="test") == "0"


@pytest.mark.parametrize("level", LEVELS)
def test_asyncmy_on_a_loop(level: str, mariadb: MariaDbCluster) -> None:
    term = SimpleNamespace(fence=f"levels/asyncmy/{level}", token=1)
    mariadb.sql(MAKE, database="test")

    async def run() -> None:
        async with MySQLSink(mariadb.url) as old, MySQLSink(mariadb.url) as new:
            await old.seal(term.fence, Token(1))
            with pytest.raises(StaleToken, match="highest seen is 2"):  # noqa: PT012
                async with old.transaction(term, level) as connection:
                    cursor = connection.cursor()
                    await cursor.execute(write(term.fence))
                    await cursor.execute(UNTIL_A_LOOK)
                    await cursor.execute(SHOWN)
                    assert await cursor.fetchall() == ((level.upper(),),)
                    await new.seal(term.fence, Token(2))

    asyncio.run(run())
    assert mariadb.sql(landed(term.fence), database="test") == "0"
