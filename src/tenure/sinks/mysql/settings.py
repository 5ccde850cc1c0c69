"""A URL such as ``mysql://user:password@host:3306/database?ssl_ca=ca.pem``, as the arguments that drivers take."""

from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tenure.clients.mysql import MYSQL_TLS_OPTIONS, encryption_of
from tenure.clients.options import secret_in
from tenure.errors import ConfigError, redact

_PORT: Final = 3306
_CHARSET: Final = "utf8mb4"
_OPTIONS: Final = MYSQL_TLS_OPTIONS | {"password_file", "charset"}


def arguments_of(url: str) -> dict[str, Any]:
    """Return what asyncmy and PyMySQL take. Raises ConfigError for a URL that cannot be meant.

    The options of the URL are those of a store that concern the connection, and a ``charset`` that may be said and not chosen.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError:  # Its text may quote the password.
        raise ConfigError(
            "url", redact(url), "must name one server, as mysql://user:password@host:3306/database"
        ) from None
    database = unquote(parts.path.removeprefix("/"))
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if (
        parts.scheme not in {"mysql", "mariadb"}
        or not parts.hostname
        or "," in parts.netloc
        or not database
        or not given.keys() <= _OPTIONS
    ):
        rule = f"must be mysql://user:password@host:3306/database, with none but these options: {', '.join(sorted(_OPTIONS))}"
        raise ConfigError("url", redact(url), rule)
    if given.get("charset", _CHARSET) != _CHARSET:
        raise ConfigError("charset", given["charset"], f"must be {_CHARSET}: others cannot hold every text")
    if parts.password is not None and "password_file" in given:
        raise ConfigError("url", redact(url), "has a password in two places: leave it out, or leave out password_file")
    secret = (
        secret_in("password_file", given["password_file"])
        if "password_file" in given
        else unquote(parts.password or "")
    )
    tls = encryption_of(given).tls
    return {
        "host": parts.hostname,
        "port": port,
        "user": unquote(parts.username or ""),
        "password": secret,
        "database": database,
        **({} if tls is None else {"ssl": tls}),
    }
