"""A URL that names several hosts, as clusters have it: ``scheme://user:password@h1:1,h2:1/path?option=value``."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tenure.errors import ConfigError, redact

_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+)(?::(?P<port>\d{1,5}))?\Z")
_PORT_MAX: Final = 65535
_NAME_MARKS: Final = "._-"


@dataclass(frozen=True, slots=True)
class ClusterURL:
    """The parts of such a URL. ``shown`` is what may be printed."""

    scheme: str
    endpoints: tuple[str, ...]  # "host:port", IPv6 in brackets
    path: str  # without its first slash
    options: dict[str, str]
    user: str | None
    password: str | None = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without user, password and options."""
        return f"{self.scheme}://{','.join(self.endpoints)}" + (f"/{self.path}" if self.path else "")


def cluster_of(url: str, default_port: int, known_options: frozenset[str]) -> ClusterURL:
    """Return the parts of ``url``. Raises ConfigError for one that cannot be meant."""
    try:
        parts = urlsplit(url)
    except ValueError:  # Its text may quote the password.
        raise ConfigError("store", redact(url), "is no URL: write odd characters of a password as %XX") from None
    if "@" in parts.path + parts.query + parts.fragment:
        # A password with one of these in it ends too early, and the rest of it would be taken for a host and shown.
        raise ConfigError("store", redact(url), "has an @ behind its hosts: write / ? # of a password as %2F %3F %23")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = userinfo.partition(":")
    endpoints = tuple(_endpoint(url, host, default_port) for host in hosts.split(","))
    if len(set(endpoints)) < len(endpoints):
        raise ConfigError("store", redact(url), "names a host twice")
    if parts.fragment:
        raise ConfigError("store", redact(url), "has a fragment (#…), which means nothing here: write # as %23")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in sorted(options.keys() - known_options):
        known = ", ".join(sorted(known_options))
        raise ConfigError(
            "store", redact(url), f"has an option {name!r} that {parts.scheme}:// does not know, only {known}"
        )
    path = unquote(parts.path.removeprefix("/"))
    return ClusterURL(
        parts.scheme, endpoints, path, options, unquote(user) or None, unquote(password) if colon else None
    )


def _endpoint(url: str, host: str, default_port: int) -> str:
    found = _HOST.match(host)
    if found is None or not (host.startswith("[") or _is_name(found["host"])):
        raise ConfigError(
            "store",
            redact(url),
            "has a part that is no host: write host, host:port or [ipv6]:port, with commas between",
        )
    port = int(found["port"] or default_port)
    if not 0 < port <= _PORT_MAX:
        raise ConfigError("store", redact(url), f"has port {port}, which is not between 1 and {_PORT_MAX}")
    return f"{found['host']}:{port}"


def _is_name(host: str) -> bool:
    """Say whether a name can be looked up: whoever tries with another one hears of it by all kinds of errors."""
    try:
        host.encode("idna")  # Refuses an empty part, and one of more than 63 characters.
    except UnicodeError:
        return False
    return all(character.isalnum() or character in _NAME_MARKS for character in host)
