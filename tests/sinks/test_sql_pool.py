"""Connections are kept for the next transaction: it finds nothing of the last one, and there is room for as many as was said."""

import asyncio
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from tenure.errors import ConfigError, Unreachable, UnverifiedToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink
from tenure.sinks.mysql.schema import variable_of
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.sinks.postgresql.schema import setting_of
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tests.sinks.warmed import warm

# Each after each other, and after itself.
LEVELS = ("", "", "repeatable read", "repeatable read", "", "serializable", "read committed", "repeatable read", "")


@pytest.fixture
def term(request: pytest.FixtureRequest) -> SimpleNamespace:
    return SimpleNamespace(fence=str(request.node.name), token=Token(1))


def test_each_transaction_has_the_level_and_shows_the_token_that_it_was_asked_for(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    shows = f"SELECT current_setting('transaction_isolation') || ' ' || current_setting('{setting_of(term.fence)}')"
    other = SimpleNamespace(fence=f"{term.fence} 2", token=Token(5))

    async def story() -> None:
        async with PostgresSink(postgresql.url, connections_max=1) as sink:
            used = {await warm(sink, other)}
            for token in (1, 2):
                for number, level in enumerate(LEVELS):
                    bound = SimpleNamespace(fence=term.fence, token=Token(token))
                    async with sink.transaction(bound, level) as connection:
                        assert await connection.fetchval(shows) == f"{level or 'read committed'} {token}"
                    used.add(sink._idle[-1].raw)
                    if number % 2:
                        used.add(await warm(sink, other))
            assert len(used) == 1

    asyncio.run(story())


def test_each_transaction_on_mariadb_shows_the_token_that_it_was_asked_for(
    mariadb: MariaDbCluster, term: SimpleNamespace
) -> None:
    other = SimpleNamespace(fence=f"{term.fence} 2", token=Token(5))
    shows = f"SELECT @{variable_of(term.fence)}, @{variable_of(other.fence)}"

    async def shown(sink: MySQLSink, bound: SimpleNamespace) -> Any:
        async with sink.transaction(bound) as connection, connection.cursor() as cursor:
            await cursor.execute(shows)
            return await cursor.fetchone()

    async def story() -> None:
        async with MySQLSink(mariadb.url, connections_max=1) as sink:
            for token in (1, 1, 2, 2):
                bound = SimpleNamespace(fence=term.fence, token=Token(token))
                assert [await shown(sink, bound) for _ in range(3)] == [(token, None)] * 3
                assert await shown(sink, other) == (None, 5)

    asyncio.run(story())


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_level_that_is_none_costs_no_connection(
    kind: type[Any], postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def story() -> None:
        async with kind(postgresql.url, connections_max=1) as sink:
            await sink.seal(term.fence, term.token)
            await warm(sink, term)
            for _ in range(2):
                with pytest.raises(ConfigError, match="isolation"):
                    await sink.transaction(term, "snapshot").__aenter__()
            async with asyncio.timeout(60):
                await warm(sink, term)

    asyncio.run(story())


def test_a_connection_on_which_something_was_begun_between_is_not_given_out_by_psycopg(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def on_loop() -> None:
        async with AsyncPsycopgSink(postgresql.url) as sink:
            await sink.seal(term.fence, term.token)
            earlier = await warm(sink, term)
            await earlier.execute("BEGIN")
            assert await warm(sink, term) is not earlier
            assert earlier.closed

    asyncio.run(on_loop())
    with PsycopgSink(postgresql.url) as sink:
        with sink.transaction(term):
            pass
        earlier = sink._idle[-1].raw
        earlier.execute("BEGIN")
        with sink.transaction(term):
            pass
        assert sink._idle[-1].raw is not earlier
        assert earlier.closed


@pytest.mark.parametrize("is_made_before", [True, False], ids=["made before there is a loop", "made on the loop"])
def test_there_is_room_for_as_many_as_was_said_and_nobody_overtakes(
    is_made_before: bool, postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    made = [PostgresSink(postgresql.url, connections_max=1)] if is_made_before else []

    async def story() -> None:
        [sink] = made or [PostgresSink(postgresql.url, connections_max=1)]
        order: list[str] = []

        async def transact(name: str) -> None:
            async with sink.transaction(term) as connection:
                await connection.execute("SELECT 1")
                order.append(name)

        async with sink, asyncio.timeout(60):
            await sink.seal(term.fence, term.token)
            await warm(sink, term)
            async with sink.transaction(term):
                waiting = [asyncio.ensure_future(transact(name)) for name in ("cancelled", "first", "second")]
                await asyncio.sleep(0)
                assert sink._room.statistics().tasks_waiting == len(waiting)
                waiting[0].cancel()
            await transact("last")  # Though the connection is idle when this is begun.
            await asyncio.wait(waiting)
            # Cancelled in the very turn in which it is its turn.
            async with sink.transaction(term):
                late = asyncio.ensure_future(transact("late"))
                await asyncio.sleep(0)
                assert sink._room.statistics().tasks_waiting == 1
            late.cancel()
            await asyncio.wait([late])
            await transact("after that")
        assert order == ["first", "second", "last", "after that"]

    asyncio.run(story())


def test_a_transaction_is_not_entered_inside_itself_and_may_be_entered_again_afterwards(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    inside_itself = pytest.raises(ConfigError, match="made anew for each block")

    async def on_loop() -> None:
        async with PostgresSink(postgresql.url, connections_max=2) as sink, asyncio.timeout(60):
            transaction = sink.transaction(term)
            for _ in range(3):  # Begun by itself, and then together with its first statement.
                async with transaction as connection:
                    with inside_itself:
                        await transaction.__aenter__()
                    await connection.execute("SELECT 1")
            assert sink._room.value == 2
            assert len(sink._idle) == 1

    asyncio.run(on_loop())
    with PsycopgSink(postgresql.url, connections_max=2) as sink:
        transaction = sink.transaction(term)
        for _ in range(2):
            with transaction as connection:
                with inside_itself:
                    transaction.__enter__()
                connection.execute("SELECT 1")
        assert len(sink._idle) == 1


def test_a_transaction_that_could_not_begin_may_be_tried_again(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    confirming = [False]

    def verify(_: str, __: int) -> bool:
        return confirming.pop(0) if confirming else True

    async def on_loop() -> None:
        async with PostgresSink(postgresql.url, verify=verify) as sink:
            transaction = sink.transaction(term)
            with pytest.raises(UnverifiedToken):
                await transaction.__aenter__()
            async with transaction as connection:
                await connection.execute("SELECT 1")

    asyncio.run(on_loop())
    later, confirming[:] = SimpleNamespace(fence=term.fence, token=Token(2)), [False]
    with PsycopgSink(postgresql.url, verify=verify) as sink:
        transaction = sink.transaction(later)
        with pytest.raises(UnverifiedToken):
            transaction.__enter__()
        with transaction as connection:
            connection.execute("SELECT 1")


def test_a_thread_opens_a_connection_where_another_has_taken_the_last_one(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    class TakenBetween(list[Any]):
        """Whoever looks sees one, and it is gone when they take it."""

        def __len__(self) -> int:
            return 1

    with PsycopgSink(postgresql.url) as sink:
        with sink.transaction(term):
            pass
        earlier = sink._idle[0].raw
        vars(sink)["_idle"] = TakenBetween()
        with sink.transaction(term) as connection:
            assert connection.pgconn is not earlier.pgconn
        earlier.close()


def test_whoever_logs_what_asyncpg_says_is_told_of_the_commit(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    told: list[str] = []

    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(term.fence, term.token)
            connection = await warm(sink, term)
            with connection.query_logger(lambda record: told.append(record.query)):
                await warm(sink, term)

    asyncio.run(story())
    assert [query.rpartition("; ")[2] for query in told] == ["COMMIT"]


def test_what_is_asked_first_is_logged_by_asyncpg_and_refused_if_it_was_cut_off(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    told: list[str] = []

    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await warm(sink, term)
            async with sink.transaction(term) as connection:
                with connection.query_logger(lambda record: told.append(record.query)):
                    await connection.execute("SELECT 7")
            with pytest.raises(asyncpg.InterfaceError, match="closed"):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    connection.terminate()
                    await connection.execute("SELECT 8")
            await warm(sink, term)

    asyncio.run(story())
    assert told == ["SELECT 7"]


def test_on_mariadb_a_token_that_was_shown_is_not_shown_again(mariadb: MariaDbCluster, term: SimpleNamespace) -> None:
    said: list[str] = []

    async def story() -> None:
        async with MySQLSink(mariadb.url) as sink:
            await sink.seal(term.fence, term.token)
            await warm(sink, term)
            ask = sink.driver.ask

            def noting(raw: Any, due: Any) -> Any:
                said.append(due.sql.partition(" ")[0])
                return ask(raw, due)

            vars(sink.driver)["ask"] = noting
            for _ in range(3):
                await warm(sink, term)

    asyncio.run(story())
    assert said == ["EXECUTE"] * 3


@pytest.mark.parametrize("kind", [AsyncPsycopgSink, MySQLSink], ids=lambda kind: kind.__name__)
def test_a_commit_that_cannot_have_been_sent_is_not_said_to_be_unknown(
    kind: Any, postgresql: PostgresCluster, mariadb: MariaDbCluster, term: SimpleNamespace
) -> None:
    async def on_loop() -> None:
        async with kind(mariadb.url if kind is MySQLSink else postgresql.url) as sink:
            await sink.seal(term.fence, term.token)
            with pytest.raises(Unreachable):
                async with sink.transaction(term) as connection:
                    await (connection.ensure_closed if kind is MySQLSink else connection.close)()

    asyncio.run(on_loop())
