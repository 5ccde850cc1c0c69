"""From a URL to settings: ``consul://token@h1,h2,h3/prefix?ca=…``, or ``consuls://`` for TLS."""

import os
import ssl
from dataclasses import dataclass, field
from typing import Final

from tenure.clients.address import ClusterURL, cluster_of
from tenure.clients.options import TLS_OPTIONS, options_of, seconds_of, secret_in, tls_of
from tenure.errors import ConfigError

_PORTS: Final = {"consul": 8500, "consuls": 8501}
_SCOPES: Final = ("dc", "ns", "partition")
_OPTIONS: Final = TLS_OPTIONS | {*_SCOPES, "token_file", "lock_delay", "timeout"}
_TIMEOUT_S: Final = "2"
_TIMEOUT_MAX_S: Final = 60.0
_LOCK_DELAY_MAX_S: Final = 60.0  # The engine takes more, and makes this of it.


@dataclass(frozen=True, slots=True)
class Settings:
    """Where Consul is, and how to speak to it."""

    endpoints: tuple[str, ...]
    address: str  # what may be printed
    prefix: str = ""  # what goes before every key; empty, or ends in a slash
    tls: ssl.SSLContext | None = None
    token: str = field(default="", repr=False)
    token_file: str = ""
    scope: tuple[tuple[str, str], ...] = ()  # datacentre, namespace and partition, as every request names them
    lock_delay_ns: int | None = None  # None: by whether there is a fence
    timeout_s: float = float(_TIMEOUT_S)

    def read_token(self) -> str:
        """Return the token as it is now: whoever changes a token changes the file."""
        token = secret_in("token_file", self.token_file).strip() if self.token_file else self.token
        if (
            not token.isascii() or not token.isprintable()
        ):  # It goes into a header, where a line's end would begin another.
            where = ("token_file", self.token_file) if self.token_file else ("token", "***")
            raise ConfigError(*where, "is not one line of printable ASCII, as a token is: copy it anew")
        return token


def settings_of(url: str, **options: str) -> Settings:
    """Return the settings that ``url`` names. Raises ConfigError for one that cannot be meant.

    ``ca``, ``cert`` and ``key`` are files; ``token_file`` keeps the ACL token out of the URL, and is read again when the
    token is refused; without either, CONSUL_HTTP_TOKEN and CONSUL_HTTP_TOKEN_FILE are looked at, as Consul's own programs
    do. ``dc``, ``ns`` and ``partition`` are Consul's; by ``dc`` one can look, but not stand. ``lock_delay`` is for how long an office stays empty after its session
    was ended by somebody else, and ``timeout`` the longest that one request may take, in seconds. Each may stand in the URL
    too, as ``?ca=…``.
    """
    scheme = url.partition(":")[0]
    cluster = cluster_of(url, _PORTS.get(scheme, _PORTS["consul"]), _OPTIONS)
    given = options_of(cluster, options, _OPTIONS)
    token, token_file = _token(cluster, given)
    delay_s = None
    if "lock_delay" in given:
        delay_s = seconds_of("lock_delay", given["lock_delay"], _LOCK_DELAY_MAX_S, least_s=0)
    settings = Settings(
        cluster.endpoints,
        cluster.shown,
        _prefix(cluster),
        tls_of(cluster, given),
        token,
        token_file,
        tuple((name, given[name]) for name in _SCOPES if name in given),
        None if delay_s is None else round(delay_s * 10**9),
        seconds_of("timeout", given.get("timeout", _TIMEOUT_S), _TIMEOUT_MAX_S),
    )
    settings.read_token()
    return settings


def _prefix(cluster: ClusterURL) -> str:
    path = cluster.path.strip("/")
    if any(part in {"", ".", ".."} for part in path.split("/")) and path:
        raise ConfigError("store", cluster.shown, "has an empty part, '.' or '..' in its path, which no key can have")
    return f"{path}/" if path else ""


def _token(cluster: ClusterURL, given: dict[str, str]) -> tuple[str, str]:
    """Return the token, or the file that it is in: the first place that has one."""
    in_url = cluster.password or cluster.user or ""
    if in_url or "token_file" in given:
        if in_url and "token_file" in given:
            raise ConfigError(
                "store", cluster.shown, "names a token in two places: leave it out, or leave out token_file"
            )
        if not in_url and not given["token_file"]:
            raise ConfigError("token_file", "''", "is empty: name a file, or leave it out to use CONSUL_HTTP_TOKEN")
        return in_url, given.get("token_file", "")
    token = os.environ.get("CONSUL_HTTP_TOKEN", "")
    return token, "" if token else os.environ.get("CONSUL_HTTP_TOKEN_FILE", "")
