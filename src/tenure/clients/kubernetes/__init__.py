"""A client of the Kubernetes API: who asks, how the API server is reached, requests and watches. Objects are plain dicts.

``settings`` reads a URL, ``kubeconfig`` and ``in_cluster`` say where the API server is and who asks, ``credentials`` keep that
fresh; ``failures`` knows what an answer means; ``client`` asks and ``watch`` listens.
"""

from tenure.clients.kubernetes.client import KubernetesClient
from tenure.clients.kubernetes.failures import Conflict, Gone, NotThere
from tenure.clients.kubernetes.settings import Settings, settings_of

__all__ = ["Conflict", "Gone", "KubernetesClient", "NotThere", "Settings", "settings_of"]
