"""What a session remembers of a fence holds for as long as nothing has changed, whoever changes it and however.

Each test has a session that remembers: its commits read no row any more. That is the control; without it, every test here would pass for a
session that reads the row each time.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from tenure.errors import StaleToken, StoreError, UnverifiedToken
from tenure.model import Token
from tenure.sinks.postgresql import PostgresSink
from tenure.sinks.postgresql.schema import literal, setting_of
from tenure.testing.engines import PostgresCluster
from tests.sql_rig import at

LEVELS = ("read committed", "repeatable read", "serializable")
PATIENCE_S = 60


class Session:
    """An old leader's session at the server, which does what the sink does, message by message."""

    def __init__(self, connection: Any, fence: str) -> None:
        self.connection, self.fence = connection, fence

    async def commit(self, token: int = 1, level: str = "read committed", write: str = "") -> None:
        show = f"SET LOCAL {setting_of(self.fence)} = '{token}'"
        try:
            await self.connection.execute(f"BEGIN ISOLATION LEVEL {level}; {show}; {write}")
            await self.finish(token)
        except asyncpg.PostgresError:
            await self.connection.execute("ROLLBACK")
            raise

    async def finish(self, token: int = 1) -> None:
        words = f"{literal(self.fence)}, {token}, '{setting_of(self.fence)}'"
        await self.connection.execute(f"CALL tenure_fence.finish({words}); COMMIT")

    async def remembers(self) -> bool:
        return bool(await self.connection.fetchval(f"SELECT current_setting('{setting_of(self.fence)}_at', true)"))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def remembering(cluster: PostgresCluster, fence: str) -> AsyncIterator[tuple[Session, Any]]:
    """Yield a session that remembers that the fence stands at 1, and a connection of somebody else."""
    async with PostgresSink(cluster.url) as sink:
        await sink.seal(fence, Token(1))
    async with connected(cluster.url) as connection, connected(cluster.url) as other:
        session = Session(connection, fence)
        await session.commit()
        assert await session.remembers()
        yield session, other


