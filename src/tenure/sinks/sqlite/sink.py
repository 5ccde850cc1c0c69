"""A SQLite database as a sink: transactions that are bound to a tenure, and the seal.

Check and write are one transaction of the caller's own database (``row`` has the check, ``line`` the connection). A
transaction has the write lock from its first moment, so a second leader's seal waits for it, and what it wrote is there
before the seal or not at all. While a leader is frozen inside a transaction nobody can write or seal, as always with
SQLite: keep them short, and let nothing in them wait for the world outside.
"""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Self, TypeVar

from anyio import to_thread

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, StoreError, Unreachable
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.judging import JudgingSink
from tenure.sinks.refusals import REFUSED
from tenure.sinks.sqlite.line import Connect, Line
from tenure.sinks.sqlite.row import HOLD, RAISE, highest_of
from tenure.sinks.sqlite.triggers import stale_fence
from tenure.sinks.verifying import confirmed_now

T = TypeVar("T")

_PRIMARY_CODE = 0xFF  # SQLite's extended result codes keep the primary one in their lowest byte.
_NOT_SENT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN}


class BoundSQLite:
    """A sink as one tenure may use it: ``with`` is one fenced transaction, and may be used again and again.

    It gives the connection, commits at the end, and rolls back on any error. Entering raises StaleToken if a larger
    token was here, and UnverifiedToken if ``verify=`` would not confirm a higher one. The connection is the sink's own
    and may be used only inside; COMMIT and ROLLBACK are refused there, and savepoints are not. Everything else that it
    raises is sqlite3's.
    """

    __slots__ = ("_fence", "_line", "_sink", "_statement", "_token")

    def __init__(self, sink: "SQLiteSink", term: Bound) -> None:
        self._fence, self._token = term.fence, term.token
        self._line, self._sink = sink.line, sink
        self._statement = RAISE if sink.verify is None else HOLD

    def __enter__(self) -> sqlite3.Connection:
        try:  # Which costs nothing if it is accepted, where ``admitted_now`` would be a part of so short a transaction.
            return self._line.begin(self._fence, self._token, self._statement)
        except REFUSED as refusal:
            with self._sink.refused.counting(self._fence):
                if isinstance(refusal, StaleToken) or not confirmed_now(self._sink.verify, self._fence, self._token):
                    raise
                return self._line.begin(self._fence, self._token, RAISE)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._line.commit()
            return
        try:
            stale = _stale(self._line, error)
        finally:
            self._line.roll_back()
        if stale is not None:
            raise self._sink.refused.counted(stale, self._fence) from error
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_AUTH:
            rule = "must not be used inside: what came after would not be fenced"
            raise ConfigError("transaction", "COMMIT or ROLLBACK", rule) from error

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``work`` with the connection of a fenced transaction, in a worker thread, and return what it returns.

        Cancellation waits until the transaction has ended, so that its outcome is known.
        """
        return await to_thread.run_sync(self._run, work)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self as connection:
            return work(connection)


class SQLiteSink(JudgingSink):
    """A SQLite database that refuses writes of a leader that was succeeded.

    ``database`` is a path, or a function that opens a connection with settings of your own; it must say
    ``isolation_level=None`` and ``check_same_thread=False``. The sink has one connection, opened when it is first needed,
    and any number of threads may use it. It sets the connection's authorizer. With ``verify``, a token higher than any
    seen is confirmed by it first, without a lock being held.

    Fences only what is written through it, through ``guard``, or to tables with triggers.
    """

    def __init__(self, database: str | os.PathLike[str] | Connect, *, verify: Verify | None = None) -> None:
        super().__init__(verify)
        if callable(database):
            self.name, connect = "sqlite sink", database
        else:
            path = os.fspath(database)
            if path in {"", ":memory:"}:
                raise ConfigError("database", repr(path), "must be a file: nobody else could see what is in memory")
            self.name = f"sqlite sink {path}"
            connect = partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False)
        self.line = Line(connect, self.name)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def bind(self, term: Bound) -> BoundSQLite:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundSQLite(self, term)

    def transaction(self, term: Bound) -> BoundSQLite:
        """Return a transaction whose writes count under ``term``: ``with sink.transaction(term) as connection: …``."""
        return BoundSQLite(self, term)

    async def run(self, term: Bound, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call ``work`` with the connection of a fenced transaction, in a worker thread (see ``BoundSQLite.run``)."""
        return await BoundSQLite(self, term).run(work)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``). Waits for the transaction that is under way, if there is one."""
        await self.admitted(fence, token, lambda known_only: self._seal(fence, token, HOLD if known_only else RAISE))

    def close(self) -> None:
        """Close the connection; a transaction that is under way ends first. The sink cannot be used again."""
        self.line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _seal(self, fence: str, token: Token, statement: str) -> None:
        # Abandoned if it is cancelled: a late seal harms nobody, and a leader that is over must not wait for a lock.
        await to_thread.run_sync(self._seal_now, fence, token, statement, abandon_on_cancel=True)

    def _seal_now(self, fence: str, token: Token, statement: str) -> None:
        try:
            self.line.begin(fence, token, statement)
            self.line.commit()
        except sqlite3.Error as error:
            raise store_error(self.name, error) from error


def _stale(line: Line, error: BaseException) -> StaleToken | None:
    """Return what a trigger meant that found a presented token to be stale."""
    fence = stale_fence(error)
    token = None if fence is None else line.presence.tokens.get(fence)
    if fence is None or token is None:  # Not a trigger's error, or one of another connection.
        return None
    return StaleToken(token, highest_of(line.cursor, fence))


def store_error(name: str, error: sqlite3.Error, operation: str = "seal") -> StoreError:
    """Return what an error of a seal, or of another step, says about its outcome."""
    if _code(error) in _NOT_SENT:
        return Unreachable(name, operation, str(error))
    if _code(error) == sqlite3.SQLITE_IOERR:
        return OutcomeUnknown(name, operation, str(error))
    return Refused(name, operation, str(error))


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
