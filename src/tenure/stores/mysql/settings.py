"""From a URL to settings: ``mysql://user:password@h1,h2:3307/database?ssl_ca=…&prefix=…``."""

import os
import re
import ssl
from dataclasses import dataclass, field, replace
from typing import Final

from tenure.clients.address import cluster_of
from tenure.clients.mysql import MYSQL_TLS_OPTIONS, encryption_of
from tenure.clients.options import options_of
from tenure.errors import ConfigError
from tenure.stores.sql.settings import SQL_OPTIONS, SqlSettings, sql_settings_of

_PORT: Final = 3306
_OPTIONS: Final = SQL_OPTIONS | MYSQL_TLS_OPTIONS | {"prefix"}
_PREFIX: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")


@dataclass(frozen=True, slots=True)
class MySqlSettings:
    """Where the database is, and how to speak to it."""

    sql: SqlSettings
    prefix: str
    mode: str
    tls: ssl.SSLContext | None = field(repr=False)


def settings_of(url: str, **options: str) -> MySqlSettings:
    """Return the settings that ``url`` names. Raises ConfigError for one that cannot be meant.

    How to encrypt is said as ``encryption_of`` has it. ``password_file`` is a file with nothing but the password; without one, MYSQL_PWD counts. ``prefix`` is what the names of the tables begin with, ``expiry`` whose clock ends a
    lease (``engine`` or ``observer``), ``poll`` how often a standby looks at least, and ``timeout`` the longest that one request may
    take, in seconds. Of several hosts the one is used that takes writes. Each may stand in the URL too.
    """
    cluster = cluster_of(url, _PORT, _OPTIONS)
    given = options_of(cluster, options, _OPTIONS)
    sql = sql_settings_of(cluster, given)
    if not sql.user or not sql.database:
        missing = "user" if not sql.user else "database"
        raise ConfigError("store", cluster.shown, f"names no {missing}: write mysql://user:password@host/database")
    if sql.password is None:
        sql = replace(sql, password=os.environ.get("MYSQL_PWD", ""))
    prefix = given.get("prefix", "tenure_")
    if not _PREFIX.match(prefix):
        raise ConfigError("prefix", prefix, "must be lower case letters, digits and _, 40 at most")
    mode, tls = encryption_of(given)
    return MySqlSettings(sql, prefix, mode, tls)
