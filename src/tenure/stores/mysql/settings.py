"""From a URL to settings: ``mysql://user:password@h1,h2:3307/database?ssl_ca=…&prefix=…``."""

import os
import re
import ssl
from dataclasses import dataclass, field, replace
from typing import Final

from tenure.clients.address import cluster_of
from tenure.clients.options import options_of
from tenure.clients.tls import tls_context
from tenure.errors import ConfigError
from tenure.stores.sql.settings import SQL_OPTIONS, SqlSettings, sql_settings_of

_PORT: Final = 3306
_TLS: Final = frozenset({"ssl_ca", "ssl_cert", "ssl_key"})
_MODES: Final = ("disabled", "required", "verify_ca", "verify_identity")
_OPTIONS: Final = SQL_OPTIONS | _TLS | {"ssl_mode", "prefix"}
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

    ``ssl_mode`` is ``disabled``, ``required``, ``verify_ca`` or ``verify_identity``, as for the ``mysql`` command, and the last of them
    once ``ssl_ca`` names a file; ``ssl_cert`` and ``ssl_key`` are the client's own. ``password_file`` is a file with nothing but the
    password; without one, MYSQL_PWD counts. ``prefix`` is what the names of the tables begin with, ``expiry`` whose clock ends a
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
    mode = given.get("ssl_mode", "verify_identity" if not given.keys().isdisjoint(_TLS) else "disabled")
    return MySqlSettings(sql, prefix, mode, _tls(mode, given))


def _tls(mode: str, given: dict[str, str]) -> ssl.SSLContext | None:
    if mode not in _MODES:
        raise ConfigError("ssl_mode", mode, f"must be one of {', '.join(_MODES)}")
    if mode == "disabled":
        if not given.keys().isdisjoint(_TLS):
            raise ConfigError("ssl_mode", mode, "is not encrypted, and certificates are given: leave one of both out")
        return None
    context = tls_context(given.get("ssl_ca"), given.get("ssl_cert"), given.get("ssl_key"))
    context.check_hostname = mode == "verify_identity"
    if mode == "required":
        context.verify_mode = ssl.CERT_NONE
    return context
