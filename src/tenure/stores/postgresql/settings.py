"""From a URL to settings: ``postgresql://user:password@h1,h2:5433/database?sslmode=verify-full&schema=…``."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from tenure.clients.address import cluster_of
from tenure.clients.options import options_of
from tenure.errors import ConfigError
from tenure.stores.sql.settings import SQL_OPTIONS, SqlSettings, sql_settings_of

_PORT: Final = 5432
_TLS_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_WRITABLE: Final = ("read-write", "primary", "any")
_OPTIONS: Final = SQL_OPTIONS | {*_TLS_FILES, "sslmode", "passfile", "schema", "target_session_attrs"}
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Where PostgreSQL is, and how to speak to it."""

    sql: SqlSettings
    schema: str
    tls: tuple[tuple[str, str], ...]  # sslmode and files, in the words of PostgreSQL's own library
    passfile: str | None

    @property
    def dsn(self) -> str:
        """What says how to encrypt, and nothing else. The files are read at every connection, so they may be replaced."""
        return f"postgresql://?{urlencode(self.tls)}"

    @property
    def mode(self) -> str:
        return dict(self.tls)["sslmode"]


def settings_of(url: str, **options: str) -> PostgresSettings:
    """Return the settings that ``url`` names. Raises ConfigError for one that cannot be meant.

    ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey`` and ``passfile`` are PostgreSQL's own, and so are PGPASSWORD and
    PGPASSFILE; ``password_file`` is a file with nothing but the password. ``schema`` is where the tables are, ``expiry`` whose
    clock ends a lease (``engine`` or ``observer``), ``poll`` how often a standby looks at least, and ``timeout`` the longest
    that one request may take, in seconds. Of several hosts the one is used that takes writes. Each may stand in the URL too.
    """
    cluster = cluster_of(url, _PORT, _OPTIONS)
    given = options_of(cluster, options, _OPTIONS)
    if given.get("target_session_attrs", "any") not in _WRITABLE:
        rule = "cannot be: elections are held where writes are taken, which is found out without this"
        raise ConfigError("target_session_attrs", given["target_session_attrs"], rule)
    schema = given.get("schema", "tenure")
    if not _SCHEMA.match(schema):
        raise ConfigError("schema", schema, "must be a name of lower case letters, digits and _, 40 at most")
    return PostgresSettings(sql_settings_of(cluster, given), schema, _tls(given), given.get("passfile"))


def _tls(given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    files = {name: given[name] for name in _TLS_FILES if name in given}
    mode = given.get("sslmode", "verify-full" if "sslrootcert" in files else "prefer")
    if mode not in _MODES:
        raise ConfigError("sslmode", mode, f"must be one of {', '.join(_MODES)}")
    for name, path in files.items():
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(name, path, f"cannot be read: {error.strerror}") from error
    if "sslkey" in files and "sslcert" not in files:
        raise ConfigError("sslkey", files["sslkey"], "needs the certificate that it belongs to: give sslcert as well")
    if files and mode == "disable":
        raise ConfigError("sslmode", mode, "is not encrypted, and certificates are given: leave one of both out")
    return (("sslmode", mode), *files.items())
