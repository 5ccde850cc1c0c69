"""A trigger locks before it reads: no stale write is committed, whichever way a statement and a seal overlap.

Two connections each: the old leader's transaction, and its successor's seal. A trigger that does not lock, and one that reads before it has
the lock, accept what is refused here: those are the controls.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import psycopg
import pytest

from tenure.sinks.postgresql import PsycopgSink
from tenure.sinks.postgresql.schema import LOCK_SEED
from tenure.testing.engines import PostgresCluster
from tenure.testing.engines.processes import wait_for

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
PATIENCE_S = 60
_LOCK = f"pg_advisory_xact_lock_shared(hashtextextended(TG_ARGV[0], {LOCK_SEED}))"
_READ = "SELECT highest INTO found_highest FROM tenure_fence.fences WHERE fence = TG_ARGV[0]"
_JUDGE = "IF found_highest <> 1 THEN RAISE EXCEPTION 'stale'; END IF"
NO_LOCK = f"{_READ}; {_JUDGE}"
LOCK_LAST = f"{_READ}; PERFORM {_LOCK}; {_JUDGE}"
# Which looks like the right order. But what a statement sees is decided before its first function is called.
LOCK_IN_THE_READ = f"{_READ} AND {_LOCK} IS NOT NULL; {_JUDGE}"


class Game:
    """A fence that stands at 1, a table with its triggers, the old leader's connection, and its successor's."""

    def __init__(self, cluster: PostgresCluster, old: Any, new: Any, sink: PsycopgSink, fence: str) -> None:
        self.cluster, self.old, self.new, self.sink, self.fence = cluster, old, new, sink, fence
        self.told: list[str] = []

    def begin(self, level: str) -> None:
        self.old.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        self.old.execute("SELECT tenure_fence.present(%s, 1)", (self.fence,))

    def write(self) -> None:
        try:
            self.old.execute("INSERT INTO in_order VALUES (1)")
        except psycopg.Error as error:
            self.told.append(error.sqlstate or "")

    def waits(self) -> bool:
        return self.cluster.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != "0"

    def stale_writes(self) -> int:
        return int(self.cluster.sql("SELECT count(*) FROM in_order"))


@contextmanager
def game(cluster: PostgresCluster, fence: str, naive: str = "") -> Iterator[Game]:
    cluster.sql("DROP TABLE IF EXISTS in_order; CREATE TABLE in_order (token int)")
    with (
        PsycopgSink(cluster.url, wait_s=PATIENCE_S) as sink,
        psycopg.connect(cluster.url, autocommit=True) as old,
        psycopg.connect(cluster.url, autocommit=True) as new,
    ):
        sink.install_triggers("in_order", fence=fence)
        sink.admit(fence, 1)
        if naive:
            name = cluster.sql("SELECT tgfoid::regprocedure FROM pg_trigger WHERE tgrelid = 'in_order'::regclass")
            body = f"DECLARE found_highest bigint; BEGIN {naive}; RETURN NULL; END"
            cluster.sql(f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        yield Game(cluster, old, new, sink, fence)


def written_before_the_seal(play: Game, level: str) -> bool:
    """Return whether the seal came back before the old leader committed."""
    play.begin(level)
    play.write()
    sealing = Thread(target=play.sink.admit, args=(play.fence, 2))
    sealing.start()
    assert wait_for(lambda: not sealing.is_alive() or play.waits(), PATIENCE_S)
    overtaken = not sealing.is_alive()
    play.old.execute("COMMIT")
    sealing.join()
    return overtaken


def written_during_the_seal(play: Game, level: str) -> None:
    play.new.execute("BEGIN")
    play.new.execute("SELECT tenure_fence.admit(%s, 2)", (play.fence,))  # It is raised, and nobody else sees it yet.
    play.begin(level)
    writing = Thread(target=play.write)
    writing.start()
    assert wait_for(lambda: not writing.is_alive() or play.waits(), PATIENCE_S)
    play.new.execute("COMMIT")
    writing.join()
    play.old.execute("COMMIT")


@pytest.mark.parametrize("level", LEVELS)
def test_a_seal_waits_for_a_transaction_that_a_trigger_has_let_write(level: str, postgresql: PostgresCluster) -> None:
    with game(postgresql, f"order/before/{level}") as play:
        assert not written_before_the_seal(play, level)
        assert play.told == []
        assert play.stale_writes() == 1  # It landed before the seal returned, which is its right.


@pytest.mark.parametrize("level", LEVELS)
def test_a_trigger_that_waits_for_a_seal_sees_what_it_wrote(level: str, postgresql: PostgresCluster) -> None:
    with game(postgresql, f"order/during/{level}") as play:
        written_during_the_seal(play, level)
        assert play.told == ["TN001" if level == "READ COMMITTED" else "40001"]
        assert play.stale_writes() == 0


def test_a_seal_overtakes_a_trigger_that_does_not_lock(postgresql: PostgresCluster) -> None:
    with game(postgresql, "order/naive", NO_LOCK) as play:
        assert written_before_the_seal(play, "READ COMMITTED")
        assert play.stale_writes() == 1


@pytest.mark.parametrize(("order", "naive"), [("last", LOCK_LAST), ("inside", LOCK_IN_THE_READ)])
def test_a_trigger_that_reads_before_it_has_the_lock_accepts_a_stale_write(
    order: str, naive: str, postgresql: PostgresCluster
) -> None:
    with game(postgresql, f"order/naive/{order}", naive) as play:
        written_during_the_seal(play, "READ COMMITTED")
        assert play.sink.highest(play.fence) == 2
        assert play.stale_writes() == 1
