"""Which tokens a connection presents, where triggers can see them.

A trigger of the main schema cannot read a TEMP table, and a row that says "I am token 7" would speak for every other
connection too, if its writer forgot to delete it. What belongs to one connection, is seen by triggers, and is gone when
the connection is gone, is a function. ADR 0007 has the alternatives.

Rules of this file
1. A connection that has presented nothing must be refused in plain words, also if it never heard of tenure. A function of
   our own name would not do: there, the SQL would not even compile. So it is a form of ``date`` that every SQLite has
   and that means nothing: "tenure" is no date, so it is NULL. Only for five arguments, and only on a connection that
   presents, our function stands in its place. SQLite documents both: built-in functions may be overloaded, and an
   implementation with the exact number of arguments goes before one that takes any number.
2. Presenting proves nothing. The trigger compares with the guard row, within the transaction of the write.
"""

import sqlite3
from contextlib import suppress
from weakref import ReferenceType, ref

from tenure.errors import ConfigError
from tenure.model import token
from tenure.sinks.base import Bound

_ARGUMENT_COUNT = 5  # More than anybody gives to ``date``, so that nothing else of its uses is touched.


class Presence:
    """The tokens that one connection presents, by fence. Lives as long as the connection that it was attached to."""

    __slots__ = ("__weakref__", "tokens")

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}

    def shown(self, _tenure: str, _token: str, _null: None, _another: None, fence: str) -> int | None:
        """Answer for ``date`` with five arguments."""
        return self.tokens.get(fence)


# By the connection's id, since a connection allows neither weak references nor attributes. The connection's function
# holds the only strong reference to the presence, so an entry vanishes with its connection and before its id can come
# again. Were it otherwise, tokens would be presented by nobody, and the triggers would refuse.
_PRESENCES: dict[int, ReferenceType[Presence]] = {}


def presence_of(connection: sqlite3.Connection) -> Presence:
    """Return what this connection presents, and begin it if it presented nothing yet."""
    known = _PRESENCES.get(id(connection))
    return (known and known()) or _attach(connection)


def _attach(connection: sqlite3.Connection) -> Presence:
    presence, key = Presence(), id(connection)
    connection.create_function("date", _ARGUMENT_COUNT, presence.shown)
    # Statements that were prepared before still call the built-in form. Defining the same function again makes SQLite
    # prepare them anew. It declines while a query is being read; then a statement that was refused before on this
    # connection is refused once more, which is safe.
    with suppress(sqlite3.OperationalError):
        connection.create_function("date", _ARGUMENT_COUNT, presence.shown)
    _PRESENCES[key] = ref(presence, lambda dead: _forget(key, dead))
    return presence


def _forget(key: int, dead: ReferenceType[Presence]) -> None:
    if _PRESENCES.get(key) is dead:
        del _PRESENCES[key]


def shown_to_triggers(fence_literal: str) -> str:
    """Return the SQL with which a trigger asks for the token that its connection presents; NULL: none."""
    return f"date('tenure', 'token', NULL, NULL, {fence_literal})"


def present(connection: sqlite3.Connection, term: Bound) -> None:
    """Let what this connection writes from now on, to tables with triggers, count as written under ``term``.

    Call it once, where the connection is opened; the SQL that follows stays as it is, and is refused with
    sqlite3.IntegrityError once the token is stale. Checks nothing itself and does not raise the fence, so the token must
    have been sealed. ``guard`` and the transactions of a sink present their tokens by themselves.
    """
    cursor = connection.cursor()
    cursor.row_factory = None  # The caller's connection may turn rows into something else.
    if cursor.execute("PRAGMA trusted_schema").fetchone() == (0,):
        raise ConfigError("trusted_schema", "OFF", "must be ON: otherwise SQLite lets no trigger see a presented token")
    presence_of(connection).tokens[term.fence] = token(term.token)


def withdraw(connection: sqlite3.Connection) -> None:
    """Present nothing any more: triggers refuse what this connection writes. For a connection that goes to others."""
    presence_of(connection).tokens.clear()
