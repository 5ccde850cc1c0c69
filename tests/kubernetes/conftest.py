"""Clusters that tests share, each whole at the beginning of a test and whatever at its end; and who asks them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import service_account


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cluster(kubernetes: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """An API server over three nodes of etcd. A test may leave them in any state."""
    yield kubernetes
    kubernetes.mend()


@pytest.fixture
def configured(cluster: KubernetesCluster, tmp_path: Path) -> Callable[..., str]:
    """The URL of a store for a user and a cluster as a kubeconfig says."""

    def configured(user: dict[str, Any], server: dict[str, Any] | None = None) -> str:
        configuration = json.loads(cluster.kubeconfig.read_text())
        configuration["users"][0]["user"] = user
        configuration["clusters"][0]["cluster"] |= server or {}
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(configuration))
        return f"kubernetes://default?kubeconfig={file}"

    return configured


@pytest.fixture
def account(cluster: KubernetesCluster) -> Iterator[str]:
    """The service account that the manifest is for, with the rights of it; ``kubectl create token tenure`` gives a token."""
    with service_account(cluster) as user:
        yield user
