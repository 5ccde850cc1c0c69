"""Tables of a ledger: where they are, and how they are made by many at once."""

from typing import Final

from tenure.apps.ledger.base import Entry, Kind, Ledger
from tenure.errors import ConfigError
from tenure.sinks.sql.talk import Ask

# Each tells in which schema a table is, and what keeps it.
_WHERE: Final[dict[Kind, str]] = {
    "sqlite": "SELECT 'main', '' FROM main.sqlite_master WHERE type = 'table' AND name = ?",
    "postgresql": (
        "SELECT s.nspname::text, '' FROM pg_class t JOIN pg_namespace s ON s.oid = t.relnamespace WHERE t.oid = to_regclass(?)"
    ),
    "mysql": "SELECT table_schema, engine FROM information_schema.tables WHERE table_schema = database() AND table_name = ?",
}


def where(ledger: Ledger, table: str) -> Entry[str | None]:
    """Find a table, and return its whole name; None: there is none. Changes nothing."""
    told = yield Ask(_WHERE[ledger.kind], (table,))
    if not told.rows:
        return None
    [(schema, kept)] = told.rows
    if ledger.kind == "mysql" and kept != "InnoDB":
        rule = "must be a table of InnoDB: another would keep the record of what was rolled back"
        raise ConfigError("database", table, rule)
    mark = "`" if ledger.kind == "mysql" else '"'
    return f"{mark}{str(schema).replace(mark, mark * 2)}{mark}.{table}"


def make(ledger: Ledger, table: str, columns: str) -> Entry[bool]:
    """Make a table, unless it is there; return whether it was made."""
    if (yield from where(ledger, table)) is not None:
        return False
    if ledger.kind == "postgresql":
        # CREATE IF NOT EXISTS is not safe against another one at the same time; a lock is.
        yield Ask("SELECT pg_advisory_xact_lock(hashtext(?))", (table,))
    yield Ask(f"CREATE TABLE IF NOT EXISTS {table} ({columns}){ledger.words.kept}")
    return True
