"""etcd as an engine: the election of etcd's own libraries and of ``etcdctl elect``, with tokens and without their gaps.

``layout`` knows what the keys mean; ``leases`` keeps leases alive and shared; ``roll`` and ``survey`` ask; ``store`` is what
an event loop sees. The client below is ``tenure.clients.etcd``.
"""

from tenure.clients.etcd.opening import client_of, etcd_url
from tenure.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore", "from_url"]


def from_url(url: str, **options: str) -> EtcdStore:
    """Return a store for ``etcd://h1,h2,h3/prefix``, or ``etcds://`` for TLS; ``client_of`` knows the options.

    The prefix goes before the names of the elections, with a slash between. Without one, election ``x`` here is what
    ``etcdctl elect x`` has.
    """
    path = etcd_url(url).path
    namespace = path if not path or path.endswith("/") else f"{path}/"
    return EtcdStore(client_of(url, **options), namespace=namespace)
