"""An answer that was left half read ends its connection: the rest of it is not taken for the answer to the commit."""

import asyncio
from typing import Any

import asyncmy.converters
import asyncmy.errors
import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from tenure.errors import Unreachable
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.testing.engines import MariaDbCluster
from tests.sinks.half_done import Place, place_at


@pytest.fixture
def place(mariadb: MariaDbCluster, request: pytest.FixtureRequest) -> Place:
    return place_at(mariadb, str(request.node.name))


@pytest.mark.parametrize("is_succeeded", [False, True], ids=["leader", "succeeded"])
def test_a_thread_that_is_interrupted_before_it_has_read_its_answer_commits_nothing(
    is_succeeded: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:

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
    raised: Exception, is_prepared: bool, place: Place
) -> None:
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
    raised: Exception, place: Place
) -> None:
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
    kind: Any, words: str, place: Place
) -> None:

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
