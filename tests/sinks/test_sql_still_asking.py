"""A block ends while something that it has begun still waits for its answer. Whoever ends it does not take that answer for its own."""

import asyncio
from collections.abc import Callable
from threading import Event, Thread, Timer
from types import SimpleNamespace
from typing import Any

import asyncmy.errors
import asyncpg
import psycopg
import pymysql
import pytest

from tenure.errors import ConfigError, TenureError
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.warmed import warm

PATIENCE_S = 60
HOW = ["the block is done", "the block fails", "it was succeeded"]
ON_LOOP: list[Any] = [PostgresSink, AsyncPsycopgSink, MySQLSink]
ON_THREAD: list[Any] = [PsycopgSink, PyMySQLSink]


class Gate:
    """A row that ``waits`` changes and that is locked until ``open``; and what has landed."""

    def __init__(self, kind: Any, postgresql: PostgresCluster, mariadb: MariaDbCluster, fence: str) -> None:
        self._is_mariadb = kind in {MySQLSink, PyMySQLSink}
        self._postgresql, self._mariadb, self._fence = postgresql, mariadb, fence
        self.url = mariadb.url if self._is_mariadb else postgresql.url
        self._sql("CREATE TABLE IF NOT EXISTS still_asking (fence varchar(200), token int)")
        self._sql("CREATE TABLE IF NOT EXISTS gate (fence varchar(200) PRIMARY KEY, is_passed int)")
        self._sql(f"INSERT INTO gate VALUES ('{fence}', 0)")  # noqa: S608
        self.waits = f"UPDATE gate SET is_passed = 1 WHERE fence = '{fence}'"  # noqa: S608
        self._keeper: Any = pymysql.connect(**arguments_of(self.url)) if self._is_mariadb else psycopg.connect(self.url)
        self._keeper.cursor().execute(f"SELECT * FROM gate WHERE fence = '{fence}' FOR UPDATE")  # noqa: S608

    def write(self, token: int) -> str:
        return f"INSERT INTO still_asking VALUES ('{self._fence}', {token})"  # noqa: S608

    def landed(self) -> tuple[list[str], str]:
        written = self._sql(f"SELECT token FROM still_asking WHERE fence = '{self._fence}' ORDER BY token")  # noqa: S608
        return written.split(), self._sql(f"SELECT is_passed FROM gate WHERE fence = '{self._fence}'")  # noqa: S608

    def is_waited_for(self) -> bool:
        if self._is_mariadb:
            # Not what InnoDB says of transactions: whoever asks that again and again is told the same.
            words = f"SELECT count(*) FROM information_schema.processlist WHERE info LIKE '{self.waits[:20]}%'"  # noqa: S608
        else:
            words = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return self._sql(words) != "0"

    def open(self) -> None:
        self._keeper.close()

    def check(self) -> None:
        """What was refused has not landed, also when the server has done with whom it had let in."""
        assert wait_for(lambda: not self.is_waited_for(), PATIENCE_S)
        assert self.landed() == (["2"], "0")

    def _sql(self, words: str) -> str:
        return self._mariadb.sql(words, database="test") if self._is_mariadb else self._postgresql.sql(words)


def end(how: str) -> None:
    if how == HOW[1]:
        raise ZeroDivisionError


def ends(how: str) -> pytest.RaisesExc[Exception]:
    """What its end comes to: an error of its own, or the reason for which nothing was committed."""
    return pytest.raises(ZeroDivisionError) if how == HOW[1] else pytest.raises(ConfigError, match="ended too early")


async def commit(sink: Any, term: SimpleNamespace, words: str) -> None:
    async with sink.transaction(term) as connection:
        await (connection if isinstance(sink, PostgresSink) else connection.cursor()).execute(words)


@pytest.fixture
def gate(postgresql: PostgresCluster, mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Callable[[Any], Gate]:
    return lambda kind: Gate(kind, postgresql, mariadb, str(request.node.name))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ON_LOOP, ids=lambda kind: kind.__name__)
def test_a_block_of_a_task_ends_while_another_is_still_asking(
    kind: Any, how: str, gate: Callable[[Any], Gate], request: pytest.FixtureRequest
) -> None:
    fence, held = str(request.node.name), gate(kind)
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))

    async def open_later() -> None:
        for _ in range(10):  # When the block has ended, if that does not wait for it.
            await asyncio.sleep(0)
        held.open()

    async def story() -> None:
        tasks = []
        async with kind(held.url, connections_max=1) as sink, kind(held.url) as successor:
            await sink.seal(fence, Token(1))
            with ends(how):
                async with sink.transaction(old) as connection:
                    cursor = connection if kind is PostgresSink else connection.cursor()
                    await cursor.execute(held.write(1))
                    tasks.append(asyncio.ensure_future(cursor.execute(held.waits)))
                    await asyncio.to_thread(wait_for, held.is_waited_for, PATIENCE_S)
                    if how == HOW[2]:
                        await successor.seal(fence, Token(2))
                    tasks.append(asyncio.ensure_future(open_later()))
                    end(how)
            async with asyncio.timeout(PATIENCE_S):
                await tasks[1]
            if how == HOW[2]:
                with pytest.raises(TenureError):
                    await commit(sink, old, held.write(1))
            await commit(sink, new, held.write(2))
            tasks[0].cancel()
            await asyncio.wait(tasks, timeout=PATIENCE_S)

    asyncio.run(story())
    held.check()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ON_THREAD, ids=lambda kind: kind.__name__)
