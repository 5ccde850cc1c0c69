"""Ways by which something could be committed unchecked, or somebody innocent be ended, are closed."""

import asyncio
from contextlib import closing
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, fenced_engine, guard_sync
from tenure.sinks.mysql.dialect import MySQLDialect
from tenure.sinks.mysql.schema import variable_of
from tenure.sinks.sql.talk import Trouble
from tenure.testing.engines import EngineFailed, MariaDbCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.mysql_rig import as_mysql_does, connected, lock_waits
from tests.sinks.warmed import warm

PATIENCE_S = 60


@pytest.fixture
def fence(mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    mariadb.sql("CREATE TABLE IF NOT EXISTS out_of (name varchar(200) PRIMARY KEY)", database="test")
    mariadb.sql(f"DELETE FROM out_of WHERE name = '{name}'", database="test")  # noqa: S608
    return name


def write(fence: str) -> str:
    return f"INSERT INTO out_of VALUES ('{fence}')"  # noqa: S608


def written(mariadb: MariaDbCluster, fence: str) -> bool:
    return mariadb.sql(f"SELECT count(*) FROM out_of WHERE name = '{fence}'", database="test") == "1"  # noqa: S608


@pytest.mark.parametrize("way", ["begin", "autocommit"])
def test_what_would_commit_inside_is_refused(way: str, mariadb: MariaDbCluster, fence: str) -> None:
    term, words = SimpleNamespace(fence=fence, token=1), (True,) if way == "autocommit" else ()

    async def on_loop() -> None:
        async with MySQLSink(mariadb.url) as sink:
            with pytest.raises(ConfigError, match=way):  # noqa: PT012
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute(write(fence))
                    await getattr(connection, way)(*words)

    asyncio.run(on_loop())
    with PyMySQLSink(mariadb.url) as sink, pytest.raises(ConfigError, match=way), sink.transaction(term) as connection:  # noqa: PT012
        connection.cursor().execute(write(fence))
        getattr(connection, way)(*words)
    assert not written(mariadb, fence)


@pytest.mark.parametrize("ends", [True, False])
def test_a_connection_that_was_set_to_autocommit_by_text_is_not_used_again(
    ends: bool, mariadb: MariaDbCluster, fence: str
) -> None:
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))

    async def on_loop() -> None:
        async with MySQLSink(mariadb.url) as sink, MySQLSink(mariadb.url) as other:
            await sink.seal(fence, Token(1))
            with pytest.raises(ConfigError if ends else KeyError):  # noqa: PT012
                async with sink.transaction(old) as connection, connection.cursor() as cursor:
                    await cursor.execute("SET autocommit = 1")
                    if not ends:
                        raise KeyError
            await other.seal(fence, Token(2))
            with pytest.raises(StaleToken):
                async with sink.transaction(old) as connection, connection.cursor() as cursor:
                    await cursor.execute(write(fence))
            assert await warm(other, new) is await warm(other, new)  # One on which nothing was set is kept.

    asyncio.run(on_loop())
    assert not written(mariadb, fence)


def test_a_connection_of_pymysql_that_was_set_to_autocommit_is_not_used_again(
    mariadb: MariaDbCluster, fence: str
) -> None:
    old = SimpleNamespace(fence=fence, token=1)
    with PyMySQLSink(mariadb.url) as sink, PyMySQLSink(mariadb.url) as other:
        sink.admit(fence, 1)
        with pytest.raises(ConfigError, match="ended inside"), sink.transaction(old) as connection:
            connection.cursor().execute("SET autocommit = 1")
        other.admit(fence, 2)
        with pytest.raises(StaleToken), sink.transaction(old) as connection:
            connection.cursor().execute(write(fence))
    assert not written(mariadb, fence)


def test_a_leader_whose_seal_was_lost_seals_again(mariadb: MariaDbCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=3)
    with PyMySQLSink(mariadb.url) as sink:
        sink.admit(fence, 3)
        mariadb.sql(f"UPDATE tenure_fence SET highest = 2 WHERE fence = '{fence}'", database="test")  # noqa: S608
        with pytest.raises(UnverifiedToken), sink.transaction(term):
            pass
        with sink.transaction(term) as connection:
            connection.cursor().execute(write(fence))
        assert sink.highest(fence) == 3
    assert written(mariadb, fence)