async def until_somebody_waits(look: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        question = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not await look.fetchval(question):  # noqa: ASYNC110  (only the server knows)
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def servers() -> Iterator[PostgresCluster]:
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture
def apart(servers: PostgresCluster) -> Iterator[PostgresCluster]:
    """A server whose fences nobody else has."""
    yield servers
    servers.sql("DROP SCHEMA tenure_fence CASCADE")


@pytest.mark.parametrize("level", LEVELS)
def test_who_remembers_reads_no_row_and_locks_none(level: str, postgresql: PostgresCluster) -> None:
    async def story() -> None:
        async with remembering(postgresql, f"stamp/{level}") as (session, other):
            locks = other.transaction()
            await locks.start()
            # Nobody can even look at the table now.
            await other.execute("LOCK TABLE tenure_fence.fences IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(PATIENCE_S):
                await session.commit(level=level)
            await locks.rollback()

    asyncio.run(story())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tenure_fence.fences SET highest = 2 WHERE fence = $1",
        "UPDATE tenure_fence.fences SET fence = fence || '/renamed' WHERE fence = $1",
        "DELETE FROM tenure_fence.fences WHERE fence = $1",
        "SET session_replication_role = replica; UPDATE tenure_fence.fences SET highest = 2 WHERE fence = $1",
        "SELECT tenure_fence.admit($1, 2)",
        "SELECT tenure_fence.lower_fence($1, 1, 0, 'ada', 'now', 'a test', 1000)",
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_whatever_changes_the_fence_is_noticed_and_nobody_commits_while_it_is_being_changed(
    level: str, change: str, postgresql: PostgresCluster
) -> None:
    fence = f"stamp/{level}/{change[:40]}/{len(change)}"

    async def story() -> None:
        async with remembering(postgresql, fence) as (session, other), connected(postgresql.url) as look:
            # Its view may be from before the change.
            await session.connection.execute(f"BEGIN ISOLATION LEVEL {level}; SELECT 1")
            await session.connection.execute(f"SET LOCAL {setting_of(fence)} = '1'")
            changes = other.transaction()
            await changes.start()
            await other.execute(change.replace("$1", literal(fence)))
            committing = asyncio.create_task(session.finish())
            await until_somebody_waits(look)
            assert not committing.done()
            await changes.commit()
            # 40001 at a level whose view is older than the change.
            with pytest.raises(asyncpg.PostgresError) as told:
                await committing
            assert told.value.sqlstate in {"TN001", "TN002", "40001"}
            await session.connection.execute("ROLLBACK")
            with pytest.raises(asyncpg.PostgresError) as again:
                await session.commit(level=level)
            assert again.value.sqlstate in {"TN001", "TN002"}

    asyncio.run(story())


@pytest.mark.parametrize("role", ["origin", "replica"])
@pytest.mark.parametrize("how", ["", "RESTART IDENTITY"])
def test_a_table_that_is_emptied_is_noticed(how: str, role: str, apart: PostgresCluster) -> None:
    async def story() -> None:
        async with remembering(apart, f"stamp/truncate/{how}") as (session, other):
            await other.execute(f"SET session_replication_role = {role}; TRUNCATE tenure_fence.fences {how}")
            with pytest.raises(asyncpg.PostgresError) as told:
                await session.commit()
            assert told.value.sqlstate == "TN002"
            # What was reset is drawn anew with the next seal, and not counted: nothing comes again.
            async with PostgresSink(apart.url) as sink:
                await sink.seal(session.fence, Token(2))
            with pytest.raises(asyncpg.PostgresError) as told:
                await session.commit()
            assert told.value.sqlstate == "TN001"
            await session.commit(2)
            assert await session.remembers()

    asyncio.run(story())


def test_an_edit_that_is_taken_back_refuses_nobody_and_what_is_true_is_remembered_anew(
    postgresql: PostgresCluster,
) -> None:
    async def story() -> None:
        async with remembering(postgresql, "stamp/taken-back") as (session, other):
            changes = other.transaction()
            await changes.start()
            await other.execute("SELECT tenure_fence.admit('stamp/taken-back', 2)")
            await changes.rollback()
            with pytest.raises(asyncpg.PostgresError) as told:
                await session.commit(2)  # which was never sealed
            assert told.value.sqlstate == "TN002"
            await session.commit(1)
            await session.commit(1)

    asyncio.run(story())


def test_what_is_remembered_of_one_fence_or_token_says_nothing_of_another(postgresql: PostgresCluster) -> None:
    async def story() -> None:
        async with remembering(postgresql, "stamp/one") as (session, _):
            other = Session(session.connection, "stamp/other")
            with pytest.raises(asyncpg.PostgresError) as told:
                await other.commit(1)
            assert told.value.sqlstate == "TN002"
            with pytest.raises(asyncpg.PostgresError) as told:
                await session.commit(2)
            assert told.value.sqlstate == "TN002"
            await session.commit(1)

    asyncio.run(story())


def test_a_table_of_fences_that_is_gone_is_missed(apart: PostgresCluster) -> None:
    async def story() -> None:
        term = SimpleNamespace(fence="gone", token=Token(1))
        async with PostgresSink(apart.url) as sink:
            for _ in range(3):
                async with sink.transaction(term) as connection:
                    await connection.execute("SELECT 1")
            await asyncio.to_thread(apart.sql, "DROP TABLE tenure_fence.fences CASCADE")
            with pytest.raises((UnverifiedToken, StoreError, asyncpg.PostgresError)):
                async with sink.transaction(term) as connection:
                    await connection.execute("SELECT 1")
            async with sink.transaction(term):  # as where there never was one
                pass

    asyncio.run(story())


def test_a_database_that_older_code_has_set_up_is_brought_up_to_date_with_its_fences(apart: PostgresCluster) -> None:
    async def story() -> None:
        term = SimpleNamespace(fence="older", token=Token(3))
        async with PostgresSink(apart.url) as sink:
            await sink.seal("older", Token(3))
            gone = "DROP SEQUENCE tenure_fence.stamp CASCADE; DROP FUNCTION tenure_fence.note_change CASCADE"
            await asyncio.to_thread(apart.sql, gone)
            await sink.set_up()
            await sink.set_up()
            for _ in range(2):
                async with sink.transaction(term) as connection:
                    await connection.execute("SELECT 1")
            assert await Session(sink._idle[-1].raw, "older").remembers()
            async with PostgresSink(apart.url) as successor:
                await successor.seal("older", Token(4))
            with pytest.raises(StaleToken):
                async with sink.transaction(term) as connection:
                    await connection.execute("SELECT 1")

    asyncio.run(story())


def test_a_session_of_a_standby_that_is_promoted_has_remembered_nothing() -> None:
    """The stamp of a seal arrives before its row.

    a. The successor draws a stamp and raises the fence, and has not committed.
    b. The standby has the stamp, and the row as it was. The old leader's session there passes, as it may: nothing is written there.
    c. The seal is committed, and arrives. The standby is promoted, and the session goes on: the stamp is that of b.
    """
    with PostgresCluster(2) as pair:

        async def story() -> None:
            async with PostgresSink(at(pair, 0)) as sink:
                await sink.seal("standby", Token(1))
            async with connected(at(pair, 0)) as successor, connected(at(pair, 0)) as stranger:
                await stranger.execute("CREATE TABLE written (token bigint)")
                stamp = "SELECT last_value FROM tenure_fence.stamp"
                before = await successor.fetchval(stamp)
                async with connected(at(pair, 1)) as there:

                    async def arrives(question: str, answer: Any) -> None:
                        async with asyncio.timeout(PATIENCE_S):
                            while await there.fetchval(question) != answer:  # noqa: ASYNC110  (only the server knows)
                                await asyncio.sleep(0.02)

                    await arrives("SELECT count(*) FROM pg_class WHERE relname = 'written'", 1)
                    await arrives(stamp, before)
                    session = Session(there, "standby")
                    seal = successor.transaction()
                    await seal.start()
                    await successor.execute("SELECT tenure_fence.admit('standby', 2)")
                    drawn = await successor.fetchval(stamp)
                    assert drawn != before
                    await stranger.execute("INSERT INTO written VALUES (0)")  # Its commit takes the log along so far.
                    await arrives(stamp, drawn)
                    await session.commit(1)
                    assert not await session.remembers()
                    await seal.commit()
                    await arrives("SELECT tenure_fence.highest('standby')", 2)
                    await asyncio.to_thread(pair.nodes[0].kill)
                    await asyncio.to_thread(pair.promote, pair.nodes[1])
                    with pytest.raises(asyncpg.PostgresError) as told:
                        await session.commit(1, write="INSERT INTO written VALUES (1)")
                    assert told.value.sqlstate == "TN001"
                    await session.commit(2, write="INSERT INTO written VALUES (2)")
                    assert await session.remembers()
                    assert await there.fetch("SELECT token FROM written ORDER BY token") == [(0,), (2,)]

        asyncio.run(story())
