"""No stale write is committed on InnoDB, at any level of isolation, whichever way a guard and a seal overlap.

Two connections each: the old leader's transaction, step by step, and its successor's sink. The naive guard, a plain SELECT in
the same places, accepts what is refused here: that is the control.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, guard_sync
from tenure.testing.engines import MariaDbCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.mysql_rig import as_mysql_does, connected, lock_waits

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
PATIENCE_S = 60
Guard = Callable[[Any, Any], None]


class Game:
    """A fence that stands at 1, the old leader's connection, its successor's sink, and what was written."""

    def __init__(self, cluster: MariaDbCluster, old: Any, sink: PyMySQLSink, fence: str) -> None:
        self.cluster, self.old, self.sink, self.fence = cluster, old, sink, fence
        self.term = SimpleNamespace(fence=fence, token=1)

    def begin(self, level: str) -> None:
        self.old.cursor().execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        self.old.begin()

    def write(self) -> None:
        self.old.cursor().execute("INSERT INTO written (fence, token) VALUES (%s, 1)", (self.fence,))

    def seal(self) -> None:
        self.sink.admit(self.fence, 2)

    def waits(self) -> bool:
        return lock_waits(self.cluster) > 0

    def stale_writes(self) -> int:
        query = f"SELECT count(*) FROM written WHERE fence = '{self.fence}' AND token = 1"  # noqa: S608
        return int(self.cluster.sql(query, database="test"))


@contextmanager
def game(cluster: MariaDbCluster, fence: str) -> Iterator[Game]:
    cluster.sql(
        "CREATE TABLE IF NOT EXISTS written (entry bigint AUTO_INCREMENT PRIMARY KEY, fence text, token bigint)",
        database="test",
    )
    old = connected(cluster.url)
    try:
        with PyMySQLSink(cluster.url, wait_s=PATIENCE_S) as sink:
            sink.admit(fence, 1)
            yield Game(cluster, old, sink, fence)
    finally:
        old.close()


def naive(connection: Any, term: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT highest FROM tenure_fence WHERE fence = %s", (term.fence,))
        [(highest,)] = cursor.fetchall()
    if highest > term.token:
        raise StaleToken(term.token, highest)


def snapshot_before_the_seal(play: Game, level: str, check: Guard) -> None:
    play.begin(level)
    # Here is its view taken. Not of rows of its own fence: under SERIALIZABLE a read is a lock.
    play.old.cursor().execute("SELECT count(*) FROM written WHERE entry = 0")
    play.seal()
    check(play.old, play.term)
    play.write()
    play.old.commit()


def guard_after_the_first_write(play: Game, level: str, check: Guard) -> None:
    play.begin(level)
    play.write()
    play.seal()
    check(play.old, play.term)
    play.old.commit()


def guard_before_the_seal(play: Game, level: str, check: Guard) -> bool:
    """Return whether the seal came back before the old leader committed."""
    play.begin(level)
    check(play.old, play.term)
    sealing = Thread(target=play.seal)
    sealing.start()
    assert wait_for(lambda: not sealing.is_alive() or play.waits(), PATIENCE_S)
    overtaken = not sealing.is_alive()
    play.write()
    play.old.commit()
    sealing.join()
    return overtaken


@pytest.mark.parametrize("story", [snapshot_before_the_seal, guard_after_the_first_write])
@pytest.mark.parametrize("level", LEVELS)
def test_a_guard_that_comes_after_the_seal_refuses_whatever_its_view_shows(
    level: str, story: Any, mariadb: MariaDbCluster
) -> None:
    with game(mariadb, f"isolation/{story.__name__}/{level}") as play:
        with pytest.raises(StaleToken, match="highest seen is 2"):
            story(play, level, guard_sync)
        play.old.commit()  # It was rolled back, so this commits nothing.
        assert play.stale_writes() == 0


@pytest.mark.parametrize("level", LEVELS)
def test_a_seal_waits_for_whoever_has_checked_before(level: str, mariadb: MariaDbCluster) -> None:
    with game(mariadb, f"isolation/before/{level}") as play:
        assert not guard_before_the_seal(play, level, guard_sync)
        assert play.stale_writes() == 1  # It landed before the seal returned, which is its right.


@pytest.mark.parametrize("level", LEVELS)
def test_a_guard_that_waits_for_a_seal_sees_what_it_wrote(level: str, mariadb: MariaDbCluster) -> None:
    told: list[Exception] = []

    def check(play: Game) -> None:
        try:
            guard_sync(play.old, play.term)
        except StaleToken as stale:
            told.append(stale)

    with game(mariadb, f"isolation/during/{level}") as play, connected(mariadb.url) as sealing:
        guard_sync(sealing, SimpleNamespace(fence=play.fence, token=2))  # Raises the fence, and keeps it.
        play.begin(level)
        checking = Thread(target=check, args=(play,))
        checking.start()
        assert wait_for(play.waits, PATIENCE_S)
        sealing.commit()
        checking.join()
    assert [error.args for error in told] == [(1, 2)]


@pytest.mark.parametrize(
    ("story", "level"),
    [
        (snapshot_before_the_seal, "REPEATABLE READ"),
        (guard_before_the_seal, "READ COMMITTED"),
        (guard_before_the_seal, "REPEATABLE READ"),
    ],
)
def test_the_naive_guard_accepts_a_stale_write(story: Any, level: str, mariadb: MariaDbCluster) -> None:
    with game(mariadb, f"isolation/naive/{story.__name__}/{level}") as play:
        story(play, level, naive)
        assert play.sink.highest(play.fence) == 2
        assert play.stale_writes() == 1


@pytest.mark.parametrize("level", LEVELS)
def test_writers_of_one_tenure_do_not_wait_for_each_other(level: str, mariadb: MariaDbCluster) -> None:
    with game(mariadb, f"isolation/shared/{level}") as play, connected(mariadb.url) as other:
        play.begin(level)
        guard_sync(play.old, play.term)
        with other.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        guard_sync(other, play.term)
        play.sink.admit(play.fence, 1)  # Nor does a seal with the same token.
        assert not play.waits()
        other.rollback()
        play.old.rollback()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("steps", ["one step", "two steps"])
def test_a_bound_transaction_that_was_begun_before_the_seal_is_refused_in_place_of_its_commit(
    steps: str, level: str, mariadb: MariaDbCluster
) -> None:
    async def run(play: Game) -> None:
        sink = MySQLSink(mariadb.url)
        async with sink if steps == "one step" else as_mysql_does(sink) as old:
            await old.seal(play.fence, Token(1))
            with pytest.raises(StaleToken, match="highest seen is 2"):  # noqa: PT012
                async with old.transaction(play.term, level.lower()) as connection, connection.cursor() as cursor:
                    await cursor.execute("SELECT count(*) FROM written WHERE entry = 0")
                    await cursor.execute("INSERT INTO written (fence, token) VALUES (%s, 1)", (play.fence,))
                    await asyncio.to_thread(play.seal)  # It waits for nobody: nothing was checked yet.

    with game(mariadb, f"isolation/bound/{steps}/{level}") as play:
        asyncio.run(run(play))
        assert play.stale_writes() == 0