def test_a_pool_that_commits_what_it_is_given_back_commits_nothing_stale(mariadb: MariaDbCluster, fence: str) -> None:
    engine = create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"), pool_reset_on_return="commit")
    with PyMySQLSink(mariadb.url) as sink:
        sink.admit(fence, 2)
    stale = fenced_engine(engine, SimpleNamespace(fence=fence, token=1))
    with pytest.raises(StaleToken), stale.begin() as connection:
        connection.execute(text(write(fence)))
    engine.dispose()
    assert not written(mariadb, fence)


def test_two_phases_are_refused(mariadb: MariaDbCluster, fence: str) -> None:
    engine = create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    with PyMySQLSink(mariadb.url) as sink:
        sink.admit(fence, 2)
    fenced = fenced_engine(engine, SimpleNamespace(fence=fence, token=2))
    with fenced.connect() as connection, pytest.raises(ConfigError, match="two phases"):
        connection.begin_twophase()
    engine.dispose()


@pytest.mark.parametrize("shown", ["0", "'abc'", "''"])
def test_before_the_first_seal_no_token_is_valid(shown: str, mariadb: MariaDbCluster) -> None:
    mariadb.sql("DROP TABLE IF EXISTS never_sealed; CREATE TABLE never_sealed (a int)", database="test")
    with PyMySQLSink(mariadb.url) as sink:
        sink.install_triggers("never_sealed", fence="never sealed")
    with pytest.raises(
        EngineFailed, match=r"31002.*was never sealed: the highest seen is 0|Truncated incorrect INTEGER"
    ):
        mariadb.sql(
            f"SET @{variable_of('never sealed')} = {shown}; INSERT INTO never_sealed VALUES (1)",  # noqa: S608
            database="test",
        )
    assert mariadb.sql("SELECT count(*) FROM never_sealed", database="test") == "0"


def test_only_whoever_keeps_the_fence_is_ended(mariadb: MariaDbCluster, fence: str) -> None:
    mariadb.sql("CREATE TABLE IF NOT EXISTS neutral (a int PRIMARY KEY, b int)", database="test")
    mariadb.sql("REPLACE INTO neutral VALUES (1, 1)", database="test")
    with closing(connected(mariadb.url)) as innocent, PyMySQLSink(mariadb.url) as sink:
        sink.admit(fence, 1)
        innocent.cursor().execute("UPDATE neutral SET b = 2 WHERE a = 1")
        dialect: Any = sink._flow.dialect

        def work() -> None:
            with sink.transaction(SimpleNamespace(fence=fence, token=1)) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT CONNECTION_ID()")
                # As if this connection had sealed, and a helper were late.
                [(number,)] = cursor.fetchall()
                dialect._waiting[fence] = number, 2
                cursor.execute("UPDATE neutral SET b = 3 WHERE a = 1")

        assert fence not in dialect._waiting  # The seal has ended.
        working = Thread(target=work)
        working.start()
        assert wait_for(lambda: lock_waits(mariadb) > 0, PATIENCE_S)
        helping = Thread(target=sink._end_blockers, args=(fence,))
        helping.start()
        has_looked = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'"
        assert wait_for(lambda: mariadb.sql(has_looked) == "1", PATIENCE_S)
        del dialect._waiting[fence]
        helping.join()
        innocent.commit()
        working.join()
    assert mariadb.sql("SELECT b FROM neutral", database="test") == "3"


def test_a_blocker_that_has_ended_by_itself_does_not_save_the_others() -> None:
    dialect = MySQLDialect()
    sealing = dialect.seal("f", 2, 1000, may_raise=True)
    next(sealing)
    sealing.send([(7,)])  # The seal's own connection.
    ending = dialect.end_blockers("f")
    next(ending)
    ending.send([(1,)])  # Where the fence stands.
    ending.send([])
    assert ending.send([(8,), (9,)]).sql == "KILL CONNECTION 8"
    assert ending.throw(Trouble("1094", "Unknown thread id: 8")).sql == "KILL CONNECTION 9"
    assert "SLEEP" in ending.send([]).sql
    ending.send([])
    ending.send([(1,)])
    assert "lock_waits" in ending.send([]).sql  # Again: what the server shows may be old.
    sealing.close()
    with pytest.raises(StopIteration):  # The seal is over, so nobody is in its way.
        ending.send([(10,)])
    with pytest.raises(StopIteration):
        next(dialect.end_blockers("f"))


