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
    """Give a table its triggers; change nothing where they are in place.

    Those that are to go, of another fence or of an older version of this file, go after the new ones have come: the server has no
    transaction for it, and in between anybody could write. A server lets any number of triggers stand on one event.
    """
    space, name = yield from _ordinary(database, table)
    body = _body(fence)
    of = f"{quoted(space)}.{quoted(name)}"
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    there = [(trigger, event, action) for trigger, its_table, event, action, _ in rows if its_table == name]
    for event in _EVENTS:
        if not any(is_for == event and action == body for _, is_for, action in there):
            # By its body as well, so that the name is free while another one stands.
            called = f"{_PREFIX}{event.lower()}_{md5((name + body).encode(), usedforsecurity=False).hexdigest()[:16]}"
            yield Ask(f"CREATE TRIGGER {quoted(space)}.{called} BEFORE {event} ON {of} FOR EACH ROW {body}")
    for trigger, _, action in there:
        if action != body:
            yield Ask(f"DROP TRIGGER {quoted(space)}.{quoted(trigger)}")


def remove(database: str, table: str) -> Talk[None]:
    """Take the triggers from a table."""
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    for trigger, of, _, _, space in rows:
        if of == table:
            yield Ask(f"DROP TRIGGER {quoted(space)}.{quoted(trigger)}")


def fenced(database: str) -> Talk[dict[str, str]]:
    """Return the tables that have all their triggers, and the fence of each."""
    rows = yield Ask(_TRIGGERS, (database, len(_PREFIX), _PREFIX))
    events: dict[tuple[str, str], set[str]] = {}
    for _, table, event, action, _ in rows:
        for name in _FENCE.findall(action)[:1]:
            events.setdefault((table, bytes.fromhex(name).decode()), set()).add(event)
    return {table: fence for (table, fence), found in sorted(events.items()) if len(found) == len(_EVENTS)}


def refusal_of(trouble: Trouble) -> TenureError | None:
    """Return what one of these triggers has said, if it was one."""
    told = _REFUSAL.search(trouble.text) if trouble.code in {str(STALE), str(UNVERIFIED)} else None
    if told is None:
        return None
    kind = StaleToken if trouble.code == str(STALE) else UnverifiedToken
    return kind(int(told["token"]), int(told["highest"]))


def _body(fence: str) -> str:
    # The read is an operand, and what is told is put together in variables of the session: what a trigger declares is made anew for every
    # row, and SELECT … INTO takes longer. Together a quarter of what the trigger costs. A read in an operand locks like any other.
    seen = f"(SELECT highest FROM {TABLE} WHERE fence = X'{fence.encode().hex().upper()}' LOCK IN SHARE MODE)"  # noqa: S608  (names and digits of ours)
    # CAST: what was presented as a text would be compared as a floating-point number, for which 2⁵³ and 2⁵³ + 1 are one.
    shown = f"CAST(@{variable_of(fence)} AS SIGNED)"
    # Not IF … <> …: that is no more true than this one if there is no such fence, or no token. Then nothing may be written.
    return (
        f"IF {seen} = {shown} THEN BEGIN END; ELSEIF {shown} IS NULL THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {MISSING}, "
        f"MESSAGE_TEXT = 'tenure: this session has presented no token (@{variable_of(fence)}) for the fence of this table'; "
        f"ELSEIF {shown} < {seen} THEN SET @tenure_told = CONCAT('tenure: token ', {shown}, ' is stale: the highest seen is ', {seen}); "
        f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {STALE}, MESSAGE_TEXT = @tenure_told; "
        f"ELSE SET @tenure_told = CONCAT('tenure: token ', {shown}, ' was never sealed: the highest seen is ', COALESCE({seen}, 0)); "
        f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {UNVERIFIED}, MESSAGE_TEXT = @tenure_told; END IF"
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
