"""From a URL to what a session needs: ``zookeeper://user:password@h1,h2,h3/chroot``, or ``zookeepers://`` for TLS."""

import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from tenure.clients.address import ClusterURL, cluster_of
from tenure.clients.options import TLS_OPTIONS, check_login, options_of, password_of, seconds_of, tls_of
from tenure.clients.zookeeper.wire import ANYBODY, CREATOR, Acl
from tenure.errors import ConfigError

_PORT: Final = 2181
_OPTIONS: Final = TLS_OPTIONS | {"acl", "password_file", "sasl", "tick", "timeout"}
_ACLS: Final = {"open": ANYBODY, "creator": CREATOR}
_MECHANISMS: Final = ("DIGEST-MD5", "GSSAPI")
_TIMEOUT_S: Final = 5.0
_SECONDS_MAX: Final = 600.0


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are. ``mechanism`` is SASL's; empty: ZooKeeper's own digest."""

    user: str
    password: str = field(repr=False)
    mechanism: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where an ensemble is, and how to speak to it."""

    endpoints: tuple[str, ...]
    address: str  # what may be printed
    chroot: str = ""  # empty, or begins with a slash and does not end in one
    tls: ssl.SSLContext | None = None
    login: Login | None = None
    acl: Acl = ANYBODY  # of every node that we create
    tick_ms: int | None = None  # None: worked out from the bounds of a session's timeout
    timeout_s: float = _TIMEOUT_S  # how long one server may take to say hello


def settings_of(url: str, **options: str) -> Settings:
    """Return the settings that ``url`` names. Raises ConfigError for one that cannot be meant.

    ``ca``, ``cert`` and ``key`` are files; ``password_file`` keeps the password out of the URL; ``sasl`` is DIGEST-MD5 or
    GSSAPI (which has not been tested); ``acl`` is ``open`` or ``creator`` (nodes for everybody, or only for who we are: the default if there is a
    user); ``tick`` is the ensemble's tickTime and ``timeout`` how long a server may take to answer, in seconds. Each may
    stand in the URL too, as ``?ca=…``.
    """
    cluster = cluster_of(url, _PORT, _OPTIONS)
    given = options_of(cluster, options, _OPTIONS)
    tls = tls_of(cluster, given)
    login = _login(cluster, given)
    acl = given.get("acl", "open" if login is None else "creator")
    if acl not in _ACLS:
        raise ConfigError("acl", acl, f"must be one of {', '.join(_ACLS)}")
    tick_s = seconds_of("tick", given["tick"], _SECONDS_MAX) if "tick" in given else None
    return Settings(
        cluster.endpoints,
        cluster.shown,
        _chroot(cluster),
        tls,
        login,
        _ACLS[acl],
        None if tick_s is None else round(tick_s * 1000),
        seconds_of("timeout", given.get("timeout", str(_TIMEOUT_S)), _SECONDS_MAX),
    )


def _chroot(cluster: ClusterURL) -> str:
    path = cluster.path.strip("/")
    if any(part in {"", ".", ".."} for part in path.split("/")) and path:
        raise ConfigError("store", cluster.shown, "has an empty part, '.' or '..' in its path, which no node can have")
    return f"/{path}" if path else ""


def _login(cluster: ClusterURL, given: dict[str, str]) -> Login | None:
    mechanism = given.get("sasl", "")
    if mechanism and mechanism not in _MECHANISMS:
        raise ConfigError("sasl", mechanism, f"must be one of {', '.join(_MECHANISMS)}")
    if mechanism and find_spec("puresasl") is None:
        raise ConfigError("sasl", mechanism, "needs a package: pip install 'tenure[zookeeper]'")
    user, password = cluster.user, password_of(cluster, given)
    if mechanism == "GSSAPI":  # A ticket says who we are.
        if find_spec("kerberos") is None:
            raise ConfigError("sasl", mechanism, "needs another package: pip install 'pure-sasl[gssapi]'")
        return Login(user or "", password or "", mechanism)
    check_login(cluster, password)
    if user is None or password is None:
        if mechanism:
            raise ConfigError("sasl", mechanism, "needs a user and a password: write zookeeper://user:password@…")
        return None
    return Login(user, password, mechanism)
