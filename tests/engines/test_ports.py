"""Where engines really listen, by the kernel's word and not by ours: at the ports that the harness has claimed for them.

At any other they would be in the way of others on this machine; and above 32767 a client's outgoing connection may be there first.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.testing.engines import (
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MariaDbCluster,
    PostgresCluster,
    RedisCluster,
    RedisSentinels,
    VersityGateway,
    ZooKeeperEnsemble,
)
from tenure.testing.engines.cluster import Cluster

_LISTENS = "0A"  # the state of a socket, as the kernel writes it


def of(pid: int) -> Iterator[int]:
    """Yield a process and all that it has started."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from of(int(child))


def listens_at(pid: int) -> set[int]:
    """Return the ports of TCP at which a process listens."""
    files = [file.readlink() for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and Path(f"socket:[{words[9]}]") in files:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


@pytest.mark.parametrize(
    "make",
    [
        EtcdCluster,
        ZooKeeperEnsemble,
        ConsulCluster,
        KubernetesCluster,
        PostgresCluster,
        MariaDbCluster,
        RedisCluster,
        lambda: RedisCluster(sharded=True),
        VersityGateway,
    ],
    ids=["etcd", "zookeeper", "consul", "kubernetes", "postgresql", "mariadb", "redis", "redis-cluster", "versitygw"],
)
def test_an_engine_listens_at_the_ports_that_were_claimed_for_it_and_at_no_other(make: Callable[[], Cluster]) -> None:
    with make() as cluster:
        check_listens(cluster)


def test_so_does_a_sentinel() -> None:
    with RedisCluster() as watched, RedisSentinels(watched, 1) as sentinels:
        check_listens(sentinels)


def check_listens(cluster: Cluster) -> None:
    for node in cluster.nodes:
        found = set().union(*map(listens_at, of(node.pid)))
        assert node.ports[0] in found, "else nothing was read"
        assert found <= set(node.ports), (node, node.ports)
        assert max(node.ports) < 32768, node
