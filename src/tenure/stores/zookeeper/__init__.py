"""ZooKeeper as an engine: the election of kazoo and Curator, with tokens and without their gaps.

``names`` knows what the nodes mean and ``queue`` reads them; ``leases`` are sessions, ``roster`` keeps who stands by them and
``candidacy`` gets them into office; ``survey`` asks about others; ``store`` is what an event loop sees. The client below is
``tenure.clients.zookeeper``.
"""

from tenure.clients.zookeeper.settings import settings_of
from tenure.stores.zookeeper.store import ZooKeeperStore

__all__ = ["ZooKeeperStore", "from_url"]


def from_url(url: str, **options: str) -> ZooKeeperStore:
    """Return a store for ``zookeeper://h1,h2,h3/chroot``, or ``zookeepers://`` for TLS; ``settings_of`` knows the options.

    Election ``x`` is the node ``/x`` below the chroot: what ``Election(client, "/x")`` is to kazoo and
    ``LeaderLatch(client, "/x")`` to Curator.
    """
    return ZooKeeperStore(settings_of(url, **options))
