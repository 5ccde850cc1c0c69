"""Shape (b): ``guard`` within the caller's own transaction, in every state that a connection can be in."""

import gc
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.sinks import guard
from tenure.sinks.sqlite import presence

Open = Callable[..., sqlite3.Connection]


@pytest.fixture
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened = []

    def open_one(isolation_level: Literal["DEFERRED", "IMMEDIATE"] | None = None) -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=isolation_level, timeout=0)
        opened.append(connection)
        return connection

    first = open_one()
    first.execute(f"PRAGMA journal_mode = {getattr(request, 'param', 'WAL')}")
    first.execute("CREATE TABLE ledger (entry INTEGER PRIMARY KEY, value TEXT)")
    yield open_one
    for connection in opened:
        connection.close()


def term(token: int, fence: str = "store/books") -> SimpleNamespace:
    return SimpleNamespace(token=token, fence=fence)


def write(connection: sqlite3.Connection, value: str) -> None:
    connection.execute("INSERT INTO ledger (value) VALUES (?)", (value,))


def values(connection: sqlite3.Connection) -> list[str]:
    return [value for (value,) in connection.execute("SELECT value FROM ledger ORDER BY entry")]


def fences(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT fence, highest FROM tenure_fence").fetchall())


def seal(connection: sqlite3.Connection, token: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(token))
    connection.execute("COMMIT")


def test_check_and_write_are_committed_together(connect: Open) -> None:
    connection, other = connect(), connect()
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(7))
    write(connection, "seven")
    assert values(other) == []
    connection.execute("COMMIT")
    assert (values(other), fences(other)) == (["seven"], {"store/books": 7})


@pytest.mark.parametrize("nonsense", ["7", 7.0, 7.5, True, None])
def test_what_only_compares_as_a_token_writes_nothing(nonsense: Any, connect: Open) -> None:
    connection = connect()
    for known in (1, 7):
        seal(connection, known)
        connection.execute("BEGIN IMMEDIATE")
        write(connection, "nonsense")
        with pytest.raises(ConfigError, match=r"token = .*: must be an integer"):
            guard(connection, term(nonsense))
        assert not connection.in_transaction
        assert (values(connection), fences(connection)) == ([], {"store/books": known})


def test_check_and_write_are_rolled_back_together(connect: Open) -> None:
    connection, other = connect(), connect()
    seal(connection, 7)
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(8))
    write(connection, "eight")
    connection.execute("ROLLBACK")
    assert (values(other), fences(other)) == ([], {"store/books": 7})


def test_a_stale_guard_takes_back_what_was_written_before_it(connect: Open) -> None:
    connection = connect()
    seal(connection, 7)
    connection.execute("BEGIN IMMEDIATE")
    write(connection, "too early")
    with pytest.raises(StaleToken) as caught:
        guard(connection, term(6))
    assert (caught.value.token, caught.value.highest) == (6, 7)
    assert not connection.in_transaction
    assert values(connection) == []


def test_without_a_transaction_on_a_manual_connection_it_refuses_to_check_for_nothing(connect: Open) -> None:
    connection = connect(None)
    with pytest.raises(ConfigError, match="none is open: must be open before guard: execute BEGIN IMMEDIATE"):
        guard(connection, term(1))
    assert not connection.in_transaction


@pytest.mark.parametrize("isolation_level", ["DEFERRED", "IMMEDIATE"])
def test_where_python_begins_transactions_guard_begins_one_with_the_lock(connect: Open, isolation_level: str) -> None:
    connection, rival = connect(isolation_level), connect()
    for token in (7, 7):  # The second changes nothing, and takes the lock all the same.
        guard(connection, term(token))
        assert connection.in_transaction
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            rival.execute("BEGIN IMMEDIATE")
        write(connection, "seven")
        connection.commit()
    assert values(rival) == ["seven", "seven"]


def test_in_a_transaction_that_has_only_read_guard_takes_the_write_lock(connect: Open) -> None:
    connection, rival = connect(), connect()
    seal(connection, 7)
    connection.execute("BEGIN")
    assert values(connection) == []
    guard(connection, term(7))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        rival.execute("BEGIN IMMEDIATE")
    write(connection, "seven")
    connection.execute("COMMIT")
    assert values(rival) == ["seven"]


