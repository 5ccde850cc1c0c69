"""A URL such as ``mysql://user:password@host:3306/database``, as the arguments that drivers take."""

from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tenure.errors import ConfigError, redact

_PORT: Final = 3306


def arguments_of(url: str) -> dict[str, Any]:
    """Return what asyncmy and PyMySQL take. Raises ConfigError for a URL that cannot be meant."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError:  # Its text may quote the password.
        raise ConfigError(
            "url", redact(url), "must name one server, as mysql://user:password@host:3306/database"
        ) from None
    database = unquote(parts.path.removeprefix("/"))
    if (
        parts.scheme not in {"mysql", "mariadb"}
        or not parts.hostname
        or "," in parts.netloc
        or not database
        or parts.query
    ):
        rule = "must be mysql://user:password@host:3306/database; TLS and the rest are arguments of the driver"
        raise ConfigError("url", redact(url), rule)
    return {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
    }
