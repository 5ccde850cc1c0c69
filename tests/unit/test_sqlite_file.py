"""The file: made whole or not at all, known again, and left as it is if it is somebody else's."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.stores.sqlite.file import APPLICATION_ID, SCHEMA_VERSION, _make, connect, log_of, prepare

MEMBERS = ("", "-wal")  # The shared memory beside them is nobody's data.


def make(path: Path) -> str:
    connection, identity = prepare(path)
    connection.close()
    return identity


def contents(path: Path) -> dict[str, bytes]:
    """What the database consists of. Not to be called while this process has it open: see ``host``, rule 3."""
    files = {member: path.with_name(path.name + member) for member in MEMBERS}
    return {member: file.read_bytes() for member, file in files.items() if file.exists()}


def refusal(path: Path) -> str:
    """How ``prepare`` refuses the file, which must be byte for byte the same afterwards."""
    before = contents(path)
    with pytest.raises(ConfigError) as refused:
        prepare(path)
    assert contents(path)[""] == before[""]
    assert contents(path).get("-wal", b"") == before.get("-wal", b"")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_new_file_gets_an_identity_that_it_keeps(tmp_path: Path) -> None:
    identity = make(tmp_path / "x.db")
    assert len(identity) == 32
    assert make(tmp_path / "x.db") == identity
    assert make(tmp_path / "y.db") != identity


def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    assert make(tmp_path / "x.db")


def test_a_database_that_died_before_its_first_transaction_is_made_whole(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert (tmp_path / "x.db").stat().st_size
    assert make(tmp_path / "x.db")


def test_a_database_that_lies_in_its_log_only_is_known_again(tmp_path: Path) -> None:
    # A process that is killed leaves the log behind, and the file itself may still be empty.
    path = tmp_path / "x.db"
    program = "import os, sys, pathlib; from tenure.stores.sqlite.file import prepare; "
    program += "connection, identity = prepare(pathlib.Path(sys.argv[1])); print(identity, flush=True); os._exit(1)"
    died = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert log_of(path).stat().st_size
    assert make(path) == died.stdout.strip()


@pytest.mark.parametrize("junk", [b"x", b"not a database\n" * 999, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left(junk: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(junk)
    assert "cannot be read as a database (file is not a database)" in refusal(tmp_path / "x.db")
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("mark", ["CREATE TABLE t (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"])
def test_a_database_of_another_application_is_refused_and_left(mark: str, mode: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(mark)
    assert "is a database of another application" in refusal(tmp_path / "x.db")
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"]


def test_a_database_of_another_application_that_lies_in_its_log_only_is_refused_and_left(tmp_path: Path) -> None:
    program = "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1], isolation_level=None); "
    program += "connection.execute('PRAGMA journal_mode = WAL'); connection.execute('CREATE TABLE t (x)'); os._exit(0)"
    subprocess.run([sys.executable, "-c", program, tmp_path / "x.db"], check=True)
    assert "is a database of another application" in refusal(tmp_path / "x.db")


def test_a_database_of_a_newer_tenure_is_refused_and_left(tmp_path: Path) -> None:
    make(tmp_path / "x.db")
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert f"newer tenure (version {SCHEMA_VERSION + 1}, this one knows {SCHEMA_VERSION})" in refusal(tmp_path / "x.db")


def test_a_database_of_an_older_tenure_is_refused_with_the_way_out_and_left(tmp_path: Path) -> None:
    make(tmp_path / "x.db")
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        connection.execute("ALTER TABLE office DROP COLUMN advertised")
    told = refusal(tmp_path / "x.db")
    assert f"older tenure (version {SCHEMA_VERSION - 1}, this one knows {SCHEMA_VERSION})" in told
    assert "move it away" in told
    # The same if an older tenure was quicker to make a new file.
    with closing(connect(tmp_path / "x.db")) as connection, pytest.raises(ConfigError, match="older tenure"):
        _make(connection, tmp_path / "x.db")


@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_file_is_refused_and_left(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    make(path)
    with closing(connect(path)) as connection:
        rows = [(number, f"election {number}") for number in range(500)]
        connection.executemany("INSERT INTO office VALUES (?, ?, 'h', 1, 'n', 1, 0, 0, 'b', 't', NULL, '')", rows)
    damaged = bytearray(path.read_bytes())
    # Whole pages, as disks lose them: what a scattered bit does is not always to be seen.
    page = random.Random(seed).randrange(2, len(damaged) // 4096) * 4096
    damaged[page : page + 4096] = random.Random(seed).randbytes(4096)
    path.write_bytes(damaged)
    assert "cannot be read as a database" in refusal(path)


def test_looking_at_a_file_drops_no_lock_of_this_process(tmp_path: Path) -> None:
    # POSIX gives a file's locks up when the process closes any descriptor of it.
    def locks() -> int:
        number = str((tmp_path / "x.db").stat().st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
        return sum(f":{number} " in line and f" {os.getpid()} " in line for line in lines)

    connection, _ = prepare(tmp_path / "x.db")
    held = locks()
    assert held
    again, _ = prepare(tmp_path / "x.db")
    assert locks() == held
    again.close()
    assert locks() == held
    connection.close()


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    make(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big") == b"TENU"
