"""Servers and users that may read and not write: what is wrong is said in one line, and nothing was written."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest

from tenure.errors import Refused, StaleToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, grants_sql, set_up_sql
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.testing.engines import EngineFailed, MariaDbCluster, PostgresCluster
from tenure.testing.engines.processes import wait_for
from tests.sql_rig import at

PATIENCE_S = 60
WRITE = "INSERT INTO written VALUES (1)"
READ_ONLY = "the server is read-only: name the primary"


@pytest.fixture(scope="module")
def standby() -> Iterator[PostgresCluster]:
    """A primary whose fences ``f`` and ``later`` stand at 5, and a replica that knows of it."""
    with PostgresCluster(2) as cluster:
        with PsycopgSink(at(cluster, 0)) as sink:
            for fence in ("f", "later"):
                sink.admit(fence, 5)
        cluster.sql("CREATE TABLE written (a int)")

        def has_all() -> bool:
            try:
                cluster.sql("TABLE written", node=cluster.nodes[1])
            except EngineFailed:
                return False
            return cluster.sql("SELECT tenure_fence.highest('later')", node=cluster.nodes[1]) == "5"

        assert wait_for(has_all, PATIENCE_S)
        yield cluster


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_standby_of_postgresql_takes_neither_seals_nor_writes(kind: type[Any], standby: PostgresCluster) -> None:
    async def run() -> None:
        async with kind(at(standby, 1)) as sink:
            for fence, token in (("f", 6), ("unknown", 1)):
                with pytest.raises(Refused, match=READ_ONLY) as told:
                    await sink.seal(fence, Token(token))
                assert "\n" not in str(told.value)
                with pytest.raises(Refused, match=READ_ONLY):
                    async with sink.transaction(SimpleNamespace(fence=fence, token=token)) as connection:
                        await connection.execute(WRITE)
            # What it knows of the fence it may say, and then the server itself takes no write.
            by_the_server = asyncpg.ReadOnlySQLTransactionError, psycopg.errors.ReadOnlySqlTransaction
            for isolation, error in (("", by_the_server), ("repeatable read", Refused), ("serializable", Refused)):
                with pytest.raises(error):
                    async with sink.transaction(SimpleNamespace(fence="f", token=5), isolation) as connection:
                        await connection.execute(WRITE)
            with pytest.raises(StaleToken, match="the highest seen is 5"):
                await sink.seal("f", Token(4))
            assert await sink.highest("f") == 5

    asyncio.run(run())
    assert standby.sql("SELECT count(*), tenure_fence.highest('f') FROM written") == "0|5"


def test_a_standby_of_postgresql_takes_neither_seals_nor_writes_of_threads(standby: PostgresCluster) -> None:
    with PsycopgSink(at(standby, 1)) as sink:
        with pytest.raises(Refused, match=READ_ONLY):
            sink.admit("f", 6)
        with pytest.raises(Refused, match=READ_ONLY), sink.transaction(SimpleNamespace(fence="f", token=6)):
            pass
        with (
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
            sink.transaction(SimpleNamespace(fence="f", token=5)) as connection,
        ):
            connection.execute(WRITE)
    assert standby.sql("SELECT count(*), tenure_fence.highest('f') FROM written") == "0|5"


@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink])
def test_a_user_of_mysql_who_may_not_update_the_fences_is_told_which_rights_it_lacks(
    kind: type[Any], mariadb: MariaDbCluster
) -> None:
    fence, user = f"rights/{kind.__name__}", "'halved'@'%'"
    mariadb.sql(set_up_sql(), database="test")
    mariadb.sql(f"CREATE USER {user}; {grants_sql(user, 'test')}")
    url = mariadb.url.replace("root@", "halved@")

    async def sealed(token: int) -> None:
        sink = kind(url)
        try:
            await sink.seal(fence, Token(token))
        finally:
            ended = sink.close()
            if ended is not None:
                await ended

    try:
        asyncio.run(sealed(1))
        mariadb.sql(f"REVOKE UPDATE ON test.tenure_fence FROM {user}")
        lacks = r"UPDATE command denied to user.*: run the grants that tenure\.sinks\.mysql\.grants_sql prints"
        with pytest.raises(Refused, match=lacks) as told:
            asyncio.run(sealed(2))
        assert "\n" not in str(told.value)
        asyncio.run(sealed(1))  # It may still be what it is.
        stands = f"SELECT highest FROM tenure_fence WHERE fence = '{fence}'"  # noqa: S608
        assert mariadb.sql(stands, database="test") == "1"
        mariadb.sql(grants_sql(user, "test"))
        asyncio.run(sealed(2))
    finally:
        mariadb.sql(f"DROP USER {user}")
