"""A fence in MySQL is lowered in one transaction with its record, by whoever may write that, which leaders may not."""

import asyncio
from contextlib import closing
from typing import Any

import pytest
from anyio import to_thread

from tenure.errors import ConfigError, Refused, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound
from tenure.sinks.mending.mysql import MySQLFences
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, grants_sql, guard_sync, set_up_sql
from tenure.sinks.mysql.on_pymysql import said
from tenure.sinks.repairing import repair_of
from tenure.sinks.sql.talk import Trouble
from tenure.testing.engines import MariaDbCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.mysql_rig import connected, lock_waits
from tests.sinks.repairs import POISON, WHY, Place, check_command, check_race, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    async with sink.transaction(term) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT 1")


def sql(cluster: MariaDbCluster, statement: str) -> str:
    return cluster.sql(statement, database=cluster.url.rpartition("/")[2])


def place_at(cluster: MariaDbCluster, fence: str) -> Place:
    return Place(cluster.url, f"repair/{fence} ", lambda verify=None: MySQLSink(cluster.url, verify=verify), write)


def test_a_fence_is_lowered_and_sinks_that_remember_are_right(mariadb: MariaDbCluster) -> None:
    asyncio.run(check_repair(place_at(mariadb, "story")))
    assert sql(mariadb, "SELECT lowered_by FROM tenure_fence_repairs ORDER BY repair LIMIT 1").startswith("root@")


def test_by_the_command_line(mariadb: MariaDbCluster) -> None:
    check_command(place_at(mariadb, "command"))


def test_a_user_for_leaders_may_not(mariadb: MariaDbCluster) -> None:
    database = mariadb.url.rpartition("/")[2]
    place = place_at(mariadb, "rights")
    sql(mariadb, set_up_sql())
    mariadb.sql("CREATE USER 'leader'@'%' IDENTIFIED BY 'geheim'")
    mariadb.sql(grants_sql("'leader'@'%'", database))
    leader = f"mysql://leader:geheim@{mariadb.nodes[0].endpoint}/{database}"
    try:

        async def run() -> None:
            async with MySQLSink(leader) as sink:
                await sink.seal(place.fence, Token(POISON))
            with pytest.raises(Refused, match=r"denied.*: only a user with all rights to this database may") as told:
                await place._replace(target=leader).lower(POISON, 7)
            assert "geheim" not in str(told.value)
            assert await place.look() == ({place.fence: POISON}, ())

        asyncio.run(run())
        wrong = leader.replace("geheim", "verkehrt")
        assert "Access denied" in refused_in_one_line(69, "show", wrong, secret="verkehrt")
    finally:
        mariadb.sql("DROP USER 'leader'@'%'")


