"""After the seal a fenced commit writes what the same commit writes without a fence, and nothing more."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from types import SimpleNamespace

import asyncpg

from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import PostgresSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tests.sinks.mysql_rig import connected

COMMITS = 50
FENCE = "books"
TERM = SimpleNamespace(fence=FENCE, token=7)
INSERT = "INSERT INTO {} VALUES ('the same for everybody')"
# Nobody writes to the log but who commits: no vacuum, no checkpoint, no notes for replicas, no whole pages after a checkpoint.
QUIET = [
    "autovacuum=off",
    "checkpoint_timeout=1d",
    "full_page_writes=off",
    "max_wal_senders=0",
    "wal_level=minimal",
]
PAGE_BYTES, HEAD_BYTES, FIRST_HEAD_BYTES, SEGMENT_BYTES = 8192, 24, 40, 16 * 2**20


def record_bytes(place: int) -> int:
    """Return how many bytes of records are before a place in PostgreSQL's log: without the head that each page of it has."""
    segments, rest = divmod(place, SEGMENT_BYTES)
    pages, inside = divmod(rest, PAGE_BYTES)
    of_segment = SEGMENT_BYTES // PAGE_BYTES * (PAGE_BYTES - HEAD_BYTES) - (FIRST_HEAD_BYTES - HEAD_BYTES)
    found = segments * of_segment
    if pages == 0:
        return found + max(0, inside - FIRST_HEAD_BYTES)
    return found + PAGE_BYTES - FIRST_HEAD_BYTES + (pages - 1) * (PAGE_BYTES - HEAD_BYTES) + max(0, inside - HEAD_BYTES)


def log_of(cluster: PostgresCluster) -> int:
    high, low = cluster.sql("SELECT pg_current_wal_insert_lsn()").split("/")
    return record_bytes((int(high, 16) << 32) | int(low, 16))


def test_a_fenced_commit_in_postgresql_writes_as_many_bytes_of_log_as_one_without_a_fence() -> None:
    with PostgresCluster(options=QUIET) as cluster:

        async def written(table: str, commit: Callable[[str], Awaitable[None]]) -> int:
            await asyncio.to_thread(cluster.sql, f"CREATE TABLE {table} (value text)")
            await commit(INSERT.format(table))  # The first one in a table does more than others.
            before = await asyncio.to_thread(log_of, cluster)
            for _ in range(COMMITS):
                await commit(INSERT.format(table))
            return await asyncio.to_thread(log_of, cluster) - before

        async def run() -> tuple[int, int, int]:
            plain = await asyncpg.connect(cluster.url)
            try:
                async with PostgresSink(cluster.url) as sink:
                    await sink.seal(FENCE, Token(7))

                    async def unfenced(insert: str) -> None:
                        async with plain.transaction():
                            await plain.execute(insert)

                    async def fenced(insert: str) -> None:
                        async with sink.transaction(TERM, "read committed") as connection:
                            await connection.execute(insert)

                    async def locking(insert: str) -> None:
                        async with sink.transaction(TERM, "repeatable read") as connection:
                            await connection.execute(insert)

                    return await written("a", unfenced), await written("b", fenced), await written("c", locking)
            finally:
                await plain.close()

        without, with_fence, with_lock = asyncio.run(run())
    assert without > 0
    assert with_fence == without
    assert with_lock > without  # There the row is locked, which is written down. So it would have been seen.


def test_a_fence_among_few_is_read_without_going_through_an_index() -> None:
    with PostgresCluster(options=["autovacuum=off"]) as cluster:

        async def run() -> None:
            async with PostgresSink(cluster.url) as sink:
                await sink.seal(FENCE, Token(7))

        asyncio.run(run())
        plan = cluster.sql("EXPLAIN SELECT highest FROM tenure_fence.fences WHERE fence = 'books'")
    assert "Seq Scan" in plan
    assert "Index" not in plan


COUNTED = ("Binlog_bytes_written", "Handler_write", "Handler_update", "Handler_delete")


def changes(cluster: MariaDbCluster) -> dict[str, int]:
    """Return how much was written to the log of changes, and how many rows of any table were."""
    counted = ", ".join(f"'{name}'" for name in COUNTED)
    rows = cluster.sql(f"SHOW GLOBAL STATUS WHERE variable_name IN ({counted})").splitlines()
    return {name: int(number) for name, number in (row.split("\t") for row in rows)}


def test_a_fenced_commit_in_mariadb_changes_no_row_but_those_of_its_caller() -> None:
    """By its log of changes. InnoDB's own has in it what its threads do meanwhile, so it is never twice the same."""
    with MariaDbCluster(options=["--binlog-format=ROW"]) as cluster, PyMySQLSink(cluster.url) as sink:

        def written(table: str, commit: Callable[[str], None]) -> dict[str, int]:
            cluster.sql(f"CREATE TABLE {table} (value varchar(40))", database="test")
            before = changes(cluster)
            for _ in range(COMMITS):
                commit(INSERT.format(table))
            return {name: number - before[name] for name, number in changes(cluster).items()}

        def unfenced(insert: str) -> None:
            plain.cursor().execute(insert)
            plain.commit()

        def fenced(insert: str) -> None:
            with sink.transaction(TERM) as connection:
                connection.cursor().execute(insert)

        def sealing(insert: str) -> None:
            sink.admit(FENCE, sink.highest(FENCE) + 1)
            unfenced(insert)

        def awaited(insert: str) -> None:
            async def run() -> None:
                async with MySQLSink(cluster.url) as other:
                    await other.seal(FENCE, Token(7))
                    async with other.transaction(TERM) as connection, connection.cursor() as cursor:
                        await cursor.execute(insert)

            asyncio.run(run())

        with closing(connected(cluster.url, charset="utf8mb4")) as plain:
            sink.admit(FENCE, 7)
            without = written("a", unfenced)
            assert without["Handler_write"] == COMMITS
            assert without["Handler_update"] == 0
            assert written("b", fenced) == without
            assert (
                written("c", awaited) == without
            )  # A seal with the token that the fence stands at writes nothing either.
            assert written("d", sealing)["Binlog_bytes_written"] > without["Binlog_bytes_written"]
