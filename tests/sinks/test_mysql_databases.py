"""The fence of a sink is that of its own database, wherever a caller goes with USE, and whatever the database is called."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, fenced_engine
from tenure.testing.engines import EngineFailed, MariaDbCluster
from tests.sinks.mysql_rig import as_mysql_does

OTHER = "elsewhere"
ODD = "o'dd %s:x \\ `\" é"
WRITE = "INSERT INTO `test`.moved (name) VALUES ('{}')"


@pytest.fixture
def fence(mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """One that stands at 5, also in another database, which hears of no other seal."""
    name = str(request.node.name)
    mariadb.sql("CREATE TABLE IF NOT EXISTS moved (name varchar(200))", database="test")
    mariadb.sql(f"CREATE DATABASE {OTHER}")
    for url in (mariadb.url, in_database(mariadb, OTHER)):
        with PyMySQLSink(url) as sink:
            sink.admit(name, 5)
    yield name
    mariadb.sql(f"DROP DATABASE {OTHER}")


def in_database(mariadb: MariaDbCluster, name: str) -> str:
    return mariadb.url.replace("/test", f"/{quote(name, safe='')}")


def written(mariadb: MariaDbCluster, fence: str) -> str:
    return mariadb.sql(f"SELECT count(*) FROM moved WHERE name = '{fence}'", database="test")  # noqa: S608


@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_who_goes_to_another_database_inside_is_checked_by_the_fence_of_the_sink(
    steps: str, mariadb: MariaDbCluster, fence: str
) -> None:
    term = SimpleNamespace(fence=fence, token=5)

    async def run() -> None:
        sink = MySQLSink(mariadb.url)
        async with sink if steps == "one step" else as_mysql_does(sink), MySQLSink(mariadb.url) as successor:
            await sink.seal(fence, Token(5))
            async with sink.transaction(term) as connection, connection.cursor() as cursor:
                await cursor.execute(f"USE {OTHER}")
                await cursor.execute(WRITE.format(fence))
            with pytest.raises(StaleToken, match="highest seen is 6"):  # noqa: PT012
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute("SELECT DATABASE()")
                    assert await cursor.fetchall() == ((OTHER,),)  # It is left where its last user went.
                    await cursor.execute(WRITE.format(fence))
                    await successor.seal(fence, Token(6))
            assert await sink.highest(fence) == 6
            with pytest.raises(StaleToken, match="highest seen is 6"):
                await sink.admit(fence, 5)

    asyncio.run(run())
    assert written(mariadb, fence) == "1"


def test_the_same_in_threads(mariadb: MariaDbCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=5)
    with PyMySQLSink(mariadb.url) as sink, PyMySQLSink(mariadb.url) as successor:
        asyncio.run(sink.seal(fence, Token(5)))
        with pytest.raises(StaleToken, match="highest seen is 6"), sink.transaction(term) as connection:  # noqa: PT012
            cursor = connection.cursor()
            cursor.execute(f"USE {OTHER}")
            cursor.execute(WRITE.format(fence))
            successor.admit(fence, 6)
    assert written(mariadb, fence) == "0"


def test_the_same_by_sqlalchemy(mariadb: MariaDbCluster, fence: str) -> None:
    engine = create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    fenced = fenced_engine(engine, SimpleNamespace(fence=fence, token=5))
    with PyMySQLSink(mariadb.url) as successor:  # noqa: SIM117
        with pytest.raises(StaleToken, match="highest seen is 6"), fenced.begin() as connection:  # noqa: PT012
            connection.execute(text(f"USE {OTHER}"))
            connection.execute(text(WRITE.format(fence)))
            successor.admit(fence, 6)
    engine.dispose()
    assert written(mariadb, fence) == "0"


def test_triggers_are_those_of_the_database_of_the_sink(mariadb: MariaDbCluster, fence: str) -> None:
    mariadb.sql("CREATE TABLE IF NOT EXISTS of_two_databases (a int)", database="test")
    mariadb.sql("CREATE TABLE of_two_databases (a int)", database=OTHER)
    with PyMySQLSink(mariadb.url) as sink:
        sink.admit(fence, 5)
        with sink.transaction(SimpleNamespace(fence=fence, token=5)) as connection:
            connection.cursor().execute(f"USE {OTHER}")
        sink.install_triggers("of_two_databases", fence=fence)
        assert sink.fenced_tables()["of_two_databases"] == fence
        mariadb.sql("INSERT INTO of_two_databases VALUES (1)", database=OTHER)
        with pytest.raises(EngineFailed, match="presented no token"):
            mariadb.sql("INSERT INTO of_two_databases VALUES (1)", database="test")
        sink.remove_triggers("of_two_databases")
        mariadb.sql("INSERT INTO of_two_databases VALUES (1)", database="test")


def by_sink(url: str, term: Any, change: Callable[[Any], None]) -> None:
    with PyMySQLSink(url) as sink, sink.transaction(term) as connection:
        change(connection.cursor().execute)


def by_engine(url: str, term: Any, change: Callable[[Any], None]) -> None:
    engine = create_engine(make_url(url).set(drivername="mysql+pymysql"))
    try:
        with fenced_engine(engine, term).begin() as connection:
            change(lambda words: connection.execute(text(words)))
    finally:
        engine.dispose()


@pytest.mark.parametrize("way", [by_sink, by_engine])
def test_a_database_may_be_called_anything(way: Callable[..., None], mariadb: MariaDbCluster) -> None:
    name = "`" + ODD.replace("`", "``") + "`"
    mariadb.sql(f"CREATE DATABASE {name}")
    try:
        url, term = in_database(mariadb, ODD), SimpleNamespace(fence="odd", token=5)
        with PyMySQLSink(url) as sink:
            sink.admit("odd", 5)
            mariadb.sql(f"CREATE TABLE {name}.plain (a int)")
            way(url, term, lambda execute: execute("INSERT INTO plain VALUES (1)"))
            sink.install_triggers("plain", fence="odd")
            assert sink.fenced_tables() == {"plain": "odd"}
            sink.admit("odd", 6)
            with pytest.raises(StaleToken, match="highest seen is 6"):
                way(url, term, lambda execute: execute("INSERT INTO plain VALUES (2)"))
        assert mariadb.sql(f"SELECT a FROM {name}.plain") == "1"  # noqa: S608
        assert mariadb.sql(f"SELECT highest FROM {name}.tenure_fence") == "6"  # noqa: S608
    finally:
        mariadb.sql(f"DROP DATABASE {name}")
