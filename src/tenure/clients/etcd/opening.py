"""From a URL to a client of etcd: ``etcd://user:password@h1,h2,h3/prefix?ca=…``, or ``etcds://`` for TLS."""

from pathlib import Path
from typing import Final

from tenure.clients.address import ClusterURL, cluster_of
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.tls import tls_context
from tenure.errors import ConfigError, redact

_PORT: Final = 2379
_OPTIONS: Final = frozenset({"ca", "cert", "key", "password_file", "timeout"})
_TIMEOUT_S: Final = "2"
_TIMEOUT_MAX_S: Final = 60.0


def etcd_url(url: str) -> ClusterURL:
    """Return the parts of the URL. Raises ConfigError for one that cannot be meant."""
    return cluster_of(url, _PORT, _OPTIONS)


def client_of(url: str, **options: str) -> EtcdClient:
    """Return a client for ``url``, not yet opened.

    ``ca``, ``cert`` and ``key`` are files, as in ``etcdctl``; ``password_file`` keeps the password out of the URL;
    ``timeout`` is the longest that one request may take, in seconds. Each may stand in the URL too, as ``?ca=…``.
    """
    cluster = etcd_url(url)
    for name in sorted(options.keys() - _OPTIONS):
        raise ConfigError("store options", name, f"is not one of {', '.join(sorted(_OPTIONS))}")
    given = {**cluster.options, **options}
    tls = None
    if cluster.scheme == "etcds":
        tls = tls_context(given.get("ca"), given.get("cert"), given.get("key"))
    elif not given.keys().isdisjoint({"ca", "cert", "key"}):
        raise ConfigError("store", redact(url), "has certificates but is not encrypted: write etcds://")
    return EtcdClient(
        cluster.endpoints,
        tls=tls,
        user=cluster.user,
        password=_password(cluster, given.get("password_file")),
        call_timeout_s=_timeout_s(given.get("timeout", _TIMEOUT_S)),
        address=cluster.shown,
    )


def _password(cluster: ClusterURL, path: str | None) -> str | None:
    password = cluster.password
    if path is not None:
        try:
            password = Path(path).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, ValueError) as error:
            raise ConfigError("password_file", path, f"cannot be read: {error}") from error
    if (cluster.user is None) != (password is None):
        missing = "a user but no password" if password is None else "a password but no user"
        raise ConfigError("store", cluster.shown, f"has {missing}: write etcd://user:password@… or add password_file=")
    return password


def _timeout_s(text: str) -> float:
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s <= _TIMEOUT_MAX_S:
        raise ConfigError("timeout", text, f"must be a number of seconds up to {_TIMEOUT_MAX_S:g}")
    return timeout_s
