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

ENGINES = ("consul", "etcd", "kubernetes", "mariadb", "postgresql", "redis", "zookeeper")
# Where tests have clusters of their own, which the tests of one file may share.
_FOLDERS = re.compile(
    r"tests/(chaos|clients|consul|e2e|engines|etcd|kubernetes|mysql|peers|postgresql|redis|s3|sinks|zookeeper)/"
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

    Tests that share a cluster are a group in each folder: all of one engine in one worker would be the last to end.
    """
    shared = shared_by(item)
    file = item.nodeid.partition("::")[0]
    if shared:
        return " ".join([*sorted(shared), file.rpartition("/")[0]])
    if not _FOLDERS.match(file):
        return ""
    return " ".join([file, *(str(binary) for name, binary in _params(item).items() if name.endswith("_binary"))])


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
