"""Engines in networks of their own, each version on this machine: what a node that is cut off does, and does not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from tenure.testing.engines import Binary, ConsulCluster, EngineFailed, EtcdCluster, Node, ZooKeeperEnsemble
from tenure.testing.engines.processes import wait_for

Cluster = EtcdCluster | ZooKeeperEnsemble | ConsulCluster


@contextmanager
def kazoo(node: Node) -> Iterator[KazooClient]:
    # A session of 20 s outlives whatever this test does to the node.
    client = KazooClient(node.endpoint, timeout=20)
    try:
        client.start(timeout=60)
        yield client
    finally:
        client.stop()
        client.close()


def leader_and_follower(cluster: Cluster) -> tuple[Node, Node]:
    leader = cluster.leader()
    return leader, next(node for node in cluster.nodes if node is not leader)


def test_a_node_without_peers_does_not_lead_and_one_without_clients_still_counts(make: Callable[..., Cluster]) -> None:
    with make(isolated=True) as cluster:
        leader = cluster.leader()
        leader.partition("peers")
        assert cluster.leader() is not leader
        assert wait_for(lambda: not cluster.leads(leader), 60)
        leader.heal()
        cluster.wait_until_serving(cluster.nodes)

        silent, dead, asked = cluster.nodes
        silent.partition("clients")
        assert not cluster.serves(silent)
        dead.kill()
        cluster.wait_until_serving([asked])  # Only together with the silent one can it.
        silent.heal()
        cluster.wait_until_serving([silent])


def test_a_follower_of_etcd_without_peers_reads_but_cannot_write_until_it_is_healed(
    etcd_binary: Binary | None,
) -> None:
    with EtcdCluster(binary=etcd_binary, isolated=True) as cluster:
        _, follower = leader_and_follower(cluster)
        cluster.ctl("put", "key", "before", node=follower)
        follower.partition("peers")
        assert "before" in cluster.ctl("get", "--consistency=s", "key", node=follower)
        with pytest.raises(EngineFailed, match="put key after ended with 1"):
            cluster.ctl("--command-timeout=1s", "put", "key", "after", node=follower)
        follower.heal()
        cluster.wait_until_serving([follower])
        cluster.ctl("--command-timeout=30s", "put", "key", "healed", node=follower)


def test_a_follower_of_zookeeper_without_peers_reads_but_cannot_write_until_it_is_healed(
    zookeeper_binary: Binary | None,
) -> None:
    # Ticks as shipped: the follower needs ten seconds to notice, and until then its clients are none the wiser.
    with ZooKeeperEnsemble(binary=zookeeper_binary, isolated=True) as ensemble:
        leader, follower = leader_and_follower(ensemble)
        with kazoo(follower) as writer, kazoo(follower) as reader, kazoo(leader) as elsewhere:
            follower.partition("peers")
            created = writer.create_async("/through-follower")
            elsewhere.create("/through-leader")
            assert reader.exists("/") is not None
            assert reader.exists("/through-leader") is None
            assert not created.ready()
            follower.heal()
            assert created.get(timeout=60) == "/through-follower"
