"""Triggers that refuse whatever a connection writes to a table without having presented a valid token.

They cover SQL that knows nothing of tenure, from any process and any language: inserts, updates and deletes in every
form (REPLACE, upserts, DELETE without WHERE, cascades of foreign keys). Valid is the token that the fence stands at:
neither a lower one nor one that was never sealed.

They do not cover what fires no trigger: DROP and ALTER TABLE, writes with triggers switched off, and a table that was
replaced by a copy, as migrations do. ``install_triggers`` changes nothing where all is in place, so call it at every
start. They are no access control either: whoever can write to the file can present any token, or drop a trigger.
"""

import re
import secrets
import sqlite3

from tenure.errors import ConfigError
from tenure.sinks.sqlite.presence import shown_to_triggers
from tenure.sinks.sqlite.row import CREATE, TABLE

_EVENTS = ("INSERT", "UPDATE", "DELETE")
_PREFIX = "tenure fence "
_STALE = "tenure: the token presented is stale for fence "
_UNSEALED = "tenure: the token presented was never sealed for fence "
_MISSING = "tenure: this connection has presented no token for fence "
_FENCE = re.compile(r"tenure_fence WHERE fence = '(?P<fence>(?:[^']|'')*)'")


def install_triggers(connection: sqlite3.Connection, table: str, *, fence: str) -> None:
    """Let ``table`` accept only what is written under the token that ``fence`` stands at.

    Until the first seal everything is refused. Changes nothing if the triggers are in place; a table has one fence, and
    installing another takes its place. In a transaction of the caller's it becomes part of that, otherwise it is one.
    Raises ConfigError for anything but an ordinary table of the main database.
    """
    _check_names(table, fence)
    cursor = _plain_cursor(connection)
    name = _ordinary_table(cursor, table)
    bodies = {event: _body(event, name, fence) for event in _EVENTS}
    if _in_place(_triggers_of(cursor, name), bodies):
        return
    with _Change(connection):
        cursor.execute(CREATE)
        _drop(cursor, _triggers_of(cursor, name))
        # A name that nothing else has: a table may have been renamed since, with its triggers, and made anew.
        series = secrets.token_hex(4)
        for event, body in bodies.items():
            cursor.execute(f"CREATE TRIGGER main.{_quoted(f'{_PREFIX}{name} {event} {series}')} {body}")


def remove_triggers(connection: sqlite3.Connection, table: str) -> None:
    """Let anybody write to ``table`` again. Changes nothing if it has no triggers of ours."""
    cursor = _plain_cursor(connection)
    if _triggers_of(cursor, table):
        with _Change(connection):
            _drop(cursor, _triggers_of(cursor, table))


def fenced_tables(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the tables that have all their triggers, and the fence of each. To check at start that none was lost."""
    cursor = _plain_cursor(connection)
    events: dict[tuple[str, str], int] = {}
    query = (
        "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND name LIKE ? || '%' ORDER BY tbl_name"
    )
    for table, sql in cursor.execute(query, (_PREFIX,)):
        key = table, _FENCE.findall(sql)[0].replace("''", "'")
        events[key] = events.get(key, 0) + 1
    return {table: fence for (table, fence), count in events.items() if count == len(_EVENTS)}


def stale_fence(error: BaseException) -> str | None:
    """Return the fence for which one of these triggers found a token to be stale, if that is what the error says."""
    text = str(error) if isinstance(error, sqlite3.IntegrityError) else ""
    return text.removeprefix(_STALE) if text.startswith(_STALE) else None


def _body(event: str, table: str, fence: str) -> str:
    shown = shown_to_triggers(_literal(fence))
    highest = f"(SELECT highest FROM {TABLE} WHERE fence = {_literal(fence)})"  # noqa: S608  (quoted)
    # ABORT is what an outer OR IGNORE or OR REPLACE does not change. Not ``shown IS NOT highest``: before the first seal
    # both are NULL, and everything would pass. The condition stands in WHEN so that a write that is right costs one
    # comparison and no subprogram.
    return (
        f"BEFORE {event} ON {_quoted(table)} WHEN NOT coalesce({shown} = {highest}, 0) BEGIN SELECT CASE "
        f"WHEN {shown} IS NULL THEN RAISE(ABORT, {_literal(_MISSING + fence)}) "
        f"WHEN {shown} < {highest} THEN RAISE(ABORT, {_literal(_STALE + fence)}) "
        f"ELSE RAISE(ABORT, {_literal(_UNSEALED + fence)}) END; END"
    )


def _check_names(table: str, fence: str) -> None:
    for what, name in (("table", table), ("fence", fence)):
        if not name or "\0" in name:
            raise ConfigError(what, repr(name), "must have a name, without a NUL in it")
    if table.lower() == TABLE:
        raise ConfigError("table", table, "must be another than the one that the fences are kept in")


def _ordinary_table(cursor: sqlite3.Cursor, table: str) -> str:
    """Return the name as the database spells it."""
    query = "SELECT name, type, sql FROM main.sqlite_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
    name, kind, sql = cursor.execute(query, (table,)).fetchone() or ("", "", "")
    if kind == "view":
        raise ConfigError("table", table, "must not be a view: install the triggers on the tables that it shows")
    if re.match(r"CREATE\s+VIRTUAL\b", sql, re.IGNORECASE):
        raise ConfigError("table", table, "must not be a virtual table: SQLite allows no triggers on one")
    if not name or name.lower().startswith("sqlite_"):
        raise ConfigError("table", table, "must be a table of the main database")
    return str(name)


def _triggers_of(cursor: sqlite3.Cursor, table: str) -> dict[str, str]:
    query = (
        "SELECT name, sql FROM main.sqlite_master "
        "WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND name LIKE ? || '%'"
    )
    return dict(cursor.execute(query, (table, _PREFIX)).fetchall())


def _in_place(triggers: dict[str, str], bodies: dict[str, str]) -> bool:
    found = triggers.values()
    return len(found) == len(bodies) and all(any(sql.endswith(body) for sql in found) for body in bodies.values())


def _drop(cursor: sqlite3.Cursor, triggers: dict[str, str]) -> None:
    for name in triggers:
        cursor.execute(f"DROP TRIGGER main.{_quoted(name)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = None  # The caller's connection may turn rows into something else.
    return cursor


class _Change:
    """All of a change to the schema or nothing of it, within the caller's transaction if there is one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._cursor = connection.cursor()
        # Not a savepoint in both cases: that would begin with a read, and a read that has aged cannot be written to.
        self._begin, self._undo, self._keep = ("BEGIN IMMEDIATE", "ROLLBACK", "COMMIT")
        if connection.in_transaction:
            self._begin, self._keep = ("SAVEPOINT tenure_triggers", "RELEASE tenure_triggers")
            self._undo = "ROLLBACK TO tenure_triggers"

    def __enter__(self) -> None:
        self._cursor.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cursor.execute(self._keep if kind is None else self._undo)
