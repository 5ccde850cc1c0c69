"""The fences of a SQLite database, which ``SQLiteSink`` and ``SQLiteMark`` keep in a table."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenure.errors import ConfigError, Refused, Unreachable
from tenure.sinks.mending.folder import NO_FENCES
from tenure.sinks.repairing import Fences, Repair, moved
from tenure.sinks.sqlite.row import TABLE, highest_in

_REPAIRS: Final = "tenure_fence_repairs"
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS main.tenure_fence_repairs (repair INTEGER PRIMARY KEY, fence TEXT NOT NULL, was INTEGER NOT NULL, "
    'now INTEGER NOT NULL, who TEXT NOT NULL, "when" TEXT NOT NULL, why TEXT NOT NULL)'
)


class SQLiteFences:
    """See ``Mendable``."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def look(self) -> Fences:
        with self._connected("read") as connection:
            rows = connection.execute("SELECT fence, highest FROM main.tenure_fence ORDER BY fence")
            highest = {fence: highest_in(fence, found) for fence, found in rows}
            if not _has(connection, _REPAIRS):
                return Fences(highest, ())
            query = 'SELECT fence, was, now, who, "when", why FROM main.tenure_fence_repairs ORDER BY repair'
            return Fences(highest, tuple(Repair(*row) for row in connection.execute(query)))

    def lower(self, repair: Repair) -> None:
        fence, was, now, who, when, why = repair.fence, repair.was, repair.now, repair.who, repair.when, repair.why
        with self._connected("repair") as connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute("SELECT highest FROM main.tenure_fence WHERE fence = ?", (fence,)).fetchone()
            if row is None or row[0] != was:
                raise moved(repair, row[0] if row else 0)
            connection.execute(_CREATE)
            connection.execute("UPDATE main.tenure_fence SET highest = ? WHERE fence = ?", (now, fence))
            words = (
                'INSERT INTO main.tenure_fence_repairs (fence, was, now, who, "when", why) VALUES (?, ?, ?, ?, ?, ?)'
            )
            connection.execute(words, (fence, was, now, who, when, why))
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self, operation: str) -> Iterator[sqlite3.Connection]:
        path = self._path
        if not path.is_file():
            raise ConfigError("target", path, NO_FENCES)
        try:
            uri = f"file:{quote(str(path.absolute()))}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                if not _has(connection, TABLE):
                    raise ConfigError("target", path, NO_FENCES)
                yield connection
        except sqlite3.OperationalError as error:
            raise Unreachable(f"database {path}", operation, str(error)) from error
        except sqlite3.Error as error:
            raise Refused(f"database {path}", operation, str(error)) from error


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (table,)).fetchone() is not None
