"""A connection that was given up, by the caller or by asyncpg itself, is no reason for an error that is about something else."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import asyncpg
import pytest

from tenure.errors import Unreachable
from tenure.model import Token
from tenure.sinks.postgresql import PostgresSink
from tenure.testing.engines import PostgresCluster
from tests.sinks.warmed import warm

LEVELS = ("read committed", "repeatable read", "serializable")


@pytest.fixture
def term(request: pytest.FixtureRequest) -> SimpleNamespace:
    return SimpleNamespace(fence=str(request.node.name), token=Token(1))


@pytest.fixture
def without_cycles() -> Iterator[None]:
    """Nothing is freed that something points at in a circle."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("said", ["", "SELECT 1"])
@pytest.mark.parametrize(("raised", "told"), [(None, Unreachable), (ZeroDivisionError(), ZeroDivisionError)])
def test_a_block_whose_connection_was_given_up_tells_of_that_or_of_the_callers_own_error(
    raised: Exception | None, told: type[Exception], said: str, postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            given_up = await warm(sink, term)
            with pytest.raises(told):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    if said:
                        await connection.execute(said)
                    connection.terminate()
                    if raised is not None:
                        raise raised
            assert await warm(sink, term) is not given_up

    asyncio.run(story())


def test_an_idle_connection_that_was_given_up_is_replaced(postgresql: PostgresCluster, term: SimpleNamespace) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            given_up = await warm(sink, term)
            given_up.terminate()
            assert await warm(sink, term) is not given_up

    asyncio.run(story())


def test_a_session_that_has_ended_before_the_first_statement_is_told_of_as_such_each_time(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            raw = await warm(sink, term)
            with pytest.raises(Unreachable, match="closed"):  # noqa: PT012  (of the commit)
                async with sink.transaction(term) as connection:
                    await connection.close()
                    for _ in range(2):
                        with pytest.raises(asyncpg.InterfaceError, match="connection is closed"):
                            await connection.execute("SELECT 1")
            assert await warm(sink, term) is not raw

    asyncio.run(story())


def test_what_is_nested_must_be_of_the_level_of_the_transaction_around_it(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url, connections_max=1) as sink:
            await warm(sink, term)
            for level in LEVELS:
                async with sink.transaction(term, isolation=level) as connection:
                    for other in LEVELS:
                        inner = connection.transaction(isolation=other.replace(" ", "_"))
                        if other == level:
                            async with inner:
                                assert await connection.fetchval("SHOW transaction_isolation") == level
                        else:
                            with pytest.raises(asyncpg.InterfaceError, match="different isolation level"):
                                await inner.start()

    asyncio.run(story())


@pytest.mark.usefixtures("without_cycles")
def test_a_connection_that_is_closed_is_freed(postgresql: PostgresCluster, term: SimpleNamespace) -> None:
    async def story() -> None:
        async with PostgresSink(postgresql.url) as sink:
            known = weakref.ref(await warm(sink, term))
            await warm(sink, term)
            assert known() is not None
        await asyncio.sleep(0)  # asyncio itself has it until the turn in which it is told.
        assert known() is None

    asyncio.run(story())
