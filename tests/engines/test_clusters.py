"""Clusters of each engine in each version on this machine: they serve; their nodes can be killed, paused and stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tenure.testing.engines import ConsulCluster, EngineFailed, EtcdCluster, Node, ZooKeeperEnsemble
from tenure.testing.engines.processes import wait_for

Cluster = EtcdCluster | ZooKeeperEnsemble | ConsulCluster


@contextmanager
def kazoo(node: Node) -> Iterator[KazooClient]:
    client = KazooClient(node.endpoint, timeout=4)
    try:
        client.start(timeout=60)
        yield client
    finally:
        client.stop()
        client.close()


def write(cluster: Cluster, key: str) -> None:
    """Write something that a quorum agrees to."""
    node = cluster.leader()
    if isinstance(cluster, EtcdCluster):
        cluster.ctl("put", key, "here", node=node)
    elif isinstance(cluster, ConsulCluster):
        cluster.ctl("kv", "put", key, "here", node=node)
    else:
        with kazoo(node) as client:
            client.create(f"/{key}", b"here")


def has(cluster: Cluster, node: Node, key: str) -> bool:
    """Whether a node finds the key in its own data, whatever the others say."""
    if isinstance(cluster, EtcdCluster):
        return "here" in cluster.ctl("get", "--consistency=s", key, node=node)
    if isinstance(cluster, ConsulCluster):
        try:
            # It waits a while for a key that it does not have: its data may be a little behind.
            return bool(cluster.api("GET", f"/v1/kv/{key}?stale&index=1&wait=5s", node=node))
        except EngineFailed:
            return False
    with kazoo(node) as client:
        client.sync("/")
        return client.exists(f"/{key}") is not None


def test_every_node_serves_when_the_block_begins(cluster: Cluster) -> None:
    assert [cluster.serves(node) for node in cluster.nodes] == [True, True, True]
    assert cluster.url == f"{cluster.engine}://{','.join(cluster.endpoints)}"
    write(cluster, "first")
    assert wait_for(lambda: has(cluster, cluster.leader(), "first"), 60)  # It may be another one by now.


def test_ports_are_below_those_of_outgoing_connections(cluster: Cluster) -> None:
    ports = [port for node in cluster.nodes for port in node.ports]
    assert len(ports) == len(set(ports)) >= 6
    assert max(ports) < 32768


def test_a_killed_leader_is_succeeded_and_comes_back_with_its_data(cluster: Cluster) -> None:
    write(cluster, "before-kill")
    leader = cluster.leader()
    pid, endpoint = leader.pid, leader.endpoint
    leader.kill()
    assert not leader.running
    assert not Path(f"/proc/{pid}").exists()
    assert cluster.leader() is not leader
    write(cluster, "after-kill")
    leader.start()
    assert leader.endpoint == endpoint
    assert leader.pid != pid
    assert has(cluster, leader, "before-kill")
    assert wait_for(lambda: has(cluster, leader, "after-kill"), 60)  # What it has missed comes in its own time.


def test_a_paused_leader_is_succeeded_and_follows_when_it_runs_on(cluster: Cluster) -> None:
    leader = cluster.leader()
    leader.pause()
    states = {(task / "stat").read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{leader.pid}/task").iterdir()}
    assert states == {"T"}
    assert cluster.leader() is not leader
    write(cluster, "while-paused")
    leader.resume()
    assert wait_for(lambda: has(cluster, leader, "while-paused"), 60)


def test_a_node_is_stopped_also_while_it_is_paused(cluster: Cluster) -> None:
    follower = next(node for node in cluster.nodes if node is not cluster.leader())
    follower.pause()
    follower.stop()
    assert not follower.running
    with pytest.raises(EngineFailed, match=r"n[123] does not run"):
        follower.stop()
    write(cluster, "without-one")
    follower.start()
    assert has(cluster, follower, "without-one")


def test_nodes_start_one_after_the_other_when_all_were_down(cluster: Cluster) -> None:
    write(cluster, "before-all-down")
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.start()
    cluster.wait_until_serving(cluster.nodes)
    assert all(has(cluster, node, "before-all-down") for node in cluster.nodes)


def test_two_clusters_at_once_know_nothing_of_each_other(cluster: Cluster, make: Callable[..., Cluster]) -> None:
    write(cluster, "mine")
    with make(size=1) as other:
        assert not has(other, other.nodes[0], "mine")
        assert set(other.nodes[0].ports).isdisjoint(port for node in cluster.nodes for port in node.ports)
        assert other.leader() is other.nodes[0]
    assert wait_for(lambda: has(cluster, cluster.nodes[0], "mine"), 60)  # It need not have been the leader.


def test_a_cluster_can_live_at_an_ipv6_address(make: Callable[..., Cluster]) -> None:
    with make(size=1, host="::1") as cluster:
        assert cluster.endpoints == (f"[::1]:{cluster.nodes[0].ports[0]}",)
        write(cluster, "six")
        assert has(cluster, cluster.leader(), "six")
