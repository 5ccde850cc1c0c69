"""What a trigger and a commit read, they lock: no stale write is committed, whichever way it and a seal overlap.

Two connections each: the old leader's transaction, and its successor's seal.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, guard_sync, present_sql, triggers
from tenure.testing.engines import MariaDbCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.mysql_rig import as_mysql_does, connected, lock_waits

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
PATIENCE_S = 60
WRITE = "INSERT INTO in_order VALUES (1)"


class Game:
    """A fence that stands at 1, a table with its triggers, the old leader's connection, and its successor's."""

    def __init__(self, cluster: MariaDbCluster, old: Any, new: Any, sink: PyMySQLSink, fence: str) -> None:
        self.cluster, self.old, self.new, self.sink = cluster, old, new, sink
        self.fence, self.term = fence, SimpleNamespace(fence=fence, token=1)
        self.told: list[int] = []

    def begin(self, level: str) -> None:
        with self.old.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            cursor.execute(present_sql(self.term))

    def write(self) -> None:
        try:
            with self.old.cursor() as cursor:
                cursor.execute(WRITE)
        except pymysql.MySQLError as error:
            self.told.append(error.args[0])

    def waits(self) -> bool:
        return lock_waits(self.cluster) > 0

    def stale_writes(self) -> int:
        return int(self.cluster.sql("SELECT count(*) FROM in_order", database="test"))


@contextmanager
def game(cluster: MariaDbCluster, fence: str, *, has_triggers: bool = True) -> Iterator[Game]:
    cluster.sql("DROP TABLE IF EXISTS in_order; CREATE TABLE in_order (token int)", database="test")
    with (
        PyMySQLSink(cluster.url, wait_s=PATIENCE_S) as sink,
        closing(connected(cluster.url)) as old,
        closing(connected(cluster.url)) as new,
    ):
        sink.admit(fence, 1)
        if has_triggers:
            sink.install_triggers("in_order", fence=fence)
        yield Game(cluster, old, new, sink, fence)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("has_triggers", [True, False])
def test_a_seal_waits_for_a_transaction_that_a_trigger_has_let_write_and_for_no_other(
    has_triggers: bool, level: str, mariadb: MariaDbCluster
) -> None:
    with game(mariadb, f"order/before/{has_triggers}/{level}", has_triggers=has_triggers) as play:
        play.begin(level)
        play.write()
        sealing = Thread(target=play.sink.admit, args=(play.fence, 2))
        sealing.start()
        assert wait_for(lambda: not sealing.is_alive() or play.waits(), PATIENCE_S)
        assert sealing.is_alive() == has_triggers
        play.old.commit()
        sealing.join()
        assert play.told == []
        assert play.stale_writes() == 1  # With triggers it landed before the seal returned, which is its right.


@pytest.mark.parametrize("level", LEVELS)
def test_a_trigger_that_waits_for_a_seal_sees_what_it_wrote(level: str, mariadb: MariaDbCluster) -> None:
    with game(mariadb, f"order/during/{level}") as play:
        guard_sync(play.new, SimpleNamespace(fence=play.fence, token=2))  # It is raised, and nobody else sees it yet.
        play.begin(level)
        writing = Thread(target=play.write)
        writing.start()
        assert wait_for(lambda: not writing.is_alive() or play.waits(), PATIENCE_S)
        play.new.commit()
        writing.join()
        play.old.commit()
        assert play.told == [triggers.STALE]
        assert play.stale_writes() == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_a_commit_that_waits_for_a_seal_sees_what_it_wrote(steps: str, level: str, mariadb: MariaDbCluster) -> None:
    async def run(play: Game) -> None:
        sink = MySQLSink(mariadb.url)
        async with sink if steps == "one step" else as_mysql_does(sink) as old:
            await old.seal(play.fence, Token(1))

            async def write() -> None:
                async with old.transaction(play.term, level.lower()) as connection, connection.cursor() as cursor:
                    await cursor.execute("SELECT count(*) FROM in_order WHERE token = 7")
                    await cursor.execute(WRITE)
                    guard_sync(play.new, SimpleNamespace(fence=play.fence, token=2))

            writing = asyncio.create_task(write())
            async with asyncio.timeout(PATIENCE_S):
                while not writing.done() and not await asyncio.to_thread(play.waits):  # noqa: ASYNC110  (only the server knows)
                    await asyncio.sleep(0.01)
            play.new.commit()
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await writing

    with game(mariadb, f"order/commit/{steps}/{level}", has_triggers=False) as play:
        asyncio.run(run(play))
        assert play.stale_writes() == 0
