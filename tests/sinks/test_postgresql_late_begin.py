"""A transaction that begins with its first statement: nothing reaches the server before BEGIN, whichever way it takes."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest

from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.sinks.postgresql import PostgresSink
from tenure.testing.engines import PostgresCluster
from tests.sinks.warmed import warm

INSERT = "INSERT INTO late VALUES ('{}')"
RETURNING = "INSERT INTO late VALUES ($1) RETURNING name"


@pytest.fixture
def fence(postgresql: PostgresCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    postgresql.sql("CREATE TABLE IF NOT EXISTS late (name text)")
    postgresql.sql(f"DELETE FROM late WHERE name = '{name}'")  # noqa: S608
    return name


def written(postgresql: PostgresCluster, fence: str) -> int:
    return int(postgresql.sql(f"SELECT count(*) FROM late WHERE name = '{fence}'"))  # noqa: S608


async def prepared(connection: Any, name: str) -> None:
    await (await connection.prepare(RETURNING)).fetch(name)


async def by_cursor(connection: Any, name: str) -> None:
    cursor = await connection.cursor(RETURNING, name)
    assert await cursor.fetchrow() is not None


async def by_loop(connection: Any, name: str) -> None:
    assert [row async for row in connection.cursor(RETURNING, name)] != []


async def nested(connection: Any, name: str) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with connection.transaction():
            await connection.execute(INSERT.format(name))
            raise ZeroDivisionError
    async with connection.transaction():
        await connection.execute(INSERT.format(name))


WAYS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "execute": lambda connection, name: connection.execute(INSERT.format(name)),
    "execute with a value": lambda connection, name: connection.execute("INSERT INTO late VALUES ($1)", name),
    "fetch": lambda connection, name: connection.fetch(RETURNING, name),
    "fetchrow": lambda connection, name: connection.fetchrow(RETURNING, name),
    "fetchval": lambda connection, name: connection.fetchval(RETURNING, name),
    "executemany": lambda connection, name: connection.executemany("INSERT INTO late VALUES ($1)", [(name,)]),
    "prepare": prepared,
    "cursor": by_cursor,
    "cursor in a loop": by_loop,
    "nested": nested,
    "records": lambda connection, name: connection.copy_records_to_table("late", records=[(name,)]),
    "copy in": lambda connection, name: connection.copy_to_table("late", source=io.BytesIO(f"{name}\n".encode())),
    "copy out": lambda connection, name: connection.copy_from_query(RETURNING, name, output=io.BytesIO()),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_comes_first_is_inside_the_transaction(way: str, postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            await warm(sink, term)
            async with sink.transaction(term) as connection:
                assert connection.is_in_transaction()
                await WAYS[way](connection, fence)
            assert written(postgresql, fence) == 1
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    await WAYS[way](connection, fence)
                    raise ZeroDivisionError
            assert written(postgresql, fence) == 1, "it was committed by itself"
            with pytest.raises(StaleToken):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    await WAYS[way](connection, fence)
                    async with PostgresSink(postgresql.url) as successor:
                        await successor.seal(fence, Token(2))
            assert written(postgresql, fence) == 1

    asyncio.run(run())


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_view_that_is_older_than_the_seal_commits_nothing(
    isolation: str, postgresql: PostgresCluster, fence: str
) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink, PostgresSink(postgresql.url) as successor:
            await sink.seal(fence, Token(1))
            await warm(sink, term)
            with pytest.raises(StaleToken):  # noqa: PT012
                async with sink.transaction(term, isolation) as connection:
                    assert await connection.fetchval("SELECT current_setting('transaction_isolation')") == isolation
                    await successor.seal(fence, Token(2))
                    await connection.execute(INSERT.format(fence))
            with pytest.raises(StaleToken):  # Nothing was begun when the fence was raised.
                async with sink.transaction(term, isolation) as connection:
                    await connection.execute(INSERT.format(fence))

    asyncio.run(run())
    assert written(postgresql, fence) == 0


def test_begin_and_the_first_statement_are_one_message(postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            for begun_at_once in (True, False):
                async with sink.transaction(term) as connection:
                    await connection.execute("INSERT INTO late SELECT current_query()")
                    said = await connection.fetchval(
                        "DELETE FROM late WHERE name LIKE '%current_query%' RETURNING name"
                    )
                    assert said.startswith("BEGIN") is not begun_at_once

    asyncio.run(run())


async def said_later(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:
    return lambda: connection.execute(INSERT.format(name))


async def made_coroutine(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:
    later = [connection.execute(INSERT.format(name)), connection.fetch(RETURNING, name)]
    return later.pop


async def made_transaction(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:  # noqa: ARG001
    return cast("Callable[[], Awaitable[Any]]", connection.transaction().start)


async def made_statement(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:
    later = await connection.prepare(RETURNING)
    return lambda: later.executemany([(name,)])


async def made_cursor(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:
    later = connection.cursor(RETURNING, name)
    return lambda: anext(aiter(later))


async def begun_cursor(connection: Any, name: str) -> Callable[[], Awaitable[Any]]:
    later = await connection.cursor(RETURNING, name)
    return lambda: cast("Awaitable[Any]", later.fetch(1))


STORIES = [said_later, made_coroutine, made_transaction, made_statement, made_cursor, begun_cursor]


@pytest.mark.parametrize("story", STORIES)
def test_what_a_transaction_was_given_or_has_made_says_nothing_after_it(
    story: Callable[[Any, str], Awaitable[Callable[[], Awaitable[Any]]]], postgresql: PostgresCluster, fence: str
) -> None:
    term, successor = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            raw = await warm(sink, term)
            async with sink.transaction(term) as connection:
                later = await story(connection, fence)
            await sink.seal(fence, Token(2))
            with pytest.raises((ConfigError, asyncpg.InterfaceError)):
                await later()
            assert await warm(sink, successor) is raw
            async with sink.transaction(successor) as connection:
                with pytest.raises((ConfigError, asyncpg.InterfaceError)):
                    await later()
                await connection.execute(INSERT.format(fence))
            assert await warm(sink, successor) is raw

    asyncio.run(run())
    assert written(postgresql, fence) == 1


def test_a_task_that_starts_when_its_transaction_was_given_up_writes_nothing(
    postgresql: PostgresCluster, fence: str
) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url, connections_max=1) as sink:
            await sink.seal(fence, Token(1))
            raw = await warm(sink, term)
            with pytest.raises(KeyError):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    late = asyncio.ensure_future(connection.execute(INSERT.format(fence)))
                    raise KeyError  # Nothing was said, so there is nothing to be rolled back, and nothing is waited for.
            async with sink.transaction(term):
                with pytest.raises(ConfigError, match="inside its block only"):
                    await late
            assert await warm(sink, term) is raw

    asyncio.run(run())
    assert written(postgresql, fence) == 0


def test_a_connection_on_which_something_was_begun_between_is_not_given_out(
    postgresql: PostgresCluster, fence: str
) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            raw = await warm(sink, term)
            await raw.transaction().start()
            assert await warm(sink, term) is not raw

    asyncio.run(run())


def test_an_error_points_at_the_callers_own_words(postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)
    places = []

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            for _ in range(2):
                await warm(sink, term)
                with pytest.raises(asyncpg.UndefinedColumnError) as error:
                    async with sink.transaction(term) as connection:
                        await connection.execute("SELECT nothing")
                places.append(error.value.position)

    asyncio.run(run())
    assert places == ["8", "8"]


@pytest.mark.parametrize("words", ["not a statement", "SELECT 1 / 0", "SELECT pg_sleep(60)"])
def test_a_first_statement_that_fails_has_failed_the_transaction(
    words: str, postgresql: PostgresCluster, fence: str
) -> None:
    """The server reads a message before it begins anything, so after the first of these no transaction is open there."""
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            for way in ("execute", "fetch", "records", "nested"):
                await warm(sink, term)
                with pytest.raises(asyncpg.PostgresError) as error:  # noqa: PT012
                    async with sink.transaction(term) as connection:
                        with suppress(asyncpg.PostgresError, TimeoutError):
                            await connection.execute(words, timeout=0.2)
                        with pytest.raises(asyncpg.InFailedSQLTransactionError):
                            await WAYS[way](connection, fence)
                assert error.value.sqlstate == "25P02"
            async with sink.transaction(term) as connection:
                await connection.execute(INSERT.format(fence))

    asyncio.run(run())
    assert written(postgresql, fence) == 1


def test_a_transaction_in_which_nothing_is_said_is_checked(postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink, PostgresSink(postgresql.url) as successor:
            await sink.seal(fence, Token(1))
            await warm(sink, term)
            with pytest.raises(ZeroDivisionError):
                async with sink.transaction(term):
                    raise ZeroDivisionError
            await successor.seal(fence, Token(2))
            with pytest.raises(StaleToken):
                await warm(sink, term)

    asyncio.run(run())


@pytest.mark.parametrize("words", ["COMMIT AND CHAIN", "COMMIT; BEGIN", "ROLLBACK AND CHAIN", "COMMIT"])
def test_one_that_is_ended_inside_is_noticed(words: str, postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            await warm(sink, term)
            with pytest.raises(ConfigError, match="ended inside"):
                async with sink.transaction(term) as connection:
                    await connection.execute(words)

    asyncio.run(run())


@pytest.mark.parametrize("number", [1.0, True])
def test_what_only_compares_as_the_token_of_before_is_none(
    number: Any, postgresql: PostgresCluster, fence: str
) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await warm(sink, SimpleNamespace(fence=fence, token=Token(1)))
            with pytest.raises(ConfigError, match="token"):
                sink.transaction(SimpleNamespace(fence=fence, token=number))

    asyncio.run(story())
