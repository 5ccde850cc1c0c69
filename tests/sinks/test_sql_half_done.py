"""A block ends with something half done on its connection: it is not committed, and nobody takes what is left for another answer."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import asyncmy.converters
import asyncmy.cursors
import asyncmy.errors
import pymysql.cursors
import pytest
from pymysql.constants import CLIENT

from tenure.errors import ConfigError
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import AsyncPsycopgSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tests.sinks.half_done import Place, place_at

EARLY = "ended too early"
MANY = "SELECT seq FROM seq_1_to_3000"


@pytest.fixture
def at(postgresql: PostgresCluster, mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Callable[[Any], Place]:
    return lambda kind: place_at(mariadb if kind in {MySQLSink, PyMySQLSink} else postgresql, str(request.node.name))


def pipelines(connection: Any) -> Any:
    pipeline = connection.pipeline()
    pipeline.__enter__()
    return pipeline


async def pipelines_on_loop(connection: Any) -> Any:
    pipeline = connection.pipeline()
    await pipeline.__aenter__()
    return pipeline


def streams(connection: Any) -> Any:
    rows = connection.cursor().stream("SELECT generate_series(1, 3000)")
    next(rows)
    return rows


async def streams_on_loop(connection: Any) -> Any:
    rows = connection.cursor().stream("SELECT generate_series(1, 3000)")
    await anext(rows)
    return rows


def copies(connection: Any) -> Any:
    copy = connection.cursor().copy("COPY half_done FROM STDIN")
    copy.__enter__()
    return copy


async def copies_on_loop(connection: Any) -> Any:
    copy = connection.cursor().copy("COPY half_done FROM STDIN")
    await copy.__aenter__()
    return copy


def leaves_rows(connection: Any) -> Any:
    cursor = connection.cursor(pymysql.cursors.SSCursor)
    cursor.execute(MANY)
    assert cursor.fetchone() == (1,)
    return cursor


async def leaves_rows_on_loop(connection: Any) -> Any:
    cursor = connection.cursor(asyncmy.cursors.SSCursor)
    await cursor.execute(MANY)
    assert await cursor.fetchone() == (1,)
    return cursor


BY_THREAD = [pipelines, streams, copies, leaves_rows]


@pytest.mark.parametrize("is_succeeded", [False, True], ids=["leader", "succeeded"])
@pytest.mark.parametrize(
    ("kind", "leaves"),
    [
        *((PsycopgSink, leaves) for leaves in BY_THREAD[:3]),
        *((AsyncPsycopgSink, leaves) for leaves in (pipelines_on_loop, streams_on_loop, copies_on_loop)),
        (PyMySQLSink, leaves_rows),
        (MySQLSink, leaves_rows_on_loop),
    ],
    ids=lambda one: one.__name__,
)
def test_what_was_begun_and_has_not_ended_keeps_a_block_from_being_committed(
    kind: Any, leaves: Any, is_succeeded: bool, at: Callable[[Any], Place]
) -> None:
    place = at(kind)

    async def on_loop() -> None:
        async with kind(place.url, connections_max=1) as sink, kind(place.url) as successor:
            await sink.seal(place.fence, Token(1))
            async with asyncio.timeout(60):
                with pytest.raises(ConfigError, match=EARLY):  # noqa: PT012
                    async with sink.transaction(place.old) as connection:
                        await connection.cursor().execute(place.write(1))
                        if is_succeeded:
                            await successor.seal(place.fence, Token(2))
                        left = await leaves(connection)
            assert not sink._idle
            async with sink.transaction(place.new) as connection:
                await connection.cursor().execute(place.write(2))
            assert left

    def by_thread() -> None:
        with kind(place.url, connections_max=1) as sink, kind(place.url) as successor:
            sink.admit(place.fence, 1)
            with pytest.raises(ConfigError, match=EARLY), sink.transaction(place.old) as connection:  # noqa: PT012
                connection.cursor().execute(place.write(1))
                if is_succeeded:
                    successor.admit(place.fence, 2)
                left = leaves(connection)
            assert not sink._idle
            with sink.transaction(place.new) as connection:
                connection.cursor().execute(place.write(2))
            assert left

    by_thread() if leaves in BY_THREAD else asyncio.run(on_loop())
    gc.collect()
    assert place.landed() == ["2"]


def test_rows_that_a_block_has_left_unread_are_not_cut_short_for_whoever_reads_on(at: Callable[[Any], Place]) -> None:
    place = at(MySQLSink)

    async def on_loop() -> None:
        async with MySQLSink(place.url) as sink:
            await sink.seal(place.fence, Token(1))
            with pytest.raises(ConfigError, match=EARLY):
                async with sink.transaction(place.old) as connection:
                    cursor = await leaves_rows_on_loop(connection)
            with pytest.raises((ConfigError, asyncmy.errors.Error)):  # noqa: PT012
                while await cursor.fetchone() is not None:
                    pass

    def by_thread() -> None:
        with PyMySQLSink(place.url) as sink:
            with pytest.raises(ConfigError, match=EARLY), sink.transaction(place.old) as connection:
                cursor = leaves_rows(connection)
            with pytest.raises(ConfigError, match="used after its transaction"):  # noqa: PT012
                while cursor.fetchone() is not None:
                    pass

    asyncio.run(on_loop())
    by_thread()


# What the second of two statements does, and the number of its error. Of the sink's own question all of them mean something else.
SECOND = {
    "another table is missing": ("INSERT INTO half_done_nowhere VALUES (1)", 1146),
    "the table of fences is missing": ("INSERT INTO nowhere.tenure_fence VALUES (1)", 1146),
    "the commit was refused": ("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31004", 31004),
    "the server goes": ("SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317", 1317),
}


@pytest.mark.parametrize(("second", "number"), SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink], ids=lambda kind: kind.__name__)
def test_a_result_that_was_left_unread_and_is_an_error_is_the_callers(
    kind: Any, second: str, number: int, at: Callable[[Any], Place]
) -> None:
    place = at(kind)
    words = f"{place.write(1)}; {second}"

    async def on_loop() -> None:
        async with MySQLSink(place.url) as sink:
            await sink.seal(place.fence, Token(1))
            with pytest.raises(asyncmy.errors.MySQLError) as error:
                async with sink.transaction(place.old) as connection:
                    await connection.cursor().execute(words)
            assert error.value.args[0] == number
            async with sink.transaction(place.old) as connection:
                await connection.cursor().execute(f"{place.write(2)}; SELECT 2")

    def by_thread() -> None:
        with PyMySQLSink(place.url, client_flag=CLIENT.MULTI_STATEMENTS) as sink:
            sink.admit(place.fence, 1)
            with pytest.raises(pymysql.MySQLError) as error, sink.transaction(place.old) as connection:
                connection.cursor().execute(words)
            assert error.value.args[0] == number
            with sink.transaction(place.old) as connection:
                connection.cursor().execute(f"{place.write(2)}; SELECT 2")

    by_thread() if kind is PyMySQLSink else asyncio.run(on_loop())
    assert place.landed() == ["2"]


def test_another_result_that_was_left_unread_is_not_read_by_a_task_that_comes_late(at: Callable[[Any], Place]) -> None:
    place = at(MySQLSink)

    async def on_loop() -> None:
        async with MySQLSink(place.url, connections_max=1) as sink:
            await sink.seal(place.fence, Token(1))
            async with sink.transaction(place.old) as connection:
                cursor = connection.cursor()
                await cursor.execute("SELECT 1; SELECT 2")
            async with sink.transaction(place.old) as connection:
                asking = asyncio.ensure_future(connection.cursor().execute(place.write(2)))
                with pytest.raises(ConfigError, match="used after its transaction"):
                    await cursor.nextset()
                while not asking.done():
                    assert await cursor.nextset() is None
                    await asyncio.sleep(0)
                await asking

    asyncio.run(on_loop())
    assert place.landed() == ["2"]
