"""What the options of stores have in common, whether they stand in a URL or are given by name."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tenure.clients.address import ClusterURL
from tenure.clients.tls import tls_context
from tenure.errors import ConfigError

TLS_OPTIONS: Final = frozenset({"ca", "cert", "key"})


def options_of(cluster: ClusterURL, named: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    """Return the options of the URL and those given by name, which count if there are both."""
    for name in sorted(named.keys() - known):
        raise ConfigError("store options", name, f"is not one of {', '.join(sorted(known))}")
    return {**cluster.options, **named}


def tls_of(cluster: ClusterURL, given: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return what an encrypted connection needs; None if the scheme, which then has no s at its end, asks for none."""
    if cluster.scheme.endswith("s"):
        return tls_context(given.get("ca"), given.get("cert"), given.get("key"))
    if not given.keys().isdisjoint(TLS_OPTIONS):
        rule = f"has certificates but is not encrypted: write {cluster.scheme}s://"
        raise ConfigError("store", cluster.shown, rule)
    return None


def secret_in(option: str, path: str) -> str:
    """Return what is in the file that ``option`` names, without the end of its last line."""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, ValueError) as error:
        raise ConfigError(option, path, f"cannot be read: {error}") from error


def password_of(cluster: ClusterURL, given: Mapping[str, str]) -> str | None:
    """Return the password of the URL, or the one in ``password_file``."""
    return secret_in("password_file", given["password_file"]) if "password_file" in given else cluster.password


def check_login(cluster: ClusterURL, password: str | None) -> None:
    """Refuse a user without a password, and the reverse."""
    if (cluster.user is None) != (password is None):
        missing = "a user but no password" if password is None else "a password but no user"
        rule = f"has {missing}: write {cluster.scheme}://user:password@… or add password_file="
        raise ConfigError("store", cluster.shown, rule)


def seconds_of(option: str, text: str, most_s: float, *, least_s: float = 0.001) -> float:
    """Return a number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not least_s <= seconds <= most_s:  # which "nan" does not pass either
        raise ConfigError(option, text, f"must be a number of seconds from {least_s:g} to {most_s:g}")
    return seconds
