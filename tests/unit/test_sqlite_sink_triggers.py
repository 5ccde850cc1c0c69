"""Shape (c): a table with triggers refuses every form of SQL that comes without a valid token, and no other."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.errors import ConfigError, StaleToken
from tenure.sinks import SQLiteSink, guard, install_triggers, present, remove_triggers, withdraw

FENCE = "store/books"
Open = Callable[[], sqlite3.Connection]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def connect(path: Path) -> Iterator[Open]:
    opened = []

    def open_one() -> sqlite3.Connection:
        opened.append(sqlite3.connect(path, isolation_level=None))
        return opened[-1]

    first = open_one()
    first.execute("PRAGMA journal_mode = WAL")
    first.execute("CREATE TABLE ledger (entry INTEGER PRIMARY KEY, value TEXT UNIQUE, cents INTEGER DEFAULT 0)")
    first.execute("INSERT INTO ledger (value) VALUES ('one'), ('two')")
    install_triggers(first, "ledger", fence=FENCE)
    yield open_one
    for connection in opened:
        connection.close()


def term(token: int, fence: str = FENCE) -> SimpleNamespace:
    return SimpleNamespace(token=token, fence=fence)


def seal(connection: sqlite3.Connection, token: int, fence: str = FENCE) -> None:
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(token, fence))
    connection.execute("COMMIT")
    withdraw(connection)


def rows(connection: sqlite3.Connection, table: str = "ledger") -> list[tuple[object, ...]]:
    return connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  (our own names)


def everything(connection: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    return [rows(connection, table) for table in ("ledger", "posted", "accounts")]


# Every form of writing that SQLite has. Some have conflict clauses of their own, some delete or insert in passing.
WRITES = [
    "INSERT INTO ledger (value) VALUES ('x')",
    "INSERT INTO ledger DEFAULT VALUES",
    "INSERT INTO ledger (value) VALUES ('x') RETURNING entry",
    "INSERT INTO ledger (value) SELECT 'x'",
    "INSERT INTO ledger SELECT * FROM moved",
    "INSERT OR IGNORE INTO ledger (value) VALUES ('one')",
    "INSERT OR IGNORE INTO ledger (value) VALUES ('x')",
    "INSERT OR FAIL INTO ledger (value) VALUES ('x')",
    "INSERT OR ROLLBACK INTO ledger (value) VALUES ('x')",
    "INSERT OR REPLACE INTO ledger (entry, value) VALUES (1, 'two')",
    "REPLACE INTO ledger (entry, value) VALUES (1, 'x')",
    "INSERT INTO ledger (value) VALUES ('one') ON CONFLICT DO NOTHING",
    "INSERT INTO ledger (value) VALUES ('one') ON CONFLICT (value) DO UPDATE SET cents = 7",
    "UPDATE ledger SET cents = 7",
    "UPDATE ledger SET cents = cents WHERE entry = 1",
    "UPDATE ledger SET rowid = 9 WHERE entry = 1",
    "UPDATE OR IGNORE ledger SET value = 'two' WHERE entry = 1",
    "UPDATE OR REPLACE ledger SET value = 'two' WHERE entry = 1",
    "UPDATE ledger SET cents = copied.cents FROM copied WHERE copied.entry = ledger.entry",
    "DELETE FROM ledger",
    "DELETE FROM ledger WHERE entry = 1",
    "DELETE FROM ledger WHERE entry = 1 RETURNING value",
    "WITH first AS (SELECT 1 AS entry) DELETE FROM ledger WHERE entry IN (SELECT entry FROM first)",
    "INSERT INTO shown VALUES ('x')",
    "DELETE FROM accounts",
    "UPDATE accounts SET owner = owner + 1",
]


@pytest.fixture
def surrounded(connect: Open) -> sqlite3.Connection:
    """A connection that never heard of tenure, with tables from which writes to the ledger can come."""
    connection = connect()
    connection.execute("CREATE TABLE copied (entry INTEGER PRIMARY KEY, value TEXT UNIQUE, cents INTEGER DEFAULT 0)")
    connection.execute("INSERT INTO copied VALUES (1, 'copy', 7)")
    connection.execute("CREATE TABLE moved (entry INTEGER PRIMARY KEY, value TEXT UNIQUE, cents INTEGER DEFAULT 0)")
    connection.execute("INSERT INTO moved VALUES (8, 'moved', 7)")
    connection.execute("CREATE VIEW shown AS SELECT value FROM ledger")
    connection.execute(
        "CREATE TRIGGER through INSTEAD OF INSERT ON shown BEGIN INSERT INTO ledger (value) VALUES (NEW.value); END"
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("CREATE TABLE accounts (owner INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO accounts VALUES (1)")
    connection.execute(
        "CREATE TABLE posted (owner INTEGER REFERENCES accounts ON DELETE CASCADE ON UPDATE CASCADE, value TEXT)"
    )
    connection.execute("INSERT INTO posted VALUES (1, 'mine')")
    install_triggers(connection, "posted", fence=FENCE)
    return connection


@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("sql", WRITES)
def test_no_form_of_sql_writes_without_a_token(surrounded: sqlite3.Connection, sql: str, recursive: str) -> None:
    surrounded.execute(f"PRAGMA recursive_triggers = {recursive}")
    before = everything(surrounded)
    for highest in (0, 7):  # Before the first seal, and after it.
        if highest:
            seal(surrounded, highest)
        with pytest.raises(
            sqlite3.IntegrityError, match="this connection has presented no token for fence store/books"
        ):
            surrounded.execute(sql).fetchall()
        assert everything(surrounded) == before


@pytest.mark.parametrize("sql", WRITES)
def test_under_a_valid_token_every_form_of_sql_does_what_it_does_without_triggers(
    surrounded: sqlite3.Connection, sql: str
) -> None:
    seal(surrounded, 7)
    present(surrounded, term(7))
    surrounded.execute("BEGIN")
    surrounded.execute(sql).fetchall()
    fenced = everything(surrounded)
    surrounded.execute("ROLLBACK")
    remove_triggers(surrounded, "ledger")
    remove_triggers(surrounded, "posted")
    surrounded.execute(sql).fetchall()
    assert everything(surrounded) == fenced


@pytest.mark.parametrize("sql", WRITES)
def test_no_form_of_sql_writes_under_a_stale_token(surrounded: sqlite3.Connection, connect: Open, sql: str) -> None:
    seal(surrounded, 7)
    present(surrounded, term(7))
    seal(connect(), 8)
    before = everything(surrounded)
    with pytest.raises(sqlite3.IntegrityError, match="the token presented is stale for fence store/books"):
        surrounded.execute(sql).fetchall()
    assert everything(surrounded) == before


def test_a_token_that_was_never_sealed_is_refused(connect: Open) -> None:
    connection = connect()
    for _ in range(2):
        present(connection, term(8))
        with pytest.raises(sqlite3.IntegrityError, match="was never sealed for fence store/books"):
            connection.execute("DELETE FROM ledger")
        seal(connection, 7)


def test_a_token_for_another_fence_is_none(connect: Open) -> None:
    connection = connect()
    seal(connection, 7)
    seal(connection, 7, "store/other")
    present(connection, term(7, "store/other"))
    with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
        connection.execute("DELETE FROM ledger")


def test_a_token_is_presented_by_one_connection_only(connect: Open) -> None:
    leader, other = connect(), connect()
    seal(leader, 7)
    present(leader, term(7))
    leader.execute("BEGIN IMMEDIATE")
    leader.execute("INSERT INTO ledger (value) VALUES ('leader')")
    leader.execute("COMMIT")
    with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
        other.execute("INSERT INTO ledger (value) VALUES ('other')")


def test_a_statement_that_was_refused_works_once_the_token_is_presented(connect: Open) -> None:
    connection = connect()
    sql = "INSERT INTO ledger (value) VALUES ('same text, prepared before')"
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(sql)
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(7))
    connection.execute(sql)
    connection.execute("COMMIT")
    assert len(rows(connection)) == 3


def test_presenting_while_a_query_is_being_read_refuses_nothing_that_was_not_refused(connect: Open) -> None:
    connection = connect()
    seen: list[int] = []
    for entry, *_ in connection.execute("SELECT * FROM ledger WHERE entry < 3"):
        if not seen:
            connection.execute("BEGIN IMMEDIATE")
            guard(connection, term(7))
        connection.execute("UPDATE ledger SET cents = 7 WHERE entry = ?", (entry,))
        seen.append(entry)
    connection.execute("COMMIT")
    assert [row[2] for row in rows(connection)] == [7, 7]


def test_guard_and_the_sink_present_their_tokens_by_themselves(connect: Open, path: Path) -> None:
    connection = connect()
    with SQLiteSink(path) as sink, sink.transaction(term(7)) as inside:
        inside.execute("INSERT INTO ledger (value) VALUES ('sink')")
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(7))
    connection.execute("INSERT INTO ledger (value) VALUES ('guard')")
    connection.execute("COMMIT")
    assert [row[1] for row in rows(connection)] == ["one", "two", "sink", "guard"]


def test_a_sink_presents_nothing_outside_of_its_transactions(connect: Open, path: Path) -> None:
    assert rows(connect())
    with SQLiteSink(path) as sink:
        with sink.transaction(term(7)) as connection:
            pass
        with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
            connection.execute("DELETE FROM ledger")


def test_through_the_sink_a_triggers_refusal_is_a_stale_token(connect: Open, path: Path) -> None:
    first = connect()
    seal(first, 9, "store/other")
    first.execute("CREATE TABLE others (value TEXT)")
    install_triggers(first, "others", fence="store/other")

    def write_both(sink: SQLiteSink) -> None:
        with sink.transaction(term(7)) as connection:
            present(connection, term(8, "store/other"))
            connection.execute("INSERT INTO ledger (value) VALUES ('lost')")
            connection.execute("INSERT INTO others VALUES ('stale')")

    with SQLiteSink(path) as sink:
        with pytest.raises(StaleToken) as caught:
            write_both(sink)
        assert (caught.value.token, caught.value.highest) == (8, 9)
        assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
        assert len(rows(first)) == 2
        with sink.transaction(term(7)) as connection:  # The sink is free again.
            connection.execute("INSERT INTO ledger (value) VALUES ('kept')")
        assert (sink.refused.stale, sink.refused.unverified) == (1, 0)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the shell of SQLite is not installed")
@pytest.mark.parametrize("sql", ["DELETE FROM ledger", "REPLACE INTO ledger (entry, value) VALUES (1, 'x')"])
def test_the_shell_of_sqlite_is_refused(connect: Open, path: Path, sql: str) -> None:
    seal(connect(), 7)
    answer = subprocess.run(["sqlite3", str(path), sql], capture_output=True, text=True, check=False)  # noqa: S607
    assert answer.returncode != 0
    assert "this connection has presented no token for fence store/books" in answer.stderr
    assert len(rows(connect())) == 2


def test_another_process_is_refused(connect: Open, path: Path) -> None:
    leader = connect()
    seal(leader, 7)
    present(leader, term(7))
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], isolation_level=None).execute('DELETE FROM ledger')"
    answer = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert "IntegrityError: tenure: this connection has presented no token" in answer.stderr
    assert len(rows(leader)) == 2


def test_where_the_schema_is_not_trusted_presenting_says_so(connect: Open) -> None:
    connection = connect()
    seal(connection, 7)
    connection.execute("PRAGMA trusted_schema = OFF")
    with pytest.raises(ConfigError, match="trusted_schema = OFF: must be ON"):
        present(connection, term(7))
    with pytest.raises(sqlite3.DatabaseError):
        connection.execute("DELETE FROM ledger")


def test_the_date_functions_of_a_connection_that_presents_are_what_they_were(connect: Open) -> None:
    connection = connect()
    query = "SELECT date('2030-01-31', '+1 day'), date('2030-01-31', '+1 day', '+1 day', '+1 day'), date(NULL)"
    before = connection.execute(query).fetchone()
    present(connection, term(7))
    assert connection.execute(query).fetchone() == before == ("2030-02-01", "2030-02-03", None)
