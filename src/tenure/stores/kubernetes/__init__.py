"""Kubernetes as an engine: a Lease for each election, as client-go has it, with tokens and without its polling.

``names`` maps elections to Leases; ``lease`` knows what is in one; ``sightings`` count how long a Lease has not changed;
``store`` is what an event loop sees; ``examine`` and ``rights`` are for ``tenure doctor``. The client below is
``tenure.clients.kubernetes``.
"""

from tenure.clients.kubernetes.settings import settings_of
from tenure.stores.kubernetes.store import KubernetesStore

__all__ = ["KubernetesStore", "from_url"]


def from_url(url: str, **options: str) -> KubernetesStore:
    """Return a store for ``kubernetes://namespace``; ``settings_of`` knows the options.

    Election ``x`` is the Lease ``x`` in that namespace: what a program on client-go's ``leaderelection`` has under that name.
    """
    return KubernetesStore(settings_of(url, **options))
