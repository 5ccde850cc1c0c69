"""Looking at the fences of a folder or of a SQLite database, and lowering one that was raised by mistake.

This is for the hands of somebody who knows: whoever holds a token between the old and the new value is let in again. The
record of it, who, when and why, is written in the same step.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from tenure.errors import ConfigError, Refused, Unreachable
from tenure.sinks.files.folder import WAIT_S, Folder
from tenure.sinks.repairing import Repair, moved, repair_of
from tenure.sinks.sqlite.row import TABLE

_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS main.tenure_fence_repairs (repair INTEGER PRIMARY KEY, fence TEXT NOT NULL, was INTEGER NOT NULL, "
    'now INTEGER NOT NULL, who TEXT NOT NULL, "when" TEXT NOT NULL, why TEXT NOT NULL)'
)


class Fences(NamedTuple):
    """Where the fences of one target stand, and which of them were lowered by hand."""

    highest: Mapping[str, int]
    repairs: tuple[Repair, ...]


def fences_of(target: str | os.PathLike[str]) -> Fences:
    """Return the fences of a folder (``FileSink``, ``FileMark``) or of a database (``SQLiteSink``, ``SQLiteMark``).

    Raises ConfigError if there are none, and StoreError if they cannot be read.
    """
    if Path(target).is_dir():
        record = _folder(target).record("read")
        return Fences(dict(record.highest), record.repairs)
    with _database(target, "read") as connection:
        highest = dict(connection.execute("SELECT fence, highest FROM main.tenure_fence ORDER BY fence").fetchall())
        if not _has(connection, "tenure_fence_repairs"):
            return Fences(highest, ())
        query = 'SELECT fence, was, now, who, "when", why FROM main.tenure_fence_repairs ORDER BY repair'
        return Fences(highest, tuple(Repair(*row) for row in connection.execute(query)))


def lower_fence(  # noqa: PLR0913  (each has to be said, by name)
    target: str | os.PathLike[str], fence: str, *, was: int, to: int, why: str, who: str | None = None
) -> Repair:
    """Lower a fence of a folder or of a database from exactly ``was`` to ``to``, and record who did it when and why.

    Raises ConfigError, and changes nothing, if the fence stands anywhere else. Stop whoever has a token between the two
    first: nothing refuses it afterwards. ``who`` is by default the user and the host.
    """
    repair = repair_of(fence, was=was, to=to, why=why, who=who)
    if Path(target).is_dir():
        _folder(target).change(lambda record: record.repaired(repair), "repair")
        return repair
    with _database(target, "repair") as connection:
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute("SELECT highest FROM main.tenure_fence WHERE fence = ?", (fence,)).fetchone()
        if row is None or row[0] != was:
            raise moved(repair, row[0] if row else 0)
        connection.execute(_CREATE)
        connection.execute("UPDATE main.tenure_fence SET highest = ? WHERE fence = ?", (to, fence))
        words = 'INSERT INTO main.tenure_fence_repairs (fence, was, now, who, "when", why) VALUES (?, ?, ?, ?, ?, ?)'
        connection.execute(words, (repair.fence, was, to, repair.who, repair.when, repair.why))
        connection.execute("COMMIT")
    return repair


def _folder(target: str | os.PathLike[str]) -> Folder:
    path = os.fspath(target)
    folder = Folder(path, f"folder {path}", WAIT_S)
    if not folder.has_fences:
        raise ConfigError("target", path, "must be a folder or a database that has fences")
    return folder


@contextmanager
def _database(target: str | os.PathLike[str], operation: str) -> Iterator[sqlite3.Connection]:
    path = Path(target)
    if not path.is_file():
        raise ConfigError("target", path, "must be a folder or a database that has fences")
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            if not _has(connection, TABLE):
                raise ConfigError("target", path, "must be a folder or a database that has fences")
            yield connection
    except sqlite3.OperationalError as error:
        raise Unreachable(f"database {path}", operation, str(error)) from error
    except sqlite3.Error as error:
        raise Refused(f"database {path}", operation, str(error)) from error


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (table,)).fetchone() is not None
