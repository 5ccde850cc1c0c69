"""Clusters that tests share, each whole at the beginning of a test and whatever at its end."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import KubernetesCluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cluster(kubernetes: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """An API server over three nodes of etcd. A test may leave them in any state."""
    yield kubernetes
    kubernetes.mend()