def test_a_block_of_a_thread_ends_while_another_is_still_asking(
    kind: Any, how: str, gate: Callable[[Any], Gate], request: pytest.FixtureRequest
) -> None:
    fence, held = str(request.node.name), gate(kind)
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))
    ended = Event()

    def asks(cursor: Any) -> None:
        try:
            cursor.execute(held.waits)
        except (psycopg.Error, pymysql.MySQLError, TenureError, OSError):
            pass
        finally:
            ended.set()

    with kind(held.url, connections_max=1) as sink, kind(held.url) as successor:
        sink.admit(fence, 1)
        with ends(how), sink.transaction(old) as connection:
            cursor = connection.cursor()
            cursor.execute(held.write(1))
            Thread(target=asks, args=(cursor,)).start()
            assert wait_for(held.is_waited_for, PATIENCE_S)
            if how == HOW[2]:
                successor.admit(fence, 2)
            Timer(0.5, held.open).start()  # Mostly when the block has ended.
            end(how)
        assert ended.wait(PATIENCE_S)
        if how == HOW[2]:
            with pytest.raises(TenureError), sink.transaction(old) as connection:
                connection.cursor().execute(held.write(1))
        with sink.transaction(new) as connection:
            connection.cursor().execute(held.write(2))
    held.check()


def test_an_answer_of_which_a_thread_has_left_a_half_is_not_taken_for_another(
    gate: Callable[[Any], Gate], request: pytest.FixtureRequest
) -> None:
    fence, held = str(request.node.name), gate(PyMySQLSink)
    term, told = SimpleNamespace(fence=fence, token=1), list[BaseException]()

    def asks(cursor: Any) -> None:
        with pytest.raises(ConfigError, match="used after its transaction") as error:
            cursor.execute(held.waits)
        told.append(error.value)

    with PyMySQLSink(held.url, connections_max=1) as sink:
        sink.admit(fence, 1)
        with (  # noqa: PT012
            pytest.raises(ConfigError, match="ended too early"),
            sink.transaction(term) as connection,
        ):
            thread = Thread(target=asks, args=(connection.cursor(),))
            thread.start()
            assert wait_for(held.is_waited_for, PATIENCE_S)
            driver_ask = sink.driver.ask

            def ask(*asked: Any) -> Any:
                """When the block has ended and nothing was asked yet, the answer comes, and its thread stops in the middle of it."""
                held.open()
                thread.join(PATIENCE_S)
                return driver_ask(*asked)

            vars(sink.driver)["ask"] = ask
        vars(sink.driver)["ask"] = driver_ask
        with sink.transaction(term) as connection:
            connection.cursor().execute(held.write(2))
    assert len(told) == 1
    held.check()


@pytest.mark.parametrize("kind", [PostgresSink, MySQLSink], ids=lambda kind: kind.__name__)
def test_a_second_task_is_told_that_the_first_is_still_asking(
    kind: Any, postgresql: PostgresCluster, mariadb: MariaDbCluster, request: pytest.FixtureRequest
) -> None:
    term = SimpleNamespace(fence=str(request.node.name), token=Token(1))

    async def on_loop() -> None:
        async with kind(mariadb.url if kind is MySQLSink else postgresql.url) as sink:
            await sink.seal(term.fence, term.token)
            await warm(sink, term)
            async with sink.transaction(term) as connection:
                one, other = (connection if kind is PostgresSink else connection.cursor() for _ in range(2))
                first = asyncio.ensure_future(one.execute("SELECT 1"))
                await asyncio.sleep(0)
                with pytest.raises(
                    (asyncpg.InterfaceError, asyncmy.errors.InterfaceError), match="another operation is in progress"
                ):
                    await other.execute("SELECT 1")
                await first
                await other.execute("SELECT 1")

    asyncio.run(on_loop())


def test_a_second_thread_is_told_that_the_first_is_still_asking(
    gate: Callable[[Any], Gate], request: pytest.FixtureRequest
) -> None:
    fence, held = str(request.node.name), gate(PyMySQLSink)
    with PyMySQLSink(held.url) as sink:
        sink.admit(fence, 1)
        with sink.transaction(SimpleNamespace(fence=fence, token=1)) as connection:
            first = Thread(target=connection.cursor().execute, args=(held.waits,))
            first.start()
            assert wait_for(held.is_waited_for, PATIENCE_S)
            with pytest.raises(pymysql.InterfaceError, match="another operation is in progress"):
                connection.cursor().execute(held.write(1))
            held.open()
            first.join(PATIENCE_S)
            connection.cursor().execute(held.write(2))
    assert held.landed() == (["2"], "1")
