"""A ledger in a SQLite file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from anyio import to_thread

from tenure.apps.ledger.base import Call, Entry, Kind, Statement, T, Told, Words
from tenure.errors import Refused, StoreError, Unreachable
from tenure.model import Token
from tenure.sinks.base import Bound
from tenure.sinks.sql.talk import Ask, carried_out
from tenure.sinks.sqlite.sink import SQLiteSink

_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN}
_PRIMARY_CODE = 0xFF
_BUSY_S = 30  # for which a writer is waited for


class SQLiteLedger:
    """See ``Ledger``."""

    kind: Kind = "sqlite"
    words = Words("TEXT", "TEXT", "INTEGER", "")

    def __init__(self, path: Path) -> None:
        self.address = f"sqlite://{path}"
        self._path = path
        self._sink = SQLiteSink(self._connect)

    async def seal(self, fence: str, token: Token) -> None:
        await self._sink.seal(fence, token)

    async def record(self, term: Bound, entry: Entry[T]) -> T:
        with self._told():
            return await self._sink.run(term, lambda connection: carried_out(_asked, connection, entry))

    async def look(self, entry: Entry[T]) -> T | None:
        return await to_thread.run_sync(self._look, entry)

    async def ask(self, entry: Entry[T], *, one_by_one: bool = False) -> T:
        return await to_thread.run_sync(self._ask, entry, one_by_one)

    async def close(self) -> None:
        self._sink.close()

    def _look(self, entry: Entry[T]) -> T | None:
        if not self._path.exists():  # Who looks makes no file.
            return None
        with self._told(), closing(self._connect()) as connection:
            connection.execute("BEGIN")
            return carried_out(_asked, connection, entry)

    def _ask(self, entry: Entry[T], one_by_one: bool) -> T:
        with self._told(), closing(self._connect()) as connection:
            if one_by_one:
                return carried_out(_asked, connection, entry)
            connection.execute("BEGIN IMMEDIATE")
            done = carried_out(_asked, connection, entry)
            connection.execute("COMMIT")
            return done

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
        kind: Callable[[str, str, str], StoreError] = Unreachable if code in _BUSY_CODES else Refused
        return kind(self.address, "record", str(error))


def _asked(connection: sqlite3.Connection, ask: Ask | Statement | Call) -> Told:
    if not isinstance(ask, Call):
        cursor = connection.execute(ask.sql, ask.parameters if isinstance(ask, Ask) else ())
        return Told(cursor.fetchall(), cursor.rowcount)
    ask.work(connection)
    return Told([], 0)
