"""Ensembles that tests share, each whole at the beginning of a test and whatever at its end."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import Binary, ZooKeeperEnsemble
from tests.sharing import CLUSTERS, TICK_MS


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ensemble(zookeeper: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes, of each ZooKeeper on this machine."""
    yield zookeeper
    zookeeper.mend()


@pytest.fixture
def newest_zookeeper() -> ZooKeeperEnsemble:
    return CLUSTERS.take("newest_zookeeper", lambda: ZooKeeperEnsemble(tick_ms=TICK_MS))


@pytest.fixture
def newest(newest_zookeeper: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes of the newest ZooKeeper on this machine."""
    yield newest_zookeeper
    newest_zookeeper.mend()


@pytest.fixture
def own_ensemble(zookeeper_binary: Binary | None) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes for one test alone, of each ZooKeeper on this machine."""
    with ZooKeeperEnsemble(binary=zookeeper_binary, tick_ms=TICK_MS) as running:
        yield running


@pytest.fixture
def patient(zookeeper_binary: Binary | None) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes with short ticks, so that they soon leave a leader, and long sessions. Who uses it says ``?tick=``."""
    with ZooKeeperEnsemble(binary=zookeeper_binary, tick_ms=TICK_MS, options=["maxSessionTimeout=60000"]) as running:
        yield running
