"""Whoever a block has started may outlive it, and has its connection in hand. It says nothing to the server any more."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from tenure.errors import ConfigError
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster

Say = Callable[[str], Awaitable[Any]]
LATE = "used after its transaction"


class Place(NamedTuple):
    """Both servers, and the fence of one test."""

    postgresql: PostgresCluster
    mariadb: MariaDbCluster
    fence: str

    def url(self, kind: Any) -> str:
        return self.mariadb.url if kind in {MySQLSink, PyMySQLSink} else self.postgresql.url

    def landed(self, kind: Any) -> list[str]:
        sql = f"SELECT token FROM left_over WHERE fence = '{self.fence}' ORDER BY token"  # noqa: S608
        by_mariadb = kind in {MySQLSink, PyMySQLSink}
        return (self.mariadb.sql(sql, database="test") if by_mariadb else self.postgresql.sql(sql)).split()


@pytest.fixture
def place(postgresql: PostgresCluster, mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Place:
    make = "CREATE TABLE IF NOT EXISTS left_over (fence varchar(200), token int)"
    postgresql.sql(make)
    mariadb.sql(make, database="test")
    return Place(postgresql, mariadb, str(request.node.name))


def write(fence: str, token: int) -> str:
    return f"INSERT INTO left_over VALUES ('{fence}', {token})"  # noqa: S608


async def by_connection(connection: Any) -> Say:
    return cast("Say", connection.execute)


async def by_cursor(connection: Any) -> Say:
    cursor = connection.cursor()
    await cursor.execute("SELECT 1")
    return cast("Say", cursor.execute)


async def by_new_cursor(connection: Any) -> Say:
    return lambda sql: connection.cursor().execute(sql)


LOOP_WAYS = [(PostgresSink, by_connection)] + [
    (kind, way)
    for kind, ways in ((AsyncPsycopgSink, [by_connection, by_cursor]), (MySQLSink, [by_cursor, by_new_cursor]))
    for way in ways
]


@pytest.mark.parametrize("raises", [True, False], ids=["the block failed", "the block was committed"])
@pytest.mark.parametrize(("kind", "way"), LOOP_WAYS, ids=lambda one: one.__name__)
def test_a_task_that_outlives_its_block_writes_nothing_neither_by_itself_nor_for_the_next_leader(
    kind: Any, way: Any, raises: bool, place: Place
) -> None:
    fence = place.fence
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))

    async def fails() -> None:
        if raises:
            raise ZeroDivisionError

    async def story() -> None:
        async with kind(place.url(kind), connections_max=1) as sink:
            await sink.seal(fence, Token(1))
            has_written, idle, is_lent = asyncio.Event(), asyncio.Event(), asyncio.Event()
            refused = []

            async def lasting(connection: Any) -> None:
                say = await way(connection)
                await say(write(fence, 1))
                has_written.set()
                for sign in (idle, is_lent):
                    await sign.wait()
                    with pytest.raises(ConfigError, match=LATE):
                        await say(write(fence, 1))
                    refused.append(sign)

            async def failing() -> None:
                await has_written.wait()
                await fails()

            lasts: list[asyncio.Future[None]] = []
            try:
                async with sink.transaction(old) as connection:
                    lasts.append(asyncio.ensure_future(lasting(connection)))
                    await asyncio.gather(asyncio.shield(lasts[0]) if raises else has_written.wait(), failing())
            except ZeroDivisionError:
                assert raises
            [kept] = sink._idle
            await sink.seal(fence, Token(2))
            idle.set()
            while not refused and not lasts[0].done():  # noqa: ASYNC110  (what it waits for has no event of its own)
                await asyncio.sleep(0)
            async with sink.transaction(new) as connection:
                say = await way(connection)
                await say(write(fence, 2))
                is_lent.set()
                async with asyncio.timeout(60):
                    await lasts[0]
                await say(write(fence, 2))
            assert sink._idle == [kept]

    asyncio.run(story())
    assert place.landed(kind) == (["2", "2"] if raises else ["1", "2", "2"])


@pytest.mark.parametrize("kind", [PsycopgSink, PyMySQLSink], ids=lambda kind: kind.__name__)
def test_a_thread_that_outlives_its_block_writes_nothing(kind: Any, place: Place) -> None:
    fence = place.fence
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))
    idle, told, is_lent = Event(), Event(), Event()
    refused: list[BaseException] = []

    def lasting(connection: Any, cursor: Any) -> None:
        for sign, say in ((idle, cursor.execute), (is_lent, connection.cursor().execute)):
            sign.wait(60)
            try:
                say(write(fence, 1))
            except ConfigError as error:
                refused.append(error)
            told.set()

    with kind(place.url(kind), connections_max=1) as sink:
        sink.admit(fence, 1)
        with pytest.raises(ZeroDivisionError), sink.transaction(old) as connection:  # noqa: PT012
            cursor = connection.cursor()
            cursor.execute(write(fence, 1))
            thread = Thread(target=lasting, args=(connection, cursor))
            thread.start()
            raise ZeroDivisionError
        [kept] = sink._idle
        sink.admit(fence, 2)
        idle.set()
        assert told.wait(60)
        with sink.transaction(new) as connection:
            connection.cursor().execute(write(fence, 2))
            is_lent.set()
            thread.join(60)
            connection.cursor().execute(write(fence, 2))
        assert sink._idle == [kept]
    assert [str(error) for error in refused] == [str(refused[0])] * 2
    assert place.landed(kind) == ["2", "2"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [PsycopgSink, PyMySQLSink], ids=lambda kind: kind.__name__)
def test_what_was_given_to_a_block_that_is_over_neither_closes_the_connection_nor_changes_it(
    kind: Any, place: Place
) -> None:
    fence = place.fence
    term = SimpleNamespace(fence=fence, token=1)
    with kind(place.url(kind), connections_max=1) as sink:
        sink.admit(fence, 1)
        with sink.transaction(term) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT 7")
        assert cursor.fetchall() in ([(7,)], ((7,),))  # What was read is there.
        [kept] = sink._idle
        connection.close()
        connection.anything = 1
        assert not hasattr(kept.raw, "anything")
        del connection, cursor
        gc.collect()
        with sink.transaction(term) as connection:
            connection.cursor().execute(write(fence, 1))
        assert sink._idle == [kept]
    assert place.landed(kind) == ["1"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [AsyncPsycopgSink, MySQLSink], ids=lambda kind: kind.__name__)
def test_what_was_given_to_a_block_of_a_task_that_is_over_closes_nothing(kind: Any, place: Place) -> None:
    fence = place.fence
    term = SimpleNamespace(fence=fence, token=1)

    async def story() -> None:
        async with kind(place.url(kind), connections_max=1) as sink:
            await sink.seal(fence, Token(1))
            async with sink.transaction(term) as connection:
                cursor = connection.cursor()
                await cursor.execute("SELECT 7")
            told = cursor.fetchall()
            assert await told in ([(7,)], ((7,),))
            [kept] = sink._idle
            closing = connection.close()
            if closing is not None:
                await closing
            del connection, cursor
            gc.collect()
            async with sink.transaction(term) as connection:
                await connection.cursor().execute(write(fence, 1))
            assert sink._idle == [kept]

    asyncio.run(story())
    assert place.landed(kind) == ["1"]


def test_statements_that_asyncmy_keeps_are_used_by_the_next_block_and_put_away(place: Place) -> None:
    fence = place.fence
    term = SimpleNamespace(fence=fence, token=1)
    open_now = "SHOW STATUS LIKE 'Prepared_stmt_count'"

    async def story() -> list[int]:
        counts = []
        async with MySQLSink(place.mariadb.url, connections_max=1, stmt_cache_size=1) as sink:
            await sink.seal(fence, Token(1))
            for number in range(6):
                async with sink.transaction(term) as connection, connection.cursor() as cursor:
                    for _ in range(2):
                        await cursor.execute(f"INSERT INTO left_over VALUES (%s, {number // 2})", (fence,))  # noqa: S608
                    await cursor.execute(open_now)
                    counts.append(int((await cursor.fetchone())[1]))
        return counts

    counts = asyncio.run(story())
    assert max(counts) == counts[0]
    assert place.landed(MySQLSink) == [str(number) for number in (0, 1, 2) for _ in range(4)]


def test_a_statement_that_asyncmy_keeps_is_not_executed_for_a_block_that_is_over(place: Place) -> None:
    term, insert = SimpleNamespace(fence=place.fence, token=1), "INSERT INTO left_over VALUES (%s, 1)"

    async def story() -> None:
        async with MySQLSink(place.mariadb.url, connections_max=1, stmt_cache_size=1) as sink:
            await sink.seal(place.fence, Token(1))
            async with sink.transaction(term) as connection:
                cursor = connection.cursor()
                await cursor.execute(insert, (place.fence,))
            async with sink.transaction(term):
                with pytest.raises(ConfigError, match=LATE):
                    await cursor.execute(insert, (place.fence,))

    asyncio.run(story())
    assert place.landed(MySQLSink) == ["1"]
