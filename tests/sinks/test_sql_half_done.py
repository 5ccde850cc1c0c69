"""A block ends with something half done on its connection: it is not committed, and nobody takes what is left for another answer."""

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import asyncmy.converters
import asyncmy.cursors
import asyncmy.errors
import pymysql.cursors
import pytest
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import conversions

from tenure.errors import ConfigError, Unreachable
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import AsyncPsycopgSink, PsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster

EARLY = "ended too early"
MANY = "SELECT seq FROM seq_1_to_3000"
MISSING = 1146  # No such table. Of the sink's own table of fences it would mean something else.


class Place(NamedTuple):
    """One server, and the fence of one test."""

    server: Any
    fence: str

    @property
    def url(self) -> str:
        return str(self.server.url)

    @property
    def old(self) -> SimpleNamespace:
        return SimpleNamespace(fence=self.fence, token=Token(1))

    @property
    def new(self) -> SimpleNamespace:
        return SimpleNamespace(fence=self.fence, token=Token(2))

    def write(self, token: int) -> str:
        return f"INSERT INTO half_done VALUES ('{self.fence}', {token})"  # noqa: S608

    def sql(self, words: str) -> str:
        is_mariadb = isinstance(self.server, MariaDbCluster)
        return str(self.server.sql(words, database="test") if is_mariadb else self.server.sql(words))

    def landed(self) -> list[str]:
        return self.sql(f"SELECT token FROM half_done WHERE fence = '{self.fence}' ORDER BY token").split()  # noqa: S608


@pytest.fixture
def at(postgresql: PostgresCluster, mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Callable[[Any], Place]:
    def place_of(kind: Any) -> Place:
        place = Place(mariadb if kind in {MySQLSink, PyMySQLSink} else postgresql, str(request.node.name))
        place.sql("CREATE TABLE IF NOT EXISTS half_done (fence varchar(200), token int)")
        return place

    return place_of


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


@pytest.mark.parametrize("is_succeeded", [False, True], ids=["leader", "succeeded"])
def test_a_thread_that_is_interrupted_before_it_has_read_its_answer_commits_nothing(
    is_succeeded: bool, at: Callable[[Any], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at(PyMySQLSink)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with PyMySQLSink(place.url, connections_max=1) as sink, PyMySQLSink(place.url) as successor:
        sink.admit(place.fence, 1)
        with pytest.raises(Unreachable, match="closed"), sink.transaction(place.old) as connection:  # noqa: PT012
            if is_succeeded:
                successor.admit(place.fence, 2)
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012
                patched.setattr(pymysql.Connection, "_read_query_result", interrupted)
                connection.cursor().execute(place.write(1))
        with sink.transaction(place.new) as connection:
            connection.cursor().execute(place.write(2))
    assert place.landed() == ["2"]


class Converter(Exception):
    """What a converter of the caller's raises."""


# By the last two it says what a server could have said.
RAISED = [Converter(), pymysql.DataError(1366, "no number"), asyncmy.errors.DataError(1366, "no number")]
ASKED = "SELECT IF(seq = 251, '', CONCAT('x', seq)) FROM seq_1_to_600"


def converting(raised: Exception) -> dict[int, Any]:
    def converts(text: str) -> str:
        if text == "x250":
            raise raised
        return text

    return dict.fromkeys((FIELD_TYPE.VAR_STRING, FIELD_TYPE.VARCHAR), converts)


@pytest.mark.parametrize("is_prepared", [False, True], ids=["as text", "prepared"])
@pytest.mark.parametrize("raised", [RAISED[0], RAISED[2]], ids=["of its own", "as of the server"])
def test_rows_that_could_not_be_converted_are_not_taken_for_the_answer_to_the_commit_of_a_task(
    raised: Exception, is_prepared: bool, at: Callable[[Any], Place]
) -> None:
    place = at(MySQLSink)
    asked = (f"{ASKED} WHERE seq > %s", (0,)) if is_prepared else (ASKED,)

    async def on_loop() -> None:
        conv = {**asyncmy.converters.conversions, **converting(raised)}
        async with MySQLSink(place.url, conv=conv, stmt_cache_size=5) as sink:
            await sink.seal(place.fence, Token(1))
            with pytest.raises(Unreachable, match="closed"):  # noqa: PT012
                async with sink.transaction(place.old) as connection:
                    await connection.cursor().execute(place.write(1))
                    with pytest.raises(type(raised)):
                        await connection.cursor().execute(*asked)
            async with sink.transaction(place.old) as connection:
                await connection.cursor().execute(place.write(2))

    asyncio.run(on_loop())
    assert place.landed() == ["2"]


@pytest.mark.parametrize("raised", RAISED[:2], ids=["of its own", "as of the server"])
def test_rows_that_could_not_be_converted_are_not_taken_for_the_answer_to_the_commit_of_a_thread(
    raised: Exception, at: Callable[[Any], Place]
) -> None:
    place = at(PyMySQLSink)
    with PyMySQLSink(place.url, conv={**conversions, **converting(raised)}) as sink:
        sink.admit(place.fence, 1)
        with pytest.raises(Unreachable, match="closed"), sink.transaction(place.old) as connection:  # noqa: PT012
            connection.cursor().execute(place.write(1))
            with pytest.raises(type(raised)):
                connection.cursor().execute(ASKED)
        with sink.transaction(place.old) as connection:
            connection.cursor().execute(place.write(2))
    assert place.landed() == ["2"]


WRONG = {"not to be said": "SELECT 'Łukasz'", "not there": "SELECT * FROM half_done_nowhere", "no SQL": "SELECT FROM"}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink], ids=lambda kind: kind.__name__)
def test_a_statement_that_fails_and_is_answered_whole_keeps_nothing_from_being_committed(
    kind: Any, words: str, at: Callable[[Any], Place]
) -> None:
    place = at(kind)

    async def on_loop() -> None:
        async with MySQLSink(place.url, charset="latin1", stmt_cache_size=5) as sink:
            await sink.seal(place.fence, Token(1))
            async with sink.transaction(place.old) as connection:
                await connection.cursor().execute(place.write(1))
                for values in ((), ((),)):
                    with pytest.raises((asyncmy.errors.MySQLError, UnicodeEncodeError)):
                        await connection.cursor().execute(words, *values)
                await connection.cursor().execute(place.write(2))

    def by_thread() -> None:
        with PyMySQLSink(place.url, charset="latin1") as sink:
            sink.admit(place.fence, 1)
            with sink.transaction(place.old) as connection:
                connection.cursor().execute(place.write(1))
                with pytest.raises((pymysql.MySQLError, UnicodeEncodeError)):
                    connection.cursor().execute(words)
                connection.cursor().execute(place.write(2))

    by_thread() if kind is PyMySQLSink else asyncio.run(on_loop())
    assert place.landed() == ["1", "2"]