def test_a_sealer_that_is_late_ends_no_session_of_its_successor(mariadb: MariaDbCluster, fence: str) -> None:
    async def run() -> None:
        async with MySQLSink(mariadb.url) as successor, MySQLSink(mariadb.url, wait_s=3) as late:
            await successor.seal(fence, Token(4))
            driver, is_there, may_go, has_helped = late.driver, asyncio.Event(), asyncio.Event(), asyncio.Event()
            ask, looks = driver.ask, []
            asked_by: dict[Any, list[str]] = {}

            async def slowly(raw: Any, due: Any) -> Any:
                if due.sql.startswith("INSERT INTO"):
                    is_there.set()
                    await may_go.wait()
                if "lock_waits" in due.sql:
                    looks.append(due.sql)
                asked_by.setdefault(raw, []).append(due.sql)
                return await ask(raw, due)

            drop = driver.drop

            def dropped(raw: Any) -> None:
                # The helper has asked where the fence stands, and goes.
                if not any("INSERT" in asked for asked in asked_by.get(raw, ())):
                    has_helped.set()
                drop(raw)

            vars(driver)["ask"] = slowly
            vars(driver)["drop"] = dropped
            sealing = asyncio.ensure_future(late.seal(fence, Token(5)))
            await is_there.wait()
            await successor.seal(fence, Token(6))
            with closing(connected(mariadb.url)) as inside:
                guard_sync(inside, SimpleNamespace(fence=fence, token=6))
                may_go.set()
                await asyncio.wait_for(has_helped.wait(), PATIENCE_S)
                assert not sealing.done()
                inside.cursor().execute(write(fence))
                inside.commit()
            with pytest.raises(StaleToken):
                await sealing
            assert looks == []

    asyncio.run(run())
    assert written(mariadb, fence)


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ORACLE", "ANSI"])
def test_names_are_read_alike_whatever_language_the_server_is_set_to(
    mode: str, mariadb: MariaDbCluster, fence: str
) -> None:
    set_mode: dict[str, Any] = {"init_command": f"SET SESSION sql_mode = '{mode}'"}
    names = [f"{fence}\\books", f"{fence}'s", f"{fence}' OR highest = 7 -- "]

    async def run() -> None:
        async with MySQLSink(mariadb.url, **set_mode) as sink, MySQLSink(mariadb.url) as plain:
            await plain.seal(fence, Token(7))
            for name in names:
                term = SimpleNamespace(fence=name, token=1)
                with PyMySQLSink(mariadb.url, **set_mode) as other:
                    other.admit(name, 1)
                    async with sink.transaction(term):
                        pass
                    await sink.seal(name, Token(2))
                    assert other.highest(name) == await plain.highest(name) == 2
                    with pytest.raises(StaleToken, match="highest seen is 2"), other.transaction(term):
                        pass

    asyncio.run(run())
    stand = "SELECT highest FROM tenure_fence WHERE LEFT(fence, {}) = '{}'"
    assert mariadb.sql(stand.format(len(fence), fence), database="test").split() == ["7", "2", "2", "2"]


def test_a_server_that_prepares_no_more_statements_keeps_nobody_out(mariadb: MariaDbCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with MySQLSink(mariadb.url) as sink, MySQLSink(mariadb.url) as successor:
            await sink.seal(fence, Token(1))
            async with sink.transaction(term) as connection, connection.cursor() as cursor:
                await cursor.execute(write(fence))
            assert written(mariadb, fence)
            with pytest.raises(StaleToken, match="highest seen is 2"):  # noqa: PT012
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute(write(f"{fence} again"))
                    await successor.seal(fence, Token(2))
            assert not written(mariadb, f"{fence} again")

    mariadb.sql("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        asyncio.run(run())
    finally:
        mariadb.sql("SET GLOBAL max_prepared_stmt_count = DEFAULT")


@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_a_table_of_fences_that_is_gone_is_made_again(steps: str, mariadb: MariaDbCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=7)

    async def run() -> None:
        sink = MySQLSink(mariadb.url)
        async with sink if steps == "one step" else as_mysql_does(sink):
            await sink.seal(fence, Token(7))
            mariadb.sql("RENAME TABLE tenure_fence TO away", database="test")
            try:
                with pytest.raises(UnverifiedToken):
                    async with sink.transaction(term) as connection, connection.cursor() as cursor:
                        await cursor.execute(write(fence))
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute(write(fence))
                assert await sink.highest(fence) == 7
            finally:
                mariadb.sql("DROP TABLE IF EXISTS tenure_fence; RENAME TABLE away TO tenure_fence", database="test")

    asyncio.run(run())
