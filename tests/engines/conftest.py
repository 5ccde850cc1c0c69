"""Each engine whose servers form a quorum, in each version on this machine."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tenure.testing.engines import ConsulCluster, EtcdCluster, ZooKeeperEnsemble, installed

Cluster = EtcdCluster | ZooKeeperEnsemble | ConsulCluster
# An engine that is not there stands in the list without a version: starting it says what is missing.
VERSIONS = [(engine, binary) for engine in ("etcd", "zookeeper", "consul") for binary in installed(engine) or (None,)]


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: str(version[1] or version[0]))
def make(request: pytest.FixtureRequest) -> Callable[..., Cluster]:
    """Makes a cluster that notices soon that a node is gone, and not so soon that a busy machine makes it believe that."""
    engine, binary = request.param

    if engine == "zookeeper":
        return partial(ZooKeeperEnsemble, binary=binary, tick_ms=200)
    if engine == "consul":
        return partial(ConsulCluster, binary=binary)
    return partial(EtcdCluster, binary=binary)


@pytest.fixture(scope="module")
def shared(make: Callable[..., Cluster]) -> Iterator[Cluster]:
    with make() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """Three nodes, all of which serve. A test may leave them in any state."""
    yield shared
    shared.mend()
