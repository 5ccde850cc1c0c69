"""Consul as an engine: the lock of Consul's own ``api.Lock`` and of ``consul lock``, with tokens and without their gaps.

``layout`` knows what a key means; ``agent`` what must be known before anybody stands; ``sessions`` keeps sessions alive and
shared; ``waits`` shares waits; ``roll`` and ``survey`` ask; ``store`` is what an event loop sees. The client below is ``tenure.clients.consul``.
"""

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.settings import settings_of
from tenure.stores.consul.store import ConsulStore

__all__ = ["ConsulStore", "from_url"]


def from_url(url: str, **options: str) -> ConsulStore:
    """Return a store for ``consul://host/prefix``, or ``consuls://`` for TLS; ``settings_of`` knows the options.

    The prefix goes before the names of the elections, with a slash between. Without one, election ``x`` here is what
    ``consul lock x`` has, and ``LockKey("x/.lock")`` in Go.
    """
    return ConsulStore(ConsulClient(settings_of(url, **options)))
