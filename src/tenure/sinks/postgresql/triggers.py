"""Triggers that refuse whatever is written to a table by a transaction that has presented no valid token.

They cover SQL that knows nothing of tenure, from any program: INSERT, UPDATE, DELETE, MERGE, COPY, TRUNCATE, and cascades of
foreign keys. Valid is the token that the fence stands at: neither a lower one nor one that was never sealed.

They do not cover what fires no trigger: DROP and ALTER TABLE, sessions with ``session_replication_role = replica`` (as
logical replication has), triggers that were disabled, and partitions and children that were added since: a statement trigger belongs to
the table that a statement names, so each is given its own. Nor are they access control: whoever owns the table can
drop them, and whoever can write can present any token.
"""

from typing import Final

from tenure.errors import ConfigError
from tenure.sinks.postgresql.schema import SCHEMA, literal
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
    "convert_from(substring(tgargs from 1 for length(tgargs) - 1), getdatabaseencoding()) "
    "FROM pg_trigger JOIN pg_class AS fenced ON fenced.oid = tgrelid JOIN pg_namespace AS space ON space.oid = relnamespace "
    "WHERE tgname = $1 AND tgtype = $2 AND tgenabled IN ('O', 'A') ORDER BY 1"
)


def install(table: str, fence: str) -> Talk[None]:
    """Give a table, its partitions and what inherits from it their triggers; change nothing where they are in place."""
    known = yield from fenced()
    names = yield from _tables(table)
    for (elder,) in (yield Ask(_ELDERS, (table,))):
        raise ConfigError("table", table, f"must not be written through another: install the triggers on {elder}")
    for name in names:
        if known.get(name) != fence:
            yield Ask(create_sql(name, fence))


def remove(table: str) -> Talk[None]:
    """Take the triggers from a table and its partitions."""
    for name in (yield from _tables(table)):
        yield Ask(f"DROP TRIGGER IF EXISTS {NAME} ON {name}")


def fenced() -> Talk[dict[str, str]]:
    """Return the tables whose triggers are complete and enabled, and the fence of each."""
    rows = yield Ask(_FENCED, (NAME, _ALL_EVENTS))
    return dict(rows)


def create_sql(table: str, fence: str) -> str:
    """Return the SQL that gives a table its trigger, in place of one that it has."""
    return (
        f"BEGIN; DROP TRIGGER IF EXISTS {NAME} ON {table}; CREATE TRIGGER {NAME} "
        f"BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.check_token({literal(fence)}); COMMIT"
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
