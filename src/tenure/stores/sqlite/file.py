"""The database file: what it must be, how it is made, and how a connection to it is set up.

Rules of this file
1. A file that is not ours is left byte for byte as it was. It is looked at through a connection that cannot write, and
   only then opened by one that can.
2. Making a database is one transaction: after a crash there is a whole one or an empty one.
3. Everything here runs on a thread that may block, never on an event loop.
"""

import random
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from tenure.errors import ConfigError

T = TypeVar("T")

APPLICATION_ID = 0x54454E55  # "TENU": what file(1) and we know our databases by.
SCHEMA_VERSION = 2
_SQLITE_MIN = (3, 24, 0)  # INSERT … ON CONFLICT DO UPDATE
_PAGE_MIN = 512  # bytes: the smallest page that a database can have

# How long a call may wait for others to finish their transactions. Each takes a few syncs of the disk, some 10 ms; a
# second of them is a machine in trouble, and half of the 2 s after which the default timing asks again anyway.
BUSY_MAX_S = 1.0
# The pauses between two tries. SQLite's own are 1 to 100 ms and the same for everybody; ours begin below the length of
# a transaction, and their jitter keeps twenty processes from asking in step.
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.0002, 0.01

# ``store`` has one row. Its counter stands outside the offices so that deleting one by hand does not rewind it, and
# ``turnover`` counts whatever may have freed an office before its time. Standbys look at that number: a file with a
# thousand elections is written at every renewal, and re-reading a thousand rows each time would be all they ever do.
# It is kept by triggers and not by our code, because an operator's DELETE must count as well. Two more triggers keep
# the counter from being rewound by hand.
_SCHEMA = (
    """CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        identity TEXT NOT NULL,
        last_token INTEGER NOT NULL,
        turnover INTEGER NOT NULL
    )""",
    # One row per election, never deleted by us. A free office has no nonce; its token is the one of its last tenure.
    # Rows lie in the order of their tokens, so those of tenures that began together are on the same pages. Such tenures
    # are renewed together, and every page that they share is one less to be written: 3 for 50 of them, and not 30.
    """CREATE TABLE office (
        token INTEGER PRIMARY KEY,
        election TEXT NOT NULL UNIQUE,
        host TEXT, pid INTEGER, nonce TEXT, serial INTEGER,
        since INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        time_namespace TEXT NOT NULL,
        resign_token INTEGER,
        advertised TEXT NOT NULL
    )""",
    # Who waits, for people to read. Nothing is decided by it.
    """CREATE TABLE standby (
        election TEXT NOT NULL,
        host TEXT NOT NULL, pid INTEGER NOT NULL, nonce TEXT NOT NULL, serial INTEGER NOT NULL,
        fresh_until INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        time_namespace TEXT NOT NULL,
        PRIMARY KEY (election, nonce, pid, host)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER office_ends_sooner AFTER UPDATE OF expires ON office WHEN NEW.expires < OLD.expires
       BEGIN UPDATE store SET turnover = turnover + 1; END""",
    "CREATE TRIGGER office_deleted AFTER DELETE ON office BEGIN UPDATE store SET turnover = turnover + 1; END",
    """CREATE TRIGGER token_rises BEFORE UPDATE OF last_token ON store WHEN NEW.last_token < OLD.last_token
       BEGIN SELECT RAISE(ABORT, 'tokens never fall: fences would refuse every leader'); END""",
    """CREATE TRIGGER token_stays BEFORE DELETE ON store
       BEGIN SELECT RAISE(ABORT, 'tokens never fall: fences would refuse every leader'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class Found(NamedTuple):
    """What a file turned out to be; ``damage`` is SQLite's word for why it cannot be read."""

    application_id: int = 0
    version: int = 0
    table_count: int = 0
    damage: str | None = None


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether somebody else is in the way, and trying again may help. Nothing was done."""
    # PROTOCOL is what a reader gets that lost the race for a place in the log's index many times over.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)


def patiently(act: Callable[[], T], limit_s: float = BUSY_MAX_S) -> T:
    """Do ``act`` again for as long as others are in the way, up to ``limit_s``; then raise what it raised."""
    pause_s, give_up_at = _PAUSE_MIN_S, 0.0
    while True:
        try:
            return act()
        except sqlite3.Error as error:
            now_s = time.monotonic()
            give_up_at = give_up_at or now_s + limit_s
            if not is_busy(error) or now_s >= give_up_at:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def connect(path: Path, options: str = "mode=rw") -> sqlite3.Connection:
    """Open a connection that waits for nobody and begins no transaction by itself."""
    # psow: a failed write of one frame of the log cannot follow a whole commit record (see ``faults``).
    uri = f"{path.as_uri()}?psow=1&{options}"
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def prepare(path: Path) -> tuple[sqlite3.Connection, str]:
    """Return a connection to the database at ``path`` and its identity, making one in a new or empty file.

    Raises ConfigError for a file that is not ours, and what sqlite3 raises if the disk fails.
    """
    if sqlite3.sqlite_version_info < _SQLITE_MIN:
        rule = f"must be at least {'.'.join(map(str, _SQLITE_MIN))}"
        raise ConfigError("version of SQLite", sqlite3.sqlite_version, rule)
    found = Found()
    if size_of(path):  # A log beside an empty or missing file belongs to one that was removed; SQLite deletes it.
        found = patiently(lambda: _inspect(path))
        _judge(path, found)
    connection = connect(path, "mode=rwc")
    try:
        mode = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        _judge_mode(path, mode)
        patiently(lambda: tune(connection))
        if found.application_id != APPLICATION_ID:
            _make(connection, path)
        identity = identity_of(connection)
    except (sqlite3.Error, ConfigError):
        connection.close()
        raise
    return connection, identity


def identity_of(connection: sqlite3.Connection) -> str:
    """Return the name that the database was given when it was made."""
    (identity,) = patiently(lambda: connection.execute("SELECT identity FROM store").fetchone())
    return str(identity)


def _make(connection: sqlite3.Connection, path: Path) -> None:
    # Fences are named by the identity: it must not be another one after a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    found = _describe(connection)
    _judge(path, found)
    if found.application_id != APPLICATION_ID:  # Else somebody made it while we waited.
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO store VALUES (1, ?, 0, 0)", (secrets.token_hex(16),))
    connection.execute("COMMIT")


def tune(connection: sqlite3.Connection) -> None:
    """Set what every connection of ours has in common."""
    # On Darwin fsync stops at the drive's cache. Elsewhere this does nothing.
    connection.execute("PRAGMA fullfsync = ON")
    # We move the log into the file ourselves, with writers shut out: see ``Session.tidy``.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")


# The log is moved into the file when it has grown to a thousand pages, SQLite's own measure. What it keeps after that
# is overwritten in place, so that a leader can go on renewing on a disk that others have filled; beyond this size it
# is cut off, so that its length says how full it is.
LOG_MAX = 4 * 1024 * 1024
LOG_KEPT = 512 * 1024


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of the database at ``path``."""
    return path.with_name(path.name + "-wal")


def size_of(path: Path) -> int:
    """Return the length of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _inspect(path: Path) -> Found:
    if 0 < size_of(path) < _PAGE_MIN:
        return Found(damage="file is not a database")  # SQLite would take a single byte for nothing, and overwrite it.
    if not size_of(log_of(path)):
        # No lock, no log and no shared memory: leaves nothing beside a file that is not ours. Without locks a write
        # may come in between, but then there is a log now.
        found = _look(path, "immutable=1")
        if not size_of(log_of(path)):
            return found
    return _look(path, "mode=ro")


def _look(path: Path, options: str) -> Found:
    connection = connect(path, options)
    try:
        found = _describe(connection)
        if found.application_id == APPLICATION_ID and found.version == SCHEMA_VERSION:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                # The first line only repeats which database it is about.
                return found._replace(damage=str(verdict).splitlines()[-1])
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        return Found(damage=str(error))
    else:
        return found
    finally:
        connection.close()


def _describe(connection: sqlite3.Connection) -> Found:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (table_count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return Found(application_id, version, table_count)


def _judge_mode(path: Path, mode: str) -> None:
    if mode != "wal":
        raise ConfigError("path", path, f"lies where SQLite cannot keep a write-ahead log (it offers {mode})")


def _judge(path: Path, found: Found) -> None:
    untouched = "it was left as it is"
    if found.damage is not None:
        raise ConfigError("path", path, f"cannot be read as a database ({found.damage}); {untouched}")
    if found.application_id == APPLICATION_ID:
        if found.version > SCHEMA_VERSION:
            rule = f"was made by a newer tenure (version {found.version}, this one knows {SCHEMA_VERSION}); {untouched}"
            raise ConfigError("path", path, rule)
        if found.version < SCHEMA_VERSION:
            rule = (
                f"was made by an older tenure (version {found.version}, this one knows {SCHEMA_VERSION}): stop whoever "
                f"uses it and move it away, and a new one is made; {untouched}"
            )
            raise ConfigError("path", path, rule)
    elif found.application_id or found.version or found.table_count:
        rule = f"is a database of another application (id {found.application_id:#x}); {untouched}"
        raise ConfigError("path", path, rule)
