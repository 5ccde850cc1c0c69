"""Tables with triggers refuse whoever presents no valid token, whatever it is that writes."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.sinks.mysql import PyMySQLSink, fenced_engine, present_sql, withdraw_sql
from tenure.testing.engines import EngineFailed, MariaDbCluster
from tests.sinks.mysql_rig import connected

FENCE = "books'%\\"
OLD, NEW = (SimpleNamespace(fence=FENCE, token=token) for token in (1, 2))
WRITE = "UPDATE `led ger` SET cents = cents + 1"
WRITES = [
    "INSERT INTO `led ger` VALUES (3, 0)",
    "INSERT IGNORE INTO `led ger` VALUES (3, 0)",
    "REPLACE INTO `led ger` VALUES (1, 5)",
    "INSERT INTO `led ger` VALUES (1, 0) ON DUPLICATE KEY UPDATE cents = 5",
    WRITE,
    "DELETE FROM `led ger`",
]


@pytest.fixture
def sink(mariadb: MariaDbCluster) -> Iterator[PyMySQLSink]:
    orders = "DROP TABLE IF EXISTS `led ger`, tenure_fence; CREATE TABLE `led ger` (id int PRIMARY KEY, cents int)"
    mariadb.sql(orders + "; INSERT INTO `led ger` VALUES (1, 0), (2, 0)", database="test")  # noqa: S608
    with PyMySQLSink(mariadb.url) as opened:
        opened.install_triggers("led ger", fence=FENCE)
        yield opened


def total(mariadb: MariaDbCluster) -> str:
    return mariadb.sql("SELECT sum(cents), count(*) FROM `led ger`", database="test")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.usefixtures("sink")
def test_the_shell_is_refused_without_a_token(write: str, mariadb: MariaDbCluster) -> None:
    with pytest.raises(EngineFailed, match=r"31003.*this session has presented no token"):
        mariadb.sql(write, database="test")
    assert total(mariadb) == "0\t2"


def test_the_token_must_be_that_of_the_seal(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    def written_under(token: str) -> None:
        shown = present_sql(OLD).replace(" = 1", f" = {token}")
        mariadb.sql(f"{shown}; {WRITE}", database="test")

    with pytest.raises(EngineFailed, match=r"31002.*token 1 was never sealed"):
        written_under("1")
    sink.admit(FENCE, 1)
    written_under("1")
    with pytest.raises(EngineFailed, match="31003"):
        mariadb.sql(f"{present_sql(OLD)}; {withdraw_sql(OLD)}; {WRITE}", database="test")
    sink.admit(FENCE, 2**53 + 1)
    for stale in ("1", "-1", f"'{2**53}'"):
        with pytest.raises(EngineFailed, match=r"31001.*is stale"):
            written_under(stale)
    written_under(f"'{2**53 + 1}'")
    assert total(mariadb) == "4\t2"


def test_transactions_of_the_sink_present_their_token_and_no_other(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    with sink.transaction(OLD) as connection:
        connection.cursor().execute(WRITE)
    elsewhere = SimpleNamespace(fence="elsewhere", token=9)
    with pytest.raises(Exception, match="31003"), sink.transaction(elsewhere) as connection:
        connection.cursor().execute(WRITE)
    with sink.transaction(NEW) as connection:
        connection.cursor().execute(WRITE)
    with pytest.raises(StaleToken, match="highest seen is 2"), sink.transaction(OLD) as connection:
        connection.cursor().execute(WRITE)
    assert total(mariadb) == "4\t2"


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_trigger_does_not_believe_a_view_that_is_older_than_the_seal(
    level: str, sink: PyMySQLSink, mariadb: MariaDbCluster
) -> None:
    sink.admit(FENCE, 1)
    with connected(mariadb.url) as old, old.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        cursor.execute("SELECT count(*) FROM `led ger` WHERE id = 7")
        cursor.execute(present_sql(OLD))
        sink.admit(FENCE, 2)
        with pytest.raises(Exception, match="31001"):
            cursor.execute(WRITE)
        old.commit()
    assert total(mariadb) == "0\t2"


def test_installing_is_idempotent_listed_and_undone(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    assert sink.fenced_tables()["led ger"] == FENCE
    created = "SELECT group_concat(created ORDER BY trigger_name) FROM information_schema.triggers WHERE event_object_table = 'led ger'"
    before = mariadb.sql(created)
    sink.install_triggers("led ger", fence=FENCE)
    assert mariadb.sql(created) == before
    sink.install_triggers("led ger", fence="another")
    assert sink.fenced_tables()["led ger"] == "another"
    sink.remove_triggers("led ger")
    sink.remove_triggers("led ger")
    assert "led ger" not in sink.fenced_tables()
    mariadb.sql(WRITE, database="test")


def test_new_triggers_come_before_those_that_they_replace_go(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    """The server has no transaction for it: the other way round, anybody could write in between."""
    started = "SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON; TRUNCATE mysql.general_log"
    mariadb.sql(started)
    try:
        sink.install_triggers("led ger", fence="another")
    finally:
        mariadb.sql("SET GLOBAL general_log = OFF")
    asked = "SELECT LEFT(argument, 12) FROM mysql.general_log WHERE argument REGEXP '^(CREATE|DROP) TRIGGER' ORDER BY event_time"
    assert [order.split()[0] for order in mariadb.sql(asked).splitlines()] == ["CREATE"] * 3 + ["DROP"] * 3
    assert sink.fenced_tables()["led ger"] == "another"


def test_triggers_of_an_older_version_hold_and_what_was_left_half_done_is_completed(
    sink: PyMySQLSink, mariadb: MariaDbCluster
) -> None:
    name = FENCE.encode().hex().upper()
    body = (
        f"BEGIN DECLARE seen BIGINT; SELECT highest INTO seen FROM tenure_fence WHERE fence = X'{name}' LOCK IN SHARE MODE; "  # noqa: S608
        "IF NOT (@older <=> seen) THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31003; END IF; END"
    )
    with connected(mariadb.url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TRIGGER tenure_fence_update_older BEFORE UPDATE ON `led ger` FOR EACH ROW {body}")
    assert sink.fenced_tables()["led ger"] == FENCE  # Both stand, and all three events have one.
    sink.admit(FENCE, 1)
    with pytest.raises(EngineFailed, match="31003"):
        mariadb.sql(f"{present_sql(OLD)}; {WRITE}", database="test")
    sink.install_triggers("led ger", fence=FENCE)
    mariadb.sql(f"{present_sql(OLD)}; {WRITE}", database="test")
    with pytest.raises(EngineFailed, match="31003"):
        mariadb.sql(WRITE, database="test")
    assert total(mariadb) == "2\t2"


@pytest.mark.parametrize("table", ["nowhere", "", "tenure_fence"])
def test_what_is_no_table_of_ones_own_is_refused(table: str, sink: PyMySQLSink) -> None:
    with pytest.raises(ConfigError, match="table"):
        sink.install_triggers(table, fence=FENCE)


def test_sessions_of_sqlalchemy_are_fenced(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    engine = create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    fenced = fenced_engine(engine, OLD)
    write = text(WRITE)
    with pytest.raises(UnverifiedToken), Session(fenced) as session:
        session.execute(write)
    sink.admit(FENCE, 1)
    with Session(fenced) as session:
        session.execute(write)
        session.commit()
    sink.remove_triggers("led ger")
    with pytest.raises(StaleToken, match="highest seen is 2"), fenced.begin() as connection:  # noqa: PT012
        connection.execute(write)
        sink.admit(FENCE, 2)  # It waits for nobody.
    autocommit = fenced_engine(engine.execution_options(isolation_level="AUTOCOMMIT"), NEW)
    with pytest.raises(ConfigError, match="AUTOCOMMIT"), autocommit.begin() as connection:
        connection.execute(text("SELECT 1"))
    engine.dispose()
    assert total(mariadb) == "2\t2"


def test_async_sessions_of_sqlalchemy_are_fenced(sink: PyMySQLSink, mariadb: MariaDbCluster) -> None:
    sink.admit(FENCE, 1)

    async def run() -> None:
        engine = create_async_engine(mariadb.url.replace("mysql:", "mysql+asyncmy:"))
        fenced = AsyncEngine(fenced_engine(engine.sync_engine, OLD))
        async with AsyncSession(fenced) as session:
            await session.execute(text(WRITE))
            await session.commit()
        await asyncio.to_thread(sink.admit, FENCE, 2)
        async with AsyncSession(fenced) as session:
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await session.execute(text(WRITE))
        await engine.dispose()

    asyncio.run(run())
    assert total(mariadb) == "2\t2"
