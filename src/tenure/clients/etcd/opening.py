"""From a URL to a client of etcd: ``etcd://user:password@h1,h2,h3/prefix?ca=…``, or ``etcds://`` for TLS."""

from typing import Final

from tenure.clients.address import ClusterURL, cluster_of
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.options import TLS_OPTIONS, check_login, options_of, password_of, seconds_of, tls_of

_PORT: Final = 2379
_OPTIONS: Final = TLS_OPTIONS | {"password_file", "timeout"}
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
    given = options_of(cluster, options, _OPTIONS)
    password = password_of(cluster, given)
    check_login(cluster, password)
    return EtcdClient(
        cluster.endpoints,
        tls=tls_of(cluster, given),
        user=cluster.user,
        password=password,
        call_timeout_s=seconds_of("timeout", given.get("timeout", _TIMEOUT_S), _TIMEOUT_MAX_S),
        address=cluster.shown,
    )
