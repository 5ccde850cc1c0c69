"""No stale write is committed, at any level of isolation, whichever way a guard and a seal overlap.

Two connections each: the old leader's transaction, step by step, and its successor's sink. The naive guard, a plain SELECT in
the same places, accepts what is refused here: that is the control.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.postgresql import PostgresSink, guard
from tenure.testing.engines import PostgresCluster

LEVELS = ("read_committed", "repeatable_read", "serializable")
PATIENCE_S = 60
Guard = Callable[[Any, Any], Awaitable[None]]
Old = Any


class Game:
    """A fence that stands at 1, the old leader's connection, its successor's sink, and what was written."""

    def __init__(self, old: Old, look: Any, sink: PostgresSink, fence: str) -> None:
        self.old, self.look, self.sink, self.fence = old, look, sink, fence
        self.term = SimpleNamespace(fence=fence, token=1)

    async def write(self) -> None:
        await self.old.execute("INSERT INTO written (fence, token) VALUES ($1, 1)", self.fence)

    async def seal(self) -> None:
        await self.sink.seal(self.fence, Token(2))

    async def waits(self) -> bool:
        """Say whether somebody waits for the lock of a fence."""
        return bool(
            await self.look.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        )

    async def stale_writes(self) -> int:
        return int(await self.look.fetchval("SELECT count(*) FROM written WHERE fence = $1 AND token = 1", self.fence))


@asynccontextmanager
async def game(cluster: PostgresCluster, fence: str) -> AsyncIterator[Game]:
    old, look = [await asyncpg.connect(cluster.url) for _ in range(2)]
    try:
        await look.execute("CREATE TABLE IF NOT EXISTS written (entry bigserial, fence text, token bigint)")
        async with PostgresSink(cluster.url, wait_s=PATIENCE_S) as sink:
            await sink.seal(fence, Token(1))
            yield Game(old, look, sink, fence)
    finally:
        old.terminate()
        await look.close()


async def naive(connection: Any, term: Any) -> None:
    highest = await connection.fetchval("SELECT highest FROM tenure_fence.fences WHERE fence = $1", term.fence)
    if highest > term.token:
        raise StaleToken(term.token, highest)


async def snapshot_before_the_seal(play: Game, level: str, check: Guard) -> None:
    transaction = play.old.transaction(isolation=level)
    await transaction.start()
    await play.old.fetchval("SELECT count(*) FROM written")  # Here is its view taken, wherever there is one view.
    await play.seal()
    await check(play.old, play.term)
    await play.write()
    await transaction.commit()


async def guard_after_the_first_write(play: Game, level: str, check: Guard) -> None:
    transaction = play.old.transaction(isolation=level)
    await transaction.start()
    await play.write()
    await play.seal()
    await check(play.old, play.term)
    await transaction.commit()


async def guard_before_the_seal(play: Game, level: str, check: Guard) -> None:
    """Returns once both are done; a seal that does not wait comes back before the old leader commits."""
    transaction = play.old.transaction(isolation=level)
    await transaction.start()
    await check(play.old, play.term)
    sealing = asyncio.create_task(play.seal())
    async with asyncio.timeout(PATIENCE_S):
        while not sealing.done() and not await play.waits():  # noqa: ASYNC110  (only the server knows)
            await asyncio.sleep(0.01)
    sealed_first = sealing.done()
    await play.write()
    await transaction.commit()
    await sealing
    if sealed_first:
        raise Overtaken


class Overtaken(Exception):
    """The seal had returned, and the old leader committed after it."""


@pytest.mark.parametrize("story", [snapshot_before_the_seal, guard_after_the_first_write])
@pytest.mark.parametrize("level", LEVELS)
def test_a_guard_that_comes_after_the_seal_refuses_whatever_its_view_shows(
    level: str, story: Any, postgresql: PostgresCluster
) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/{story.__name__}/{level}") as play:
            with pytest.raises((StaleToken, asyncpg.SerializationError)) as told:
                await story(play, level, guard)
            assert await play.stale_writes() == 0
            if level == "read_committed":
                assert told.value.args == (1, 2)
            elif isinstance(told.value, asyncpg.SerializationError):
                assert "older than the last seal" in told.value.__notes__[0]

    asyncio.run(run())


@pytest.mark.parametrize("level", LEVELS)
def test_a_seal_waits_for_whoever_has_checked_before(level: str, postgresql: PostgresCluster) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/before/{level}") as play:
            await guard_before_the_seal(play, level, guard)
            assert await play.stale_writes() == 1  # It landed before the seal returned, which is its right.
            with pytest.raises(StaleToken):
                await guard_after_the_first_write(play, level, guard)

    asyncio.run(run())


@pytest.mark.parametrize("level", LEVELS)
def test_a_guard_that_waits_for_a_seal_sees_what_it_wrote(level: str, postgresql: PostgresCluster) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/during/{level}") as play, PostgresSink(postgresql.url) as other:
            sealing, writing = play.look.transaction(), play.old.transaction(isolation=level)
            await sealing.start()
            await guard(play.look, SimpleNamespace(fence=play.fence, token=2))  # Raises the fence, and keeps it.
            await writing.start()
            checking = asyncio.create_task(guard(play.old, play.term))
            await until_it_waits(checking, other)
            await sealing.commit()
            with pytest.raises((StaleToken, asyncpg.SerializationError)):
                await checking
            await writing.rollback()

    asyncio.run(run())


@pytest.mark.parametrize("level", LEVELS)
def test_a_commit_that_waits_for_a_seal_sees_what_it_wrote(level: str, postgresql: PostgresCluster) -> None:
    async def write(old: PostgresSink, play: Game) -> None:
        async with old.transaction(play.term, level.replace("_", " ")) as connection:
            await connection.execute("INSERT INTO written (fence, token) VALUES ($1, 1)", play.fence)

    async def run() -> None:
        sinks = PostgresSink(postgresql.url), PostgresSink(postgresql.url)
        async with game(postgresql, f"isolation/committing/{level}") as play, sinks[0] as old, sinks[1] as other:
            await old.seal(play.fence, Token(1))
            sealing = play.look.transaction()
            await sealing.start()
            await guard(play.look, SimpleNamespace(fence=play.fence, token=2))  # Raises the fence, and keeps it.
            writing = asyncio.create_task(write(old, play))
            await until_it_waits(writing, other)
            await sealing.commit()
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await writing
            assert await play.stale_writes() == 0

    asyncio.run(run())


async def until_it_waits(task: "asyncio.Task[None]", sink: PostgresSink) -> None:
    """Return when somebody waits for a fence, and make sure that it is this task."""
    async with asyncio.timeout(PATIENCE_S):
        while not task.done() and not await is_waited(sink):  # noqa: ASYNC110  (only the server knows)
            await asyncio.sleep(0.01)
    assert not task.done()


async def is_waited(sink: PostgresSink) -> bool:
    async with sink.transaction(SimpleNamespace(fence="isolation/looking", token=1)) as connection:
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        return bool(await connection.fetchval(query))


@pytest.mark.parametrize(
    ("story", "level"),
    [
        (snapshot_before_the_seal, "repeatable_read"),
        (snapshot_before_the_seal, "serializable"),
        *((guard_before_the_seal, level) for level in LEVELS),
    ],
)
def test_the_naive_guard_accepts_a_stale_write(story: Any, level: str, postgresql: PostgresCluster) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/naive/{story.__name__}/{level}") as play:
            with suppress(Overtaken):
                await story(play, level, naive)
            assert await play.sink.highest(play.fence) == 2
            assert await play.stale_writes() == 1

    asyncio.run(run())


@pytest.mark.parametrize("level", LEVELS)
def test_writers_of_one_tenure_do_not_wait_for_each_other_and_the_fence_is_not_written(
    level: str, postgresql: PostgresCluster
) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/shared/{level}") as play:
            first, second = play.old.transaction(isolation=level), play.look.transaction(isolation=level)
            before = await play.look.fetchrow(
                "SELECT ctid, xmax::text FROM tenure_fence.fences WHERE fence = $1", play.fence
            )
            await first.start()
            await guard(play.old, play.term)
            await second.start()
            async with asyncio.timeout(PATIENCE_S):
                await guard(play.look, play.term)
            await second.commit()
            await first.commit()
            after = await play.look.fetchrow(
                "SELECT ctid, xmax::text FROM tenure_fence.fences WHERE fence = $1", play.fence
            )
            assert after["ctid"] == before["ctid"]
            # At the other levels the row is locked, which is written down in it: rule 3 of schema.py says why.
            assert (after["xmax"] == before["xmax"]) == (level == "read_committed")

    asyncio.run(run())


@pytest.mark.parametrize("level", LEVELS)
def test_a_bound_transaction_that_was_begun_before_the_seal_is_refused_in_place_of_its_commit(
    level: str, postgresql: PostgresCluster
) -> None:
    async def run() -> None:
        async with game(postgresql, f"isolation/bound/{level}") as play, PostgresSink(postgresql.url) as old:
            await old.seal(play.fence, Token(1))
            with pytest.raises(StaleToken, match="highest seen is 2"):  # noqa: PT012
                async with old.transaction(play.term, level.replace("_", " ")) as connection:
                    await connection.execute("INSERT INTO written (fence, token) VALUES ($1, 1)", play.fence)
                    async with asyncio.timeout(PATIENCE_S):
                        await play.seal()  # It waits for nobody: nothing was checked yet.
            assert await play.stale_writes() == 0

    asyncio.run(run())
