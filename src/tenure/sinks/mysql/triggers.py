"""Triggers that refuse whatever is written to a table by a session that has presented no valid token.

They cover SQL that knows nothing of tenure, from any program: INSERT, UPDATE, DELETE, REPLACE and LOAD DATA, row by row. Valid is
the token that the fence stands at: neither a lower one nor one that was never sealed.

They do not cover what fires no trigger: TRUNCATE, DROP and ALTER TABLE, rows that a foreign key's cascade changes, and
replicas that apply row events. Nor are they access control: whoever may write can present any token.
"""

import re
from hashlib import md5
from typing import Final

from tenure.errors import ConfigError, StaleToken, TenureError, UnverifiedToken
from tenure.sinks.mysql.schema import TABLE, quoted, variable_of
from tenure.sinks.sql.talk import Ask, Talk, Trouble

STALE, UNVERIFIED, MISSING = 31001, 31002, 31003
_EVENTS: Final = ("INSERT", "UPDATE", "DELETE")
_PREFIX: Final = "tenure_fence_"
_FENCE: Final = re.compile(r"fence = X'(?P<fence>[0-9A-F]+)'")
_REFUSAL: Final = re.compile(r"tenure: token (?P<token>-?\d+) .*: the highest seen is (?P<highest>\d+)")
# The database of the sink, whatever the caller's USE has made of the connection.
_HERE = "COALESCE(NULLIF(%s, ''), DATABASE())"
_FIND = (
    f"SELECT table_name, table_type, table_schema FROM information_schema.tables "  # noqa: S608  (no values in it)
    f"WHERE table_schema = {_HERE} AND table_name = %s"
)
_TRIGGERS = (
    "SELECT trigger_name, event_object_table, event_manipulation, action_statement, trigger_schema "  # noqa: S608
    f"FROM information_schema.triggers WHERE trigger_schema = {_HERE} AND action_timing = 'BEFORE' AND LEFT(trigger_name, %s) = %s"
)


def install(database: str, table: str, fence: str) -> Talk[None]:
    """Give a table its triggers; change nothing where they are in place."""
    space, name = yield from _ordinary(database, table)
    body = _body(fence)
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    there = {event: (trigger, action) for trigger, of, event, action, _ in rows if of == name}
    for event in _EVENTS:
        trigger, action = there.get(event, ("", ""))
        if action == body:
            continue
        if trigger:
            yield Ask(f"DROP TRIGGER {quoted(space)}.{quoted(trigger)}")
        called = f"{_PREFIX}{event.lower()}_{md5(name.encode(), usedforsecurity=False).hexdigest()[:16]}"
        of = f"{quoted(space)}.{quoted(name)}"
        yield Ask(f"CREATE TRIGGER {quoted(space)}.{called} BEFORE {event} ON {of} FOR EACH ROW {body}")


def remove(database: str, table: str) -> Talk[None]:
    """Take the triggers from a table."""
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    for trigger, of, _, _, space in rows:
        if of == table:
            yield Ask(f"DROP TRIGGER {quoted(space)}.{quoted(trigger)}")


def fenced(database: str) -> Talk[dict[str, str]]:
    """Return the tables that have all their triggers, and the fence of each."""
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    events: dict[tuple[str, str], int] = {}
    for _, table, _, action, _ in rows:
        for name in _FENCE.findall(action)[:1]:
            key = table, bytes.fromhex(name).decode()
            events[key] = events.get(key, 0) + 1
    return {table: fence for (table, fence), count in sorted(events.items()) if count == len(_EVENTS)}


def refusal_of(trouble: Trouble) -> TenureError | None:
    """Return what one of these triggers has said, if it was one."""
    told = _REFUSAL.search(trouble.text) if trouble.code in {str(STALE), str(UNVERIFIED)} else None
    if told is None:
        return None
    kind = StaleToken if trouble.code == str(STALE) else UnverifiedToken
    return kind(int(told["token"]), int(told["highest"]))


def _body(fence: str) -> str:
    # CAST: what was presented as a text would be compared as a floating-point number, for which 2⁵³ and 2⁵³ + 1 are one.
    shown = f"CAST(@{variable_of(fence)} AS SIGNED)"
    name = fence.encode().hex().upper()
    return (
        f"BEGIN DECLARE seen BIGINT; DECLARE told VARCHAR(128); "  # noqa: S608  (names and digits of ours)
        f"SELECT highest INTO seen FROM {TABLE} WHERE fence = X'{name}' LOCK IN SHARE MODE; "
        f"IF seen IS NULL OR NOT ({shown} <=> seen) THEN IF {shown} IS NULL THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {MISSING}, "
        f"MESSAGE_TEXT = 'tenure: this session has presented no token (@{variable_of(fence)}) for the fence of this table'; "
        f"ELSEIF {shown} < seen THEN SET told = CONCAT('tenure: token ', {shown}, ' is stale: the highest seen is ', seen); "
        f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {STALE}, MESSAGE_TEXT = told; "
        f"ELSE SET told = CONCAT('tenure: token ', {shown}, ' was never sealed: the highest seen is ', COALESCE(seen, 0)); "
        f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {UNVERIFIED}, MESSAGE_TEXT = told; END IF; END IF; END"
    )


def _ordinary(database: str, table: str) -> Talk[tuple[str, str]]:
    rows = yield Ask(_FIND, (database, table))
    if not rows:
        raise ConfigError("table", table, "must be a table of the database that the sink is connected to")
    [(name, kind, space)] = rows
    if kind != "BASE TABLE":
        raise ConfigError("table", table, "must not be a view: install the triggers on the tables that it shows")
    if name.lower() == TABLE:
        raise ConfigError("table", table, "must be another than the one that the fences are kept in")
    return str(space), str(name)
