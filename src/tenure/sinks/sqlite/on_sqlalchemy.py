"""SQLAlchemy on SQLite: ``guard`` is the last that is said before COMMIT, on the connection of ``sqlite3`` below.

A transaction has the write lock from its first statement, as those of a sink have, so that nobody can seal before it ends.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.sinks.sqlite.presence import presence_of, withdraw
from tenure.sinks.sqlite.row import HOLD, guard, highest_of
from tenure.sinks.sqlite.triggers import stale_fence

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import ExceptionContext

_DRIVER = "pysqlite"


def fenced_sqlite(engine: "Engine", fence: str, token: Token) -> "Engine":
    """Return an Engine that shares the pool of ``engine``, and whose transactions end with the check."""
    from sqlalchemy import event  # noqa: PLC0415  (only if it is used)

    if engine.dialect.driver != _DRIVER:
        rule = f"must be sqlite+{_DRIVER}: the check needs the connection of sqlite3 itself"
        raise ConfigError("engine", f"sqlite+{engine.dialect.driver}", rule)
    fenced, told = engine.execution_options(), _Told(fence, token)
    event.listen(fenced, "begin", told.begin)
    event.listen(fenced, "before_cursor_execute", told.first_statement)
    event.listen(fenced, "commit", told.commit)
    event.listen(fenced, "rollback", told.rollback)
    event.listen(fenced, "handle_error", told.error)
    return fenced


class _Told:
    """What SQLAlchemy tells of the transactions of one tenure."""

    def __init__(self, fence: str, token: Token) -> None:
        self.fence, self.token = fence, token

    def begin(self, connection: "Connection") -> None:
        presence_of(_below(connection)).tokens[self.fence] = self.token

    def first_statement(self, connection: "Connection", _: object, statement: str, *__: object) -> None:
        # Not where SQLAlchemy begins: whoever has an engine with a BEGIN of its own says it there, and after us.
        if statement.lstrip()[:5].upper() != "BEGIN":
            _begin(connection)

    def commit(self, connection: "Connection") -> None:
        own = _below(connection)
        try:
            _begin(connection)
            with _as_it_tells(connection):
                guard(own, self, sealed_only=True)
        finally:
            withdraw(own)

    def rollback(self, connection: "Connection") -> None:
        if not connection.invalidated:
            withdraw(_below(connection))

    def error(self, context: "ExceptionContext") -> None:
        error, connection = context.original_exception, context.connection
        if connection is not None and stale_fence(error) == self.fence:
            raise StaleToken(self.token, highest_of(_below(connection).cursor(), self.fence)) from error


def _begin(connection: "Connection") -> None:
    # sqlite3 by itself begins only with the first INSERT, UPDATE or DELETE. What makes a table would be committed at once.
    own = _below(connection)
    if not own.in_transaction:
        with _as_it_tells(connection):
            own.execute("BEGIN IMMEDIATE")


@contextmanager
def _as_it_tells(connection: "Connection") -> Iterator[None]:
    """Have errors of sqlite3 look as those of any statement of SQLAlchemy do."""
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415  (only if it is used)

    try:
        yield
    except sqlite3.Error as error:
        raise DBAPIError.instance(HOLD, None, error, sqlite3.Error, dialect=connection.dialect) from error


def _below(connection: "Connection") -> sqlite3.Connection:
    own = connection.connection.driver_connection
    assert isinstance(own, sqlite3.Connection), f"the driver is pysqlite, and its connection {own!r}"
    return own
