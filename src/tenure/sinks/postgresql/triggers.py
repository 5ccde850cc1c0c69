"""Triggers that refuse whatever is written to a table by a transaction that has presented no valid token.

They cover SQL that knows nothing of tenure, from any program: INSERT, UPDATE, DELETE, MERGE, COPY, TRUNCATE, and cascades of
foreign keys. Valid is the token that the fence stands at: neither a lower one nor one that was never sealed.

They do not cover what fires no trigger: DROP and ALTER TABLE, sessions with ``session_replication_role = replica`` (as
logical replication has), triggers that were disabled, and partitions and children that were added since: a statement trigger belongs to
the table that a statement names, so each is given its own. Nor are they access control: whoever owns the table can
drop them, and whoever can write can present any token.

Each fence has a function of its own, in which its name stands as a literal. One function for all of them would have the name from the
trigger's arguments, and with it the key of the lock and the name of the setting: read, hashed and put together anew with every statement, which
is two fifths of what the trigger costs (ADR 0034). The name is an argument all the same, so that it can be told which fence a table has.
"""

from hashlib import md5
from typing import Final

from tenure.errors import ConfigError
from tenure.sinks.postgresql.schema import LOCK_SEED, SCHEMA, literal, setting_of
from tenure.sinks.sql.talk import Ask, Talk, Trouble

NAME: Final = "tenure_fence"
# Before, per statement, on insert, delete, update and truncate: what pg_trigger says of a trigger that has all of these.
_ALL_EVENTS: Final = 2 + 4 + 8 + 16 + 32

_FAMILY = (
    "WITH RECURSIVE family AS (SELECT to_regclass($1)::oid AS oid UNION "
    "SELECT inhrelid FROM pg_inherits JOIN family ON inhparent = family.oid) "
)
_FIND = f"""{_FAMILY}
SELECT part.relkind::text, space.nspname, format('%I.%I', space.nspname, part.relname) FROM pg_class AS part
JOIN pg_namespace AS space ON space.oid = part.relnamespace WHERE part.oid IN (SELECT oid FROM family)
"""  # noqa: S608  (no values in it)
# What inherits is written by statements that name what it inherits from, whose triggers are those that fire.
_ELDERS = f"""{_FAMILY}
SELECT inhparent::regclass::text FROM pg_inherits
WHERE inhrelid IN (SELECT oid FROM family) AND inhparent NOT IN (SELECT oid FROM family)
"""  # noqa: S608  (no values in it)
_FENCED = (
    "SELECT format('%I.%I', nspname, relname), "
    "convert_from(substring(tgargs from 1 for length(tgargs) - 1), getdatabaseencoding()), proname::text "
    "FROM pg_trigger JOIN pg_class AS fenced ON fenced.oid = tgrelid JOIN pg_namespace AS space ON space.oid = relnamespace "
    "JOIN pg_proc ON pg_proc.oid = tgfoid "
    "WHERE tgname = $1 AND tgtype = $2 AND tgenabled IN ('O', 'A') ORDER BY 1"
)


_SOURCE = "SELECT prosrc FROM pg_proc WHERE oid = to_regprocedure($1)"
# What is true holds the lock, in whichever order the two are looked at; and the read, which is the next statement, has a snapshot of its own,
# taken after it. At other levels than READ COMMITTED, and for whatever else is not plainly right, ``judge_shown`` takes the lock and reads.
_CHECK = """
DECLARE
  found_highest pg_catalog.int8;
BEGIN
  IF pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended({fence}, {seed})) IS NOT NULL
      AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'::pg_catalog.text THEN
    SELECT known.highest INTO found_highest FROM tenure_fence.fences AS known WHERE known.fence OPERATOR(pg_catalog.=) {fence};
    IF found_highest::pg_catalog.text OPERATOR(pg_catalog.=) pg_catalog.current_setting({setting}, true) THEN
      RETURN NULL;
    END IF;
  END IF;
  PERFORM tenure_fence.judge_shown({fence}, pg_catalog.current_setting({setting}, true));
  RETURN NULL;
END
"""


def install(table: str, fence: str) -> Talk[None]:
    """Give a table, its partitions and what inherits from it their triggers; change nothing where they are in place."""
    known = {name: told for name, *told in (yield Ask(_FENCED, (NAME, _ALL_EVENTS)))}
    names = yield from _tables(table)
    for (elder,) in (yield Ask(_ELDERS, (table,))):
        raise ConfigError("table", table, f"must not be written through another: install the triggers on {elder}")
    function, source = _function_of(fence), _source_of(fence)
    if (yield Ask(_SOURCE, (f"{SCHEMA}.{function}()",))) != [(source,)]:
        yield Ask(_create_function_sql(function, source))
    for name in names:
        # There is none, or that of another fence, or the one that older versions had for all fences.
        if known.get(name) != [fence, function]:
            yield Ask(_create_sql(name, fence, function))


def remove(table: str) -> Talk[None]:
    """Take the triggers from a table and its partitions. The function of the fence stays: others may be about to use it."""
    for name in (yield from _tables(table)):
        yield Ask(f"DROP TRIGGER IF EXISTS {NAME} ON {name}")


def fenced() -> Talk[dict[str, str]]:
    """Return the tables whose triggers are complete and enabled, and the fence of each."""
    rows = yield Ask(_FENCED, (NAME, _ALL_EVENTS))
    return {name: fence for name, fence, _ in rows}


def _function_of(fence: str) -> str:
    return f"check_{md5(fence.encode(), usedforsecurity=False).hexdigest()}"


def _source_of(fence: str) -> str:
    name = f"{literal(fence).strip()}::pg_catalog.text"
    # The key of the lock is worked out once for each session; the name of the setting is here, as ``present`` works it out.
    return _CHECK.format(fence=name, setting=f"'{setting_of(fence)}'", seed=LOCK_SEED)


def _create_function_sql(function: str, source: str) -> str:
    # Under the lock of ``SET_UP``: of two that make one function at once, one would fail.
    return (
        f"BEGIN; SELECT pg_advisory_xact_lock({LOCK_SEED}); CREATE OR REPLACE FUNCTION {SCHEMA}.{function}() RETURNS trigger "  # noqa: S608
        f"LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS {literal(source)}; "
        f"REVOKE ALL ON FUNCTION {SCHEMA}.{function}() FROM PUBLIC; COMMIT"
    )


def _create_sql(table: str, fence: str, function: str) -> str:
    """Return the SQL that gives a table its trigger, in place of one that it has."""
    return (
        f"BEGIN; DROP TRIGGER IF EXISTS {NAME} ON {table}; CREATE TRIGGER {NAME} "
        f"BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.{function}({literal(fence)}); COMMIT"
    )


def _tables(table: str) -> Talk[list[str]]:
    try:
        rows = yield Ask(_FIND, (table,))
    except Trouble as trouble:
        if not trouble.code.startswith("42"):
            raise
        raise ConfigError("table", table, f"must be a name as SQL has it: {trouble.text}") from trouble
    kinds = {kind for kind, _, _ in rows}
    if not kinds:
        raise ConfigError("table", table, "must be a table of this database")
    if kinds - {"r", "p"}:
        raise ConfigError("table", table, "must be an ordinary table: a view and a foreign table are written elsewhere")
    if any(space == SCHEMA for _, space, _ in rows):
        raise ConfigError("table", table, "must be another than the one that the fences are kept in")
    return [name for _, _, name in rows]
