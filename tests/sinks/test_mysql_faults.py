"""A leader that is frozen, killed or cut off inside a transaction: its successor leads within a bound, and nothing stale lands."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, StoreError, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, grants_sql, set_up_sql
from tenure.testing.engines import EngineFailed, MariaDbCluster
from tests.proxy import Proxy
from tests.sinks.freezing import frozen

PATIENCE_S = 60
WRITE = "UPDATE account SET cents = cents + 1 WHERE name = '{}'"
KINDS = [MySQLSink, PyMySQLSink]


@pytest.fixture
def account(mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    mariadb.sql("CREATE TABLE IF NOT EXISTS account (name varchar(200) PRIMARY KEY, cents int)", database="test")
    mariadb.sql(f"INSERT INTO account VALUES ('{name}', 0) ON DUPLICATE KEY UPDATE cents = 0", database="test")  # noqa: S608
    return name


def cents(cluster: MariaDbCluster, name: str) -> int:
    return int(cluster.sql(f"SELECT cents FROM account WHERE name = '{name}'", database="test"))  # noqa: S608


def sealed(kind: type[Any], url: str, fence: str, token: int, **more: Any) -> float:
    async def run() -> float:
        sink = kind(url, **more)
        began = time.monotonic()
        try:
            await sink.seal(fence, Token(token))
            return time.monotonic() - began
        finally:
            if kind is PyMySQLSink:
                sink.close()
            else:
                await sink.close()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_a_leader_frozen_after_its_check_has_its_session_ended_by_the_seal(
    kind: type[Any], mariadb: MariaDbCluster, account: str
) -> None:
    sealed(kind, mariadb.url, account, 1)
    with frozen("pymysql-guarded", mariadb.url, account, 1, WRITE.format(account)) as leader:
        assert 1 <= sealed(kind, mariadb.url, account, 2, wait_s=1) < PATIENCE_S
        mariadb.sql(WRITE.format(account), database="test")  # Its locks are gone with it.
        assert leader.goes_on().startswith("refused")
    assert cents(mariadb, account) == 1


def test_a_leader_frozen_in_a_bound_transaction_keeps_nobody_from_sealing_and_its_locks_for_a_bounded_time(
    mariadb: MariaDbCluster, account: str
) -> None:
    with frozen("pymysql-bound", mariadb.url, account, 1, WRITE.format(account)) as leader:
        sealed(MySQLSink, mariadb.url, account, 2, wait_s=PATIENCE_S)
        with PyMySQLSink(mariadb.url) as sink, sink.transaction(SimpleNamespace(fence=account, token=2)) as connection:
            connection.cursor().execute(WRITE.format(account))  # Waits until the server has ended the idle session.
        assert leader.goes_on().startswith("refused")
    assert cents(mariadb, account) == 1


def test_a_seal_that_may_not_end_the_session_says_so_in_one_line(mariadb: MariaDbCluster, account: str) -> None:
    mariadb.sql(set_up_sql(), database="test")
    mariadb.sql(
        f"CREATE USER weak@'%'; {grants_sql(chr(39) + 'weak' + chr(39) + '@' + chr(39) + '%' + chr(39), 'test')}"
    )
    url = mariadb.url.replace("root@", "weak@")
    sealed(MySQLSink, url, account, 1)
    try:
        with frozen("pymysql-guarded", mariadb.url, account, 1, WRITE.format(account)) as leader:
            with pytest.raises(Refused, match="an older leader's transaction keeps the fence") as told:
                sealed(MySQLSink, url, account, 2, wait_s=0.5)
            assert "\n" not in str(told.value)
            assert leader.goes_on() == "committed"  # Nobody has succeeded it.
        sealed(MySQLSink, url, account, 2)
    finally:
        mariadb.sql("DROP USER weak@'%'")


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_the_server_ends_inside_is_an_error_and_the_next_transaction_has_another(
    kind: type[Any], mariadb: MariaDbCluster, account: str
) -> None:
    term = SimpleNamespace(fence=account, token=1)

    async def on_loop(sink: MySQLSink) -> None:
        async with sink:
            await sink.seal(account, Token(1))
            with pytest.raises(StoreError):  # noqa: PT012
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute(WRITE.format(account))
                    await cursor.execute("SELECT CONNECTION_ID()")
                    [(number,)] = await cursor.fetchall()
                    await asyncio.to_thread(mariadb.sql, f"KILL {number}")
            async with sink.transaction(term) as connection, connection.cursor() as cursor:
                await cursor.execute(WRITE.format(account))

    def on_thread(sink: PyMySQLSink) -> None:
        with sink:
            sink.admit(account, 1)
            with pytest.raises(StoreError), sink.transaction(term) as connection:  # noqa: PT012
                cursor = connection.cursor()
                cursor.execute(WRITE.format(account))
                cursor.execute("SELECT CONNECTION_ID()")
                [(number,)] = cursor.fetchall()
                mariadb.sql(f"KILL {number}")
            with sink.transaction(term) as connection:
                connection.cursor().execute(WRITE.format(account))

    if kind is MySQLSink:
        asyncio.run(on_loop(MySQLSink(mariadb.url)))
    else:
        on_thread(PyMySQLSink(mariadb.url))
    assert cents(mariadb, account) == 1


async def _dies(cluster: MariaDbCluster, proxy: Proxy, *, until: Callable[[], bool]) -> None:
    """Kill the server once something is so, and let the client hear of it."""
    [node] = cluster.nodes
    while not await asyncio.to_thread(until):  # noqa: ASYNC110  (another process does it)
        await asyncio.sleep(0.01)
    await asyncio.to_thread(node.kill)
    proxy.turn_to(node.endpoint)


@pytest.mark.parametrize("arrives", [False, True], ids=["before it arrives", "after it is carried out"])
def test_a_commit_that_the_server_dies_in_has_no_known_outcome(
    arrives: bool, mariadb: MariaDbCluster, account: str
) -> None:
    term = SimpleNamespace(fence=account, token=1)

    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            Proxy(mariadb.endpoints[0]) as proxy,
            MySQLSink(mariadb.url.replace(mariadb.endpoints[0], proxy.endpoint)) as sink,
        ):
            await sink.seal(account, Token(1))
            is_lost = (lambda: cents(mariadb, account) == 1) if arrives else (lambda: proxy.held_bytes > 0)
            with pytest.raises(OutcomeUnknown, match="commit has no known outcome"):  # noqa: PT012
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    await cursor.execute(WRITE.format(account))
                    dying = asyncio.create_task(_dies(mariadb, proxy, until=is_lost))
                    if arrives:
                        proxy.lose_answers()
                    else:
                        proxy.hold_requests()
            await dying

    try:
        asyncio.run(run())
    finally:
        mariadb.mend()
    assert cents(mariadb, account) == int(arrives)


@pytest.mark.parametrize("kind", KINDS)
def test_servers_that_let_nobody_in_take_no_writes_or_are_not_there(kind: type[Any], mariadb: MariaDbCluster) -> None:
    with pytest.raises(Unreachable, match=r"mysql sink 127.0.0.1:1/books: seal was not sent") as told:
        sealed(kind, "mysql://me:geheim@127.0.0.1:1/books", "f", 1)
    assert "geheim" not in repr(told.value) + str(told.value)
    mariadb.sql(
        "CREATE USER locked@'%' IDENTIFIED BY 'geheim'; CREATE USER reader@'%'; GRANT ALL ON test.* TO reader@'%'"
    )
    try:
        with pytest.raises(Refused, match="Access denied for user") as refused:
            sealed(kind, mariadb.url.replace("root@", "locked:verkehrt@"), "f", 1)
        assert "verkehrt" not in repr(refused.value) + str(refused.value)
        with pytest.raises(Refused, match="Access denied"):
            sealed(kind, mariadb.url.replace("root@", "locked:geheim@"), "f", 1)
        mariadb.sql("SET GLOBAL read_only = 1")
        with pytest.raises(Refused, match="the server is read-only: name the primary"):
            sealed(kind, mariadb.url.replace("root@", "reader@"), f"read-only/{kind.__name__}", 2)
    finally:
        mariadb.sql("SET GLOBAL read_only = 0; DROP USER locked@'%', reader@'%'")


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, "7", 7.0, None, True])
def test_what_is_no_token_is_refused_before_anything_is_asked(token: Any) -> None:
    with pytest.raises(ConfigError, match="token"):
        sealed(MySQLSink, "mysql://me@127.0.0.1:1/books", "f", token)


@pytest.mark.parametrize("url", ["mysql://h", "mysql://a,b/c", "mysql://h:x/c", "http://h/c", "mysql://h/c?ssl=1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="url"):
        MySQLSink(url)


@pytest.mark.parametrize("nonsense", ["0", "-7", "NULL", "9223372036854775808", "'seven'"])
def test_a_fence_cannot_be_edited_into_nonsense(nonsense: str, mariadb: MariaDbCluster) -> None:
    sealed(MySQLSink, mariadb.url, "by hand", 3)
    with pytest.raises(EngineFailed):
        mariadb.sql(f"UPDATE tenure_fence SET highest = {nonsense} WHERE fence = 'by hand'", database="test")  # noqa: S608
    with pytest.raises(StaleToken, match="highest seen is 3"):
        sealed(MySQLSink, mariadb.url, "by hand", 2)


def test_a_fence_that_somebody_deleted_refuses_whoever_was_sealed_until_the_next_seal(
    mariadb: MariaDbCluster, account: str
) -> None:
    term = SimpleNamespace(fence=account, token=7)
    with PyMySQLSink(mariadb.url) as sink:
        sink.admit(account, 7)
        mariadb.sql("DELETE FROM tenure_fence", database="test")
        with pytest.raises(UnverifiedToken, match="highest seen is 0"), sink.transaction(term) as connection:
            connection.cursor().execute(WRITE.format(account))
        assert cents(mariadb, account) == 0
        sink.admit(account, 7)
        with sink.transaction(term) as connection:
            connection.cursor().execute(WRITE.format(account))
        with pytest.raises(ConfigError, match="commit"), sink.transaction(term) as connection:
            connection.commit()
    assert cents(mariadb, account) == 1
