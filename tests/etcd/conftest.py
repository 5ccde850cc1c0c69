"""What the tests of etcd share."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import EtcdCluster
from tests.sharing import CLUSTERS


@pytest.fixture
def newest_etcd() -> EtcdCluster:
    return CLUSTERS.take("newest_etcd", EtcdCluster)


@pytest.fixture
def newest(newest_etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    """Three nodes of the newest etcd on this machine, for what takes long. A test may leave them in any state."""
    yield newest_etcd
    newest_etcd.mend()


@pytest.fixture
def cluster(etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    """Three nodes, of each etcd on this machine. A test may leave them in any state."""
    yield etcd
    etcd.mend()
