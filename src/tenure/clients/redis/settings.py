"""From a URL to settings: ``redis://user:password@host:6379/0?prefix=…``, ``rediss://`` for TLS, Sentinels and Redlock.

The forms are those that users of Redis know: a database by its number behind the host, and for Sentinels
``redis+sentinel://h1,h2,h3/service/0``, as the package redis-sentinel-url made it known.
"""

import re
import ssl
from dataclasses import dataclass, field
from typing import Final

from tenure.clients.address import ClusterURL, cluster_of
from tenure.clients.options import TLS_OPTIONS, options_of, password_of, seconds_of, secret_in
from tenure.clients.tls import tls_context
from tenure.errors import ConfigError

SENTINEL: Final = "+sentinel"
REDLOCK: Final = ("redlock", "redlocks")
ENCRYPTED: Final = {"redis": "rediss", f"redis{SENTINEL}": f"rediss{SENTINEL}", "redlock": "redlocks"}
_PORT, _SENTINEL_PORT = 6379, 26379
_SENTINEL_OPTIONS: Final = frozenset({"sentinel_user", "sentinel_password_file"})
_OPTIONS: Final = TLS_OPTIONS | {"prefix", "password_file", "timeout"} | _SENTINEL_OPTIONS
_TIMEOUT_S: Final = "2"
_TIMEOUT_MAX_S: Final = 60.0
_DB_MAX: Final = 2**31 - 1
_PREFIX: Final = re.compile(r"[\x21-\x7e]{1,200}")
# Fewer cannot outvote one that is gone, and each more is one more to ask.
_REDLOCK_MIN, _REDLOCK_MAX = 3, 9


@dataclass(frozen=True, slots=True)
class Settings:
    """Where Redis is, and how to speak to it."""

    endpoints: tuple[str, ...]  # of Sentinels, if there is a service
    address: str  # what may be printed
    service: str = ""  # what Sentinels call the primary; empty: there are none
    db: int = 0
    prefix: str = "tenure"  # what every key and channel begins with, a colon behind it
    tls: ssl.SSLContext | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    sentinel_user: str = ""
    sentinel_password: str = field(default="", repr=False)
    timeout_s: float = float(_TIMEOUT_S)


def settings_of(url: str, **options: str) -> Settings:
    """Return the settings that ``url`` names. Raises ConfigError for one that cannot be meant.

    ``ca``, ``cert`` and ``key`` are files; ``password_file`` keeps the password out of the URL. ``prefix`` is what every key
    begins with, ``tenure`` if it is not given. ``sentinel_user`` and ``sentinel_password_file`` are for Sentinels that have
    a password of their own. ``timeout`` is the longest that one request may take, in seconds. Each may stand in the URL too.
    """
    scheme = url.partition(":")[0]
    is_sentinel = scheme.endswith(SENTINEL)
    cluster = cluster_of(url, _SENTINEL_PORT if is_sentinel else _PORT, _OPTIONS)
    given = options_of(cluster, options, _OPTIONS)
    if not is_sentinel and not given.keys().isdisjoint(_SENTINEL_OPTIONS):
        raise ConfigError(
            "store", cluster.shown, f"has options of Sentinels: write {scheme}+sentinel://h1,h2,h3/service"
        )
    service, db = _place(cluster, is_sentinel=is_sentinel)
    _check_count(cluster, is_sentinel=is_sentinel)
    prefix = given.get("prefix", "tenure")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError("prefix", prefix, "must be 1 to 200 printable ASCII characters without spaces")
    password = password_of(cluster, given) or ""
    if cluster.user and not password:
        raise ConfigError(
            "store",
            cluster.shown,
            f"has a user but no password: write {scheme}://user:password@… or add password_file=",
        )
    return Settings(
        cluster.endpoints,
        cluster.shown,
        service,
        db,
        prefix,
        _tls(cluster, given),
        cluster.user or "",
        password,
        given.get("sentinel_user", ""),
        secret_in("sentinel_password_file", given["sentinel_password_file"])
        if "sentinel_password_file" in given
        else "",
        seconds_of("timeout", given.get("timeout", _TIMEOUT_S), _TIMEOUT_MAX_S),
    )


def _place(cluster: ClusterURL, *, is_sentinel: bool) -> tuple[str, int]:
    """Return the name of the service, if there are Sentinels, and the number of the database."""
    service, number = "", cluster.path
    if is_sentinel:
        service, _, number = cluster.path.partition("/")
        if not service:
            raise ConfigError(
                "store", cluster.shown, "does not say which primary: write redis+sentinel://h1,h2,h3/mymaster"
            )
    if number and not (number.isascii() and number.isdigit() and int(number) <= _DB_MAX):
        raise ConfigError(
            "store", cluster.shown, "has a path that is no number of a database: write /0, or leave it out"
        )
    return service, int(number or 0)


def _check_count(cluster: ClusterURL, *, is_sentinel: bool) -> None:
    count = len(cluster.endpoints)
    if cluster.scheme in REDLOCK:
        if not _REDLOCK_MIN <= count <= _REDLOCK_MAX:
            rule = (
                f"names {count} servers: Redlock needs an odd number from {_REDLOCK_MIN} to {_REDLOCK_MAX}, usually 5"
            )
            raise ConfigError("store", cluster.shown, rule)
        if count % 2 == 0:
            rule = f"names {count} servers, which tolerate no more than {count - 1} do: leave one out, or add one"
            raise ConfigError("store", cluster.shown, rule)
    elif count > 1 and not is_sentinel:
        rule = "names several servers: write redis+sentinel://… for Sentinels, redlock://… for servers by themselves"
        raise ConfigError("store", cluster.shown, rule)


def _tls(cluster: ClusterURL, given: dict[str, str]) -> ssl.SSLContext | None:
    if cluster.scheme in ENCRYPTED.values():
        return tls_context(given.get("ca"), given.get("cert"), given.get("key"))
    if not given.keys().isdisjoint(TLS_OPTIONS):
        rule = f"has certificates but is not encrypted: write {ENCRYPTED[cluster.scheme]}://"
        raise ConfigError("store", cluster.shown, rule)
    return None