def test_it_waits_for_transactions_that_have_checked_and_refuses_who_checks_later(mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, "checked")

    async def run() -> None:
        async with MySQLSink(mariadb.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        with closing(connected(mariadb.url)) as raw:
            raw.begin()
            guard_sync(raw, place.term(POISON), sealed_only=True)
            lowering = asyncio.create_task(place.lower(POISON, 7))
            assert await to_thread.run_sync(wait_for, lambda: lock_waits(mariadb) == 1, 30)
            assert (await place.look()).highest == {place.fence: POISON}
            raw.commit()
            await lowering
            assert (await place.look()).highest == {place.fence: 7}
            raw.begin()
            with pytest.raises(UnverifiedToken):
                guard_sync(raw, place.term(POISON), sealed_only=True)

    asyncio.run(run())


def test_who_keeps_the_fence_is_told_of_and_nothing_is_changed(mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, "kept")

    async def run() -> None:
        async with MySQLSink(mariadb.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        with closing(connected(mariadb.url)) as raw:
            raw.begin()
            guard_sync(raw, place.term(POISON), sealed_only=True)
            with pytest.raises(Refused, match="a transaction that has checked its token keeps the fence"):
                await place.lower(POISON, 7)
            raw.rollback()
        assert await place.look() == ({place.fence: POISON}, ())
        await place.lower(POISON, 7)

    asyncio.run(run())


def test_who_lowers_and_is_frozen_keeps_nobody_waiting(mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, "frozen")
    asyncio.run(PyMySQLSink(mariadb.url).seal(place.fence, Token(POISON)))
    talk = MySQLFences(mariadb.url).lowered(repair_of(place.fence, was=POISON, to=7, why=WHY))
    with closing(connected(mariadb.url)) as raw, PyMySQLSink(mariadb.url) as sink:
        ask = next(talk)
        while "UPDATE tenure_fence" not in ask.sql:  # It has the row, and has recorded, and says nothing more.
            ask = talk.send(said(raw, ask))
        with sink.transaction(place.term(POISON)):
            pass
        with pytest.raises(Trouble):
            said(raw, ask)
        talk.close()
    assert asyncio.run(place.look()) == ({place.fence: POISON}, ())


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_old_view_of_the_fence_lets_nobody_in(level: str, mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, level)
    sql(mariadb, "CREATE TABLE IF NOT EXISTS views (entry INT)")

    async def run() -> None:
        async with MySQLSink(mariadb.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        with closing(connected(mariadb.url)) as raw:
            for now in (7, 0):
                before = (await place.look()).highest[place.fence]
                raw.cursor().execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                raw.begin()
                raw.cursor().execute("SELECT count(*) FROM views")  # Its view is taken here.
                await place.lower(before, now)
                with pytest.raises(UnverifiedToken):
                    guard_sync(raw, place.term(before), sealed_only=True)
                raw.rollback()

    asyncio.run(run())


def test_of_many_at_once_one_does_it(mariadb: MariaDbCluster) -> None:
    asyncio.run(check_race(place_at(mariadb, "many")))


def test_a_database_without_the_table_of_repairs_gets_it(mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, "older")

    async def run() -> None:
        async with place.open() as sink:
            await sink.seal(place.fence, Token(POISON))
        sql(mariadb, "DROP TABLE IF EXISTS tenure_fence_repairs")
        assert await place.look() == ({place.fence: POISON}, ())
        with pytest.raises(ConfigError):
            await place.lower(9, 7)
        assert sql(mariadb, "SHOW TABLES LIKE 'tenure_fence_repairs'") == ""
        repair = await place.lower(POISON, 7)
        assert await place.look() == ({place.fence: 7}, (repair,))

    asyncio.run(run())


def test_threads_that_remember_are_right_too(mariadb: MariaDbCluster) -> None:
    place = place_at(mariadb, "threads")
    with PyMySQLSink(mariadb.url, verify=lambda _, token: token < POISON) as sink:
        asyncio.run(PyMySQLSink(mariadb.url).seal(place.fence, Token(POISON)))
        with sink.transaction(place.term(POISON)):
            pass
        asyncio.run(place.lower(POISON, 7))
        for _ in range(2):
            with pytest.raises(UnverifiedToken), sink.transaction(place.term(POISON)):
                pass
        with sink.transaction(place.term(8)):
            pass
        with pytest.raises(StaleToken), sink.transaction(place.term(7)):
            pass


def test_what_cannot_be_asked_is_told_in_one_line(mariadb: MariaDbCluster) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    dead = "mysql://me:geheim@127.0.0.1:1/books"
    assert "was not sent" in refused_in_one_line(69, "show", dead, secret="geheim")
    assert "was not sent" in refused_in_one_line(69, "lower", dead, *lower, secret="geheim")
    assert "must be mysql://" in refused_in_one_line(2, "show", "mysql://me:geheim@h1,h2/books", secret="geheim")
    mariadb.sql("CREATE DATABASE empty")
    empty = mariadb.url.rpartition("/")[0] + "/empty"
    assert "has no fences" in refused_in_one_line(2, "show", empty)
    assert "has no fences" in refused_in_one_line(2, "lower", empty, *lower)
    assert mariadb.sql("SHOW TABLES", database="empty") == ""