@pytest.mark.parametrize("token", [7, 8, 9])
def test_a_snapshot_from_before_the_seal_cannot_pass_the_guard(connect: Open, token: int) -> None:
    leader, successor = connect(), connect()
    seal(leader, 7)
    leader.execute("BEGIN")
    assert fences(leader) == {"store/books": 7}  # The snapshot is taken here, and would still say 7 below.
    seal(successor, 9)
    assert fences(leader) == {"store/books": 7}
    with pytest.raises(sqlite3.OperationalError) as caught:
        guard(leader, term(token))
    assert caught.value.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"
    assert "begin it with BEGIN IMMEDIATE" in caught.value.__notes__[0]
    assert not leader.in_transaction
    assert fences(leader) == {"store/books": 9}


def test_a_snapshot_from_before_the_table_of_fences_cannot_pass_the_guard(connect: Open) -> None:
    leader, successor = connect(), connect()
    leader.execute("BEGIN")
    assert values(leader) == []
    seal(successor, 9)
    with pytest.raises(sqlite3.OperationalError) as caught:
        guard(leader, term(7))
    assert caught.value.__notes__
    with pytest.raises(StaleToken):
        seal(leader, 7)


@pytest.mark.parametrize("connect", ["DELETE"], indirect=True)
def test_without_wal_a_reader_cannot_be_overtaken(connect: Open) -> None:
    leader, successor = connect(), connect()
    seal(leader, 7)
    leader.execute("BEGIN")
    assert values(leader) == []
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        seal(successor, 9)  # Here the reader keeps the writer out, instead of growing old.
    successor.execute("ROLLBACK")
    guard(leader, term(7))
    write(leader, "seven")
    leader.execute("COMMIT")
    seal(successor, 9)
    assert values(successor) == ["seven"]


def test_a_token_that_was_sealed_before_writes_nothing_to_the_log(connect: Open, tmp_path: Path) -> None:
    connection = connect()
    seal(connection, 7)
    before = (tmp_path / "ledger.db-wal").stat().st_size
    seal(connection, 7)
    assert (tmp_path / "ledger.db-wal").stat().st_size == before
    seal(connection, 8)
    assert (tmp_path / "ledger.db-wal").stat().st_size > before


def test_only_sealed_tokens_pass_where_that_is_asked_for(connect: Open) -> None:
    connection = connect()
    for highest, token in ((0, 7), (7, 8)):
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnverifiedToken) as caught:
            guard(connection, term(token), sealed_only=True)
        assert (caught.value.token, caught.value.highest) == (token, highest)
        seal(connection, 7)
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(7), sealed_only=True)
    connection.execute("COMMIT")
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StaleToken):
        guard(connection, term(6), sealed_only=True)
    assert fences(connection) == {"store/books": 7}


@pytest.mark.parametrize("token", [0, -1, 2**63, 2**200, "7", 7.5, None])
@pytest.mark.parametrize("highest", [0, 5])
def test_what_is_no_token_changes_nothing(connect: Open, token: Any, highest: int) -> None:
    connection = connect()
    if highest:
        seal(connection, highest)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConfigError, match="token"):
        guard(connection, term(token))
    assert not connection.in_transaction
    connection.execute("BEGIN IMMEDIATE")
    guard(connection, term(highest or 1))
    assert fences(connection) == {"store/books": highest or 1}


@pytest.mark.parametrize("fence", ["", "a\0b"])
def test_a_fence_must_have_a_name(connect: Open, fence: str) -> None:
    connection = connect()
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConfigError, match="must have a name"):
        guard(connection, term(7, fence))


def test_rows_of_another_shape_and_a_temporary_table_of_the_same_name_do_not_matter(connect: Open) -> None:
    connection = connect()
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    connection.execute("CREATE TEMP TABLE tenure_fence (fence TEXT, highest INTEGER)")
    seal(connection, 7)
    with pytest.raises(StaleToken) as caught:
        seal(connection, 6)
    assert caught.value.highest == 7


def test_a_full_savepoint_transaction_is_rolled_back_as_a_whole(connect: Open) -> None:
    connection = connect()
    seal(connection, 7)
    connection.execute("SAVEPOINT outer")
    write(connection, "lost")
    with pytest.raises(StaleToken):
        guard(connection, term(6))
    assert not connection.in_transaction
    assert values(connection) == []


def test_a_connection_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    gc.collect()
    before = len(presence._PRESENCES)
    for number in range(3):
        connection = sqlite3.connect(tmp_path / f"{number}.db")
        guard(connection, term(7))
        assert len(presence._PRESENCES) == before + 1
        connection.close()
        del connection
        assert len(presence._PRESENCES) == before
