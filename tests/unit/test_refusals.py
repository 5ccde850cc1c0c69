"""What is refused is counted once, where it was refused, whoever asks at the same time."""

import sqlite3
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from tenure.errors import StaleToken, TenureError, Unreachable, UnverifiedToken
from tenure.sinks import Refusals, SQLiteSink


@pytest.mark.parametrize(
    ("error", "stale", "unverified"),
    [(StaleToken(1, 2), 1, 0), (UnverifiedToken(2, 1), 0, 1), (Unreachable("x", "write"), 0, 0)],
    ids=["stale", "unverified", "another"],
)
def test_a_refusal_is_counted_by_its_reason_and_passes_through(error: TenureError, stale: int, unverified: int) -> None:
    refused = Refusals("Sink")
    with pytest.raises(type(error)) as caught, refused.counting():
        raise error
    assert caught.value is error
    assert (refused.stale, refused.unverified) == (stale, unverified)
    with refused.counting():
        pass
    assert repr(refused) == f"<refused: {stale} stale, {unverified} unverified>"


def test_no_refusal_is_lost_where_two_threads_are_refused_at_once() -> None:
    refused = Refusals("Sink")
    counted = Event()

    def count() -> None:
        refused.counted(StaleToken(1, 2))
        counted.set()

    other = Thread(target=count)

    class Interrupted(int):
        """A number that takes its time to be added to, so that another thread can come between."""

        def __add__(self, more: int) -> int:
            other.start()
            counted.wait(0.2)  # In vain, if counting is one step.
            return int(self) + more

    refused.stale = Interrupted()
    refused.counted(StaleToken(1, 2))
    other.join()
    assert refused.stale == 2


def test_a_refusal_that_comes_out_of_a_block_is_counted_by_the_sink_that_refused_alone(tmp_path: Path) -> None:
    old, new = (SimpleNamespace(fence="store/books", token=token) for token in (1, 2))

    def write_to_both(first: SQLiteSink, second: SQLiteSink) -> None:
        with first.transaction(old) as connection:
            connection.execute("CREATE TABLE books (entry TEXT)")
            with second.transaction(old):
                pass

    with SQLiteSink(tmp_path / "first.db") as first, SQLiteSink(tmp_path / "second.db") as second:
        with second.transaction(new):
            pass
        with pytest.raises(StaleToken):
            write_to_both(first, second)
        assert (first.refused.stale, second.refused.stale) == (0, 1)
        with first.transaction(old) as connection, pytest.raises(sqlite3.OperationalError, match="no such table"):
            connection.execute("SELECT * FROM books")
