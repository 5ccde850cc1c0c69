"""Clusters that tests share, and which tests of a run share one.

A cluster lives for as long as the tests that come next in its worker use it. Engines that only wait still cost: a worker that
kept all that it ever started would spend half a core on them, and every other test would have that much less.
"""

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar, cast

import pytest

from tenure.testing.engines.cluster import Cluster

C = TypeVar("C", bound=Cluster)

# Of ZooKeeper. Sessions may have up to twenty ticks, and on a busy machine they should.
TICK_MS = 300
# The fixtures with clusters that tests of several files share.
ENGINES = (
    "consul",
    "etcd",
    "kubernetes",
    "mariadb",
    "newest_etcd",
    "newest_zookeeper",
    "postgresql",
    "redis",
    "zookeeper",
)
# Where the groups are that take a minute or more, the longest first: whichever began last would be waited for alone. What
# only computes is among them, to run while the others wait for leases to end.
LONGEST = (
    "tests/kubernetes",
    "tests/sim/test_seeds.py",
    "tests/chaos/test_matrix.py",
    "tests/consul",
    "tests/e2e/test_cli_engine_input.py",
    "tests/peers",
    "tests/sinks",
    "tests/peers/test_mixed_zookeeper.py",
    "tests/peers/test_mixed_etcd.py",
    "tests/kubernetes/test_kubernetes_faults.py",
    "tests/chaos/test_zombie.py",
    "tests/zookeeper",
    "tests/e2e",
    "tests/postgresql",
    "tests/engines/test_clusters.py",
    "tests/engines/test_kubernetes.py",
    "tests/sim/test_mutants.py",
)
# Where tests have clusters of their own, which the tests of one file may share; and those that compute for long.
_FOLDERS = re.compile(
    r"tests/(chaos|clients|consul|e2e|engines|etcd|kubernetes|mysql|peers|postgresql|redis|s3|sim|sinks|zookeeper)/"
)


def shared_by(item: pytest.Item) -> frozenset[str]:
    """Return the names of the clusters that a test shares with others, whatever folder it is in."""
    fixtures, params = vars(item).get("fixturenames", ()), _params(item)
    return frozenset(name_of(engine, params.get(f"{engine}_binary")) for engine in ENGINES if engine in fixtures)


def name_of(engine: str, binary: object) -> str:
    """Return the name of the cluster that tests of this engine share."""
    return engine if binary is None else str(binary)


def group_of(item: pytest.Item) -> str:
    """Return the name of the group of tests that one worker is given; empty: this one goes wherever there is room.

    It is called by where its tests are, and then by what they run on. Tests that share a cluster are a group in each folder:
    all of one engine in one worker would be the last to end.
    """
    shared = shared_by(item)
    file = item.nodeid.partition("::")[0]
    if shared:
        return " ".join([file.rpartition("/")[0], *sorted(shared)])
    if not _FOLDERS.match(file):
        return ""
    return " ".join([file, *(str(binary) for name, binary in _params(item).items() if name.endswith("_binary"))])


def turn_of(item: pytest.Item) -> int:
    """Return when the group of a test is handed out: the longest first, and last what goes wherever there is room."""
    group = group_of(item)
    place = group.partition(" ")[0]
    return LONGEST.index(place) if place in LONGEST else len(LONGEST) + (not group)


def _params(item: pytest.Item) -> dict[str, object]:
    spec = vars(item).get("callspec")
    return {} if spec is None else spec.params


class SharedClusters:
    """What is running in this process."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Cluster, ExitStack]] = {}

    def take(self, name: str, start: Callable[[], C]) -> C:
        """Return the cluster of this name, and start it if there is none."""
        if name not in self._running:
            with ExitStack() as unless_it_runs:
                cluster = unless_it_runs.enter_context(start())
                self._running[name] = cluster, unless_it_runs.pop_all()
        return cast("C", self._running[name][0])

    def end_all_but(self, names: frozenset[str]) -> None:
        """End what the next test does not use."""
        for name in [name for name in self._running if name not in names]:
            _, running = self._running.pop(name)
            running.close()


CLUSTERS = SharedClusters()
