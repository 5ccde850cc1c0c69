"""Installing triggers: on which tables, how often, what they outlive, and what is refused."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.errors import ConfigError
from tenure.sinks import fenced_tables, guard, install_triggers, present, remove_triggers

FENCE = "store/books"
ODD_NAMES = [
    "order",
    "two words",
    'a "quoted" name',
    "it's",
    "; DROP TABLE ledger; --",
    "[brackets]",
    "%_*?",
    "é😀",
    "BEFORE INSERT ON ledger",
    "x" * 500,
]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE ledger (value TEXT)")
        yield opened


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def insert(connection: sqlite3.Connection, table: str) -> None:
    connection.execute(f"INSERT INTO {quoted(table)} (value) VALUES ('x')")  # noqa: S608  (quoted)


def check_refused(connection: sqlite3.Connection, table: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
        insert(connection, table)


def lead(connection: sqlite3.Connection, fence: str = FENCE) -> SimpleNamespace:
    term = SimpleNamespace(token=7, fence=fence)
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term)
    connection.execute("COMMIT")
    return term


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_tables_and_fences_are_names(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {quoted(name)} (value TEXT)")
    install_triggers(connection, name, fence=name)
    check_refused(connection, name)
    lead(connection, name)
    insert(connection, name)
    install_triggers(connection, name, fence=name)
    assert fenced_tables(connection) == {name: name}
    remove_triggers(connection, name)
    assert fenced_tables(connection) == {}
    insert(connection, "ledger")


@pytest.mark.parametrize(
    "definition",
    [
        "(key TEXT PRIMARY KEY DEFAULT 'k', value TEXT) WITHOUT ROWID",
        "(value TEXT) STRICT",
        "(value TEXT, shout TEXT GENERATED ALWAYS AS (upper(value)) STORED)",
        "(entry INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT)",
    ],
)
def test_every_kind_of_ordinary_table_can_be_fenced(connection: sqlite3.Connection, definition: str) -> None:
    connection.execute(f"CREATE TABLE kind {definition}")
    insert(connection, "kind")
    install_triggers(connection, "kind", fence=FENCE)
    connection.execute("PRAGMA recursive_triggers = OFF")
    for sql in ("REPLACE INTO kind (value) VALUES ('y')", "UPDATE kind SET value = 'y'", "DELETE FROM kind"):
        with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
            connection.execute(sql)
    lead(connection)
    connection.execute("DELETE FROM kind")
    assert connection.execute("SELECT * FROM kind").fetchall() == []


def test_installing_again_changes_nothing(connection: sqlite3.Connection) -> None:
    install_triggers(connection, "ledger", fence=FENCE)
    before = schema_version(connection)
    install_triggers(connection, "LEDGER", fence=FENCE)
    assert schema_version(connection) == before
    assert fenced_tables(connection) == {"ledger": FENCE}


def test_another_fence_takes_the_place_of_the_first(connection: sqlite3.Connection) -> None:
    install_triggers(connection, "ledger", fence=FENCE)
    install_triggers(connection, "ledger", fence="store/other")
    assert fenced_tables(connection) == {"ledger": "store/other"}
    lead(connection, "store/other")
    insert(connection, "ledger")


def test_a_trigger_that_was_lost_is_noticed_and_put_back(connection: sqlite3.Connection) -> None:
    install_triggers(connection, "ledger", fence=FENCE)
    (name,) = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%DELETE%'").fetchone()
    connection.execute(f"DROP TRIGGER {quoted(name)}")
    assert fenced_tables(connection) == {}
    install_triggers(connection, "ledger", fence=FENCE)
    assert fenced_tables(connection) == {"ledger": FENCE}


def test_triggers_go_with_a_table_that_is_renamed_and_its_old_name_is_free(connection: sqlite3.Connection) -> None:
    install_triggers(connection, "ledger", fence=FENCE)
    connection.execute("ALTER TABLE ledger RENAME TO archive")
    check_refused(connection, "archive")
    connection.execute("CREATE TABLE ledger (value TEXT)")
    insert(connection, "ledger")
    install_triggers(connection, "ledger", fence=FENCE)
    check_refused(connection, "ledger")
    remove_triggers(connection, "ledger")
    assert fenced_tables(connection) == {"archive": FENCE}
    check_refused(connection, "archive")


def test_columns_can_be_changed_by_a_connection_that_presents_nothing(connection: sqlite3.Connection) -> None:
    install_triggers(connection, "ledger", fence=FENCE)
    connection.execute("ALTER TABLE ledger ADD COLUMN cents INTEGER DEFAULT 0")
    connection.execute("ALTER TABLE ledger RENAME COLUMN cents TO pence")
    connection.execute("ALTER TABLE ledger DROP COLUMN pence")
    connection.execute("VACUUM")
    check_refused(connection, "ledger")


def test_a_copy_of_the_database_is_fenced_as_the_original_is(connection: sqlite3.Connection) -> None:
    lead(connection)
    insert(connection, "ledger")
    install_triggers(connection, "ledger", fence=FENCE)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        copy.executescript("".join(connection.iterdump()))
        check_refused(copy, "ledger")
        present(copy, SimpleNamespace(token=7, fence=FENCE))
        insert(copy, "ledger")


def test_in_a_transaction_of_the_callers_it_is_part_of_that(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    install_triggers(connection, "ledger", fence=FENCE)
    assert connection.in_transaction
    check_refused(connection, "ledger")
    connection.execute("ROLLBACK")
    insert(connection, "ledger")
    assert fenced_tables(connection) == {}


def test_a_connection_that_begins_transactions_by_itself_is_left_outside_of_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("CREATE TABLE ledger (value TEXT)")
        install_triggers(connection, "ledger", fence=FENCE)
        assert not connection.in_transaction
        remove_triggers(connection, "ledger")
        assert not connection.in_transaction


def test_all_triggers_are_installed_or_none(connection: sqlite3.Connection) -> None:
    created: list[str | None] = []

    def refuse_the_third(action: int, name: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_CREATE_TRIGGER:
            created.append(name)
        return (
            sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_TRIGGER and len(created) == 3 else sqlite3.SQLITE_OK
        )

    connection.set_authorizer(refuse_the_third)
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        install_triggers(connection, "ledger", fence=FENCE)
    connection.set_authorizer(None)
    assert not connection.in_transaction
    assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall() == []


def test_a_temporary_table_of_the_same_name_is_left_alone(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TEMP TABLE ledger (value TEXT)")
    install_triggers(connection, "ledger", fence=FENCE)
    connection.execute("INSERT INTO temp.ledger (value) VALUES ('x')")
    with pytest.raises(sqlite3.IntegrityError, match="presented no token"):
        connection.execute("INSERT INTO main.ledger (value) VALUES ('x')")


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        ("shown", "must not be a view: install the triggers on the tables that it shows"),
        ("searched", "must not be a virtual table"),
        ("missing", "must be a table of the main database"),
        ("passing", "must be a table of the main database"),
        ("sqlite_sequence", "must be a table of the main database"),
        ("tenure_fence", "must be another than the one that the fences are kept in"),
        ("", "must have a name"),
        ("a\0b", "must have a name"),
    ],
)
def test_what_cannot_be_fenced_is_refused_with_the_reason(
    connection: sqlite3.Connection, table: str, rule: str
) -> None:
    connection.execute("CREATE VIEW shown AS SELECT value FROM ledger")
    connection.execute("CREATE VIRTUAL TABLE searched USING rtree (id, low, high)")
    connection.execute("CREATE TEMP TABLE passing (value TEXT)")
    connection.execute("CREATE TABLE counted (entry INTEGER PRIMARY KEY AUTOINCREMENT)")
    with pytest.raises(ConfigError, match=rule):
        install_triggers(connection, table, fence=FENCE)


@pytest.mark.parametrize("fence", ["", "a\0b"])
def test_a_fence_must_have_a_name(connection: sqlite3.Connection, fence: str) -> None:
    with pytest.raises(ConfigError, match=r"fence .* must have a name"):
        install_triggers(connection, "ledger", fence=fence)
