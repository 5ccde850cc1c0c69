"""Which URL is which ledger."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tenure.apps.ledger.base import Ledger
from tenure.errors import ConfigError, redact
from tenure.sinks.sql.extras import needed
from tenure.sinks.sql.flow import IDLE_S

_RULE = "must be sqlite:///absolute/path, postgresql://user@host/database or mysql://user@host/database"


def open_ledger(url: str, *, idle_s: float = IDLE_S) -> Ledger:
    """Return the ledger that a URL names. Nothing is asked of it yet; close it when it is no longer needed.

    A server ends a transaction in which nothing is said for ``idle_s``, so that a frozen leader keeps no locks for longer.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("database", redact(url), _RULE) from None
    match parts.scheme:
        case "sqlite":
            from tenure.apps.ledger.on_sqlite import SQLiteLedger  # noqa: PLC0415  (one of three)

            path = Path(unquote(parts.path))
            if (
                parts.netloc
                or parts.query
                or parts.fragment
                or not path.is_absolute()
                or not path.name
                or "\0" in str(path)
            ):
                rule = "must be sqlite:/// and an absolute path to a file, with %23 for # and %3F for ?"
                raise ConfigError("database", url, rule)
            return SQLiteLedger(path)
        case "postgresql" | "postgres":
            with needed("asyncpg", "tenure[postgresql]"):
                from tenure.apps.ledger.on_postgresql import PostgresLedger  # noqa: PLC0415
            return PostgresLedger(url, idle_s)
        case "mysql" | "mariadb":
            with needed("asyncmy", "tenure[mysql]"):
                from tenure.apps.ledger.on_mysql import MySQLLedger  # noqa: PLC0415
            return MySQLLedger(url, idle_s)
    raise ConfigError("database", redact(url), _RULE)


def is_server(url: str) -> bool:
    """Say whether a URL names a database that other machines can reach. It may be wrong in any other way."""
    return not url.startswith("sqlite:")
