"""Shape (a): transactions that are bound to a tenure, and the one connection that all threads of a sink share."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, Unreachable
from tenure.model import Token
from tenure.sinks import SQLiteSink, guard
from tenure.sinks.sqlite import sink as sink_module
from tenure.sinks.sqlite.line import Line
from tenure.sinks.sqlite.row import RAISE

FENCE = "store/books"
INSERT = "INSERT INTO ledger (value) VALUES (?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE ledger (entry INTEGER PRIMARY KEY, value TEXT UNIQUE)")
    return tmp_path / "ledger.db"


@pytest.fixture
def sink(path: Path) -> Iterator[SQLiteSink]:
    with SQLiteSink(path) as opened:
        yield opened


def term(token: int, fence: str = FENCE) -> SimpleNamespace:
    return SimpleNamespace(token=token, fence=fence)


def values(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM ledger ORDER BY entry")]


def write(sink: SQLiteSink, token: int, value: str) -> None:
    with sink.transaction(term(token)) as connection:
        connection.execute(INSERT, (value,))


def test_a_block_that_ends_is_committed_and_one_that_raises_is_not(sink: SQLiteSink, path: Path) -> None:
    write(sink, 1, "kept")
    with pytest.raises(sqlite3.OperationalError), sink.transaction(term(2)) as connection:
        connection.execute(INSERT, ("lost",)).execute("nonsense")
    assert values(path) == ["kept"]
    write(sink, 1, "again")  # The fence was not raised to 2 either.
    assert values(path) == ["kept", "again"]


def test_a_stale_block_never_begins(sink: SQLiteSink, path: Path) -> None:
    write(sink, 2, "new")
    entered = []
    with pytest.raises(StaleToken) as caught, sink.transaction(term(1)):
        entered.append(True)
    assert (caught.value.token, caught.value.highest, entered) == (1, 2, [])
    assert values(path) == ["new"]


def test_a_bound_sink_may_be_used_again_until_it_is_stale(sink: SQLiteSink, path: Path) -> None:
    old = sink.bind(term(1))
    for value in ("one", "two"):
        with old as connection:
            connection.execute(INSERT, (value,))
    write(sink, 2, "new")
    with pytest.raises(StaleToken), old:
        pass
    assert values(path) == ["one", "two", "new"]


def test_the_transaction_has_the_write_lock_from_its_beginning(sink: SQLiteSink, path: Path) -> None:
    write(sink, 1, "seal")
    rival = sqlite3.connect(path, isolation_level=None, timeout=0)
    with sink.transaction(term(1)), closing(rival), pytest.raises(sqlite3.OperationalError, match="locked"):
        rival.execute("BEGIN IMMEDIATE")


def test_an_error_of_the_database_reaches_the_caller_as_it_is(sink: SQLiteSink, path: Path) -> None:
    write(sink, 1, "same")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        write(sink, 1, "same")
    assert values(path) == ["same"]


ENDINGS: list[Callable[[sqlite3.Connection], object]] = [
    sqlite3.Connection.commit,
    sqlite3.Connection.rollback,
    lambda connection: connection.execute("COMMIT"),
    lambda connection: connection.execute("END TRANSACTION"),
    lambda connection: connection.execute("ROLLBACK"),
    lambda connection: connection.cursor().execute("commit"),
    lambda connection: connection.executescript("INSERT INTO ledger (value) VALUES ('script')"),
    lambda connection: connection.__exit__(None, None, None),
]


@pytest.mark.parametrize("end", ENDINGS)
def test_the_caller_cannot_end_the_transaction_and_so_write_unfenced(
    sink: SQLiteSink, path: Path, end: Callable[[sqlite3.Connection], object]
) -> None:
    write(sink, 1, "first")  # The sink's own COMMIT is prepared and kept by now.

    def end_inside() -> None:
        with sink.transaction(term(1)) as connection:
            connection.execute(INSERT, ("lost",))
            end(connection)

    with pytest.raises(ConfigError, match="COMMIT or ROLLBACK: must not be used inside"):
        end_inside()
    assert values(path) == ["first"]
    write(sink, 1, "second")
    assert values(path) == ["first", "second"]


def test_a_transaction_that_sqlite_rolled_back_by_itself_is_not_taken_for_committed(
    sink: SQLiteSink, path: Path
) -> None:
    write(sink, 1, "same")
    with (
        pytest.raises(ConfigError, match="ended inside"),
        sink.transaction(term(1)) as connection,
        pytest.raises(sqlite3.IntegrityError),
    ):
        connection.execute("INSERT OR ROLLBACK INTO ledger (value) VALUES ('same')")
    write(sink, 1, "next")
    assert values(path) == ["same", "next"]


def test_savepoints_are_the_callers_own(sink: SQLiteSink, path: Path) -> None:
    with sink.transaction(term(1)) as connection:
        connection.execute("SAVEPOINT half")
        connection.execute(INSERT, ("lost",))
        connection.execute("ROLLBACK TO half")
        connection.execute("RELEASE half")
        connection.execute(INSERT, ("kept",))
    assert values(path) == ["kept"]


def test_two_tenures_can_share_one_transaction_and_neither_may_be_stale(sink: SQLiteSink, path: Path) -> None:
    with sink.transaction(term(5, "store/other")):
        pass
    with sink.transaction(term(1)) as connection:
        guard(connection, term(5, "store/other"))
        connection.execute(INSERT, ("both",))

    def stale_in_one() -> None:
        with sink.transaction(term(1)) as connection:
            connection.execute(INSERT, ("lost",))
            guard(connection, term(4, "store/other"))

    with pytest.raises(StaleToken) as caught:
        stale_in_one()
    assert (caught.value.token, caught.value.highest) == (4, 5)
    assert values(path) == ["both"]


def test_a_second_transaction_in_the_same_thread_is_an_error_at_once(sink: SQLiteSink, path: Path) -> None:
    with sink.transaction(term(1)) as connection:
        with pytest.raises(ConfigError, match="must wait until this thread has ended the one it is in"):
            write(sink, 1, "second")
        connection.execute(INSERT, ("first",))
    assert values(path) == ["first"]


def test_many_threads_share_a_sink(sink: SQLiteSink, path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: write(sink, 1, str(number)), range(100)))
    assert sorted(map(int, values(path))) == list(range(100))


def test_a_thread_that_waits_too_long_is_told_that_nothing_was_sent(path: Path) -> None:
    connect = partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False)
    shared = Line(connect, "sqlite sink", wait_s=0.01)
    shared.begin(FENCE, 1, RAISE)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(shared.begin, FENCE, 1, RAISE)
        with pytest.raises(Unreachable, match="begin was not sent: another thread has kept its transaction open"):
            waiting.result()
    shared.commit()
    shared.close()


def test_an_async_body_writes_in_a_worker_thread(sink: SQLiteSink, path: Path) -> None:
    def work(connection: sqlite3.Connection) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return connection.execute(INSERT, ("one",)).rowcount

    assert anyio.run(sink.run, term(1), work) == 1
    assert anyio.run(sink.bind(term(1)).run, lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)
    assert values(path) == ["one"]


def test_a_cancelled_write_is_done_or_not_when_the_cancellation_is_over(sink: SQLiteSink, path: Path) -> None:
    async def main() -> None:
        begun = anyio.Event()
        may_go_on = threading.Event()

        def work(connection: sqlite3.Connection) -> None:
            anyio.from_thread.run_sync(begun.set)
            may_go_on.wait()
            connection.execute(INSERT, ("whole",))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sink.run, term(1), work)
            await begun.wait()
            tasks.cancel_scope.cancel()
            may_go_on.set()
        assert values(path) == ["whole"]

    anyio.run(main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_seal_does_not_wait_for_the_lock(sink: SQLiteSink, path: Path, backend: str) -> None:
    async def main() -> None:
        with anyio.move_on_after(0.05) as scope:
            await sink.seal(FENCE, Token(2))
        assert scope.cancelled_caught  # Otherwise it has waited for this very thread, until it gave up.

    with sink.transaction(term(1)) as connection:
        anyio.run(main, backend=backend)
        connection.execute(INSERT, ("one",))
    anyio.run(sink.seal, FENCE, Token(2))
    assert values(path) == ["one"]


@pytest.mark.parametrize("database", ["", ":memory:"])
def test_a_database_in_memory_is_refused(database: str) -> None:
    with pytest.raises(ConfigError, match="must be a file"):
        SQLiteSink(database)


def test_a_connection_that_begins_transactions_by_itself_is_refused(path: Path) -> None:
    sink = SQLiteSink(partial(sqlite3.connect, path, check_same_thread=False))
    with sink, pytest.raises(ConfigError, match="isolation_level = '': must be None"):
        write(sink, 1, "x")


def test_a_connection_that_belongs_to_one_thread_is_refused_in_another(path: Path) -> None:
    sink = SQLiteSink(partial(sqlite3.connect, path, isolation_level=None))
    write(sink, 1, "one")
    with pytest.raises(ConfigError, match="check_same_thread = True: must be False"):
        anyio.run(sink.seal, FENCE, Token(2))
    write(sink, 1, "two")
    sink.close()
    assert values(path) == ["one", "two"]


def test_settings_of_your_own_are_kept(path: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        return connection

    with SQLiteSink(connect) as sink:
        with sink.transaction(term(2)) as connection:
            assert connection.execute("SELECT 1 AS one").fetchone()["one"] == 1
        with pytest.raises(StaleToken) as caught:
            write(sink, 1, "x")
        assert caught.value.highest == 2


def test_a_closed_sink_says_so_and_closing_twice_is_nothing(path: Path) -> None:
    sink = SQLiteSink(path)
    write(sink, 1, "one")
    sink.close()
    sink.close()
    with pytest.raises(ConfigError, match="must not be used after it was closed"):
        write(sink, 1, "two")
    assert str(path) in repr(sink)


def test_closing_lets_the_transaction_under_way_end(path: Path) -> None:
    sink = SQLiteSink(path)
    with sink.transaction(term(1)) as connection:
        sink.close()
        connection.execute(INSERT, ("one",))
    assert values(path) == ["one"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_seal_that_finds_the_file_locked_was_not_sent(path: Path) -> None:
    connect = partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False, timeout=0)
    with SQLiteSink(connect) as sink, closing(connect()) as rival:
        write(sink, 1, "one")
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unreachable, match="sqlite sink: seal was not sent: database is locked"):
            anyio.run(sink.seal, FENCE, Token(2))


def test_a_seal_of_a_file_that_cannot_be_opened_was_not_sent(tmp_path: Path) -> None:
    with SQLiteSink(tmp_path / "missing" / "ledger.db") as sink, pytest.raises(Unreachable, match="unable to open"):
        anyio.run(sink.seal, FENCE, Token(1))


def test_a_seal_of_what_is_no_database_is_refused_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, " * 100)
    with SQLiteSink(file) as sink, pytest.raises(Refused, match="file is not a database"):
        anyio.run(sink.seal, FENCE, Token(1))
    assert file.read_text() == "not a database, " * 100


def test_a_seal_whose_disk_fails_has_no_known_outcome() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert isinstance(sink_module.store_error("sqlite sink", error), OutcomeUnknown)
