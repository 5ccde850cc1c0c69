"""API servers over an etcd: they serve, can be killed and paused, and know their users."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.testing.engines import EngineFailed, KubernetesCluster
from tenure.testing.engines.cluster import Node
from tenure.testing.engines.processes import wait_for

WHOAMI = ("auth", "whoami", "--output=jsonpath={.status.userInfo.username}")


@pytest.fixture(scope="module")
def shared() -> Iterator[KubernetesCluster]:
    with KubernetesCluster(2) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """Two API servers, both of which serve. A test may leave them, and the etcd below, in any state."""
    yield shared
    shared.mend()


def make_lease(cluster: KubernetesCluster, node: Node, name: str) -> None:
    lease = f"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: {name}\n"
    cluster.kubectl(f"--context={node.name}", "create", "--filename=-", stdin=lease)


def sees_lease(cluster: KubernetesCluster, node: Node, name: str) -> bool:
    return name in cluster.kubectl(f"--context={node.name}", "get", "lease", "--output=name")


def test_two_api_servers_over_one_etcd_show_the_same_objects(cluster: KubernetesCluster) -> None:
    first, second = cluster.nodes
    assert [cluster.serves(node) for node in cluster.nodes] == [True, True]
    assert cluster.url == f"kubernetes://default?kubeconfig={cluster.kubeconfig}"
    assert max(port for node in cluster.nodes for port in node.ports) < 32768
    make_lease(cluster, first, "made-by-first")
    assert sees_lease(cluster, second, "made-by-first")


def test_a_killed_api_server_comes_back_at_its_address_and_the_other_one_serves_meanwhile(
    cluster: KubernetesCluster,
) -> None:
    first, second = cluster.nodes
    endpoint = first.endpoint
    first.kill()
    assert cluster.leader() is second
    make_lease(cluster, second, "made-meanwhile")
    first.start()
    assert first.endpoint == endpoint
    assert sees_lease(cluster, first, "made-meanwhile")


def test_a_paused_api_server_does_not_serve_until_it_runs_on(cluster: KubernetesCluster) -> None:
    first, _ = cluster.nodes
    first.pause()
    assert not cluster.serves(first)
    first.resume()
    cluster.wait_until_serving([first])


def test_no_api_server_serves_without_a_quorum_of_etcd(cluster: KubernetesCluster) -> None:
    assert cluster.has_quorum
    for node in cluster.etcd.nodes[:2]:
        node.kill()
    assert not cluster.has_quorum
    assert wait_for(lambda: not any(cluster.serves(node) for node in cluster.nodes), 60)
    cluster.mend()
    assert all(cluster.serves(node) for node in cluster.nodes)


def test_users_are_known_by_their_tokens_and_have_the_rights_that_they_are_given(cluster: KubernetesCluster) -> None:
    alice = f"--token={cluster.token_of('alice')}"
    assert cluster.kubectl(*WHOAMI) == "admin"
    assert cluster.kubectl(*WHOAMI, alice) == "alice"
    with pytest.raises(EngineFailed, match='User "alice" cannot list resource "leases"'):
        cluster.kubectl("get", "lease", alice)
    cluster.kubectl("create", "role", "reader", "--verb=get,list", "--resource=leases.coordination.k8s.io")
    cluster.kubectl("create", "rolebinding", "alice-reads", "--role=reader", "--user=alice")
    # The API server hears of a new binding by a watch.
    assert wait_for(lambda: _may_list(cluster, alice), 60)
    with pytest.raises(EngineFailed, match="must be logged in"):
        cluster.kubectl("get", "lease", "--token=wrong")
    with pytest.raises(ConfigError, match="user = carol: must be one of admin, alice, bob"):
        cluster.token_of("carol")


def _may_list(cluster: KubernetesCluster, *arguments: str) -> bool:
    try:
        cluster.kubectl("get", "lease", *arguments)
    except EngineFailed:
        return False
    return True


def test_users_are_known_by_their_certificates(cluster: KubernetesCluster, tmp_path: Path) -> None:
    bob = cluster.tls.issue("bob")
    shown = f"--client-certificate={bob.certificate}", f"--client-key={bob.key}"
    other = tmp_path / "kubeconfig"  # without the token of the administrator
    other.write_text(cluster.kubeconfig.read_text().replace(cluster.token_of("admin"), ""))
    assert cluster.kubectl(f"--kubeconfig={other}", *WHOAMI, *shown) == "bob"


def test_a_client_of_another_authority_does_not_trust_the_api_server(cluster: KubernetesCluster) -> None:
    with pytest.raises(EngineFailed, match="certificate signed by unknown authority"):
        cluster.kubectl(f"--certificate-authority={cluster.tls.wrong_ca}", "get", "lease")


def test_a_service_account_gets_a_token_that_the_api_server_takes(cluster: KubernetesCluster) -> None:
    cluster.kubectl("create", "serviceaccount", "robot")
    token = cluster.kubectl("create", "token", "robot").strip()
    assert cluster.kubectl(*WHOAMI, f"--token={token}") == "system:serviceaccount:default:robot"


def test_a_cluster_can_live_at_an_ipv6_address() -> None:
    with KubernetesCluster(host="::1", etcd_size=1) as cluster:
        make_lease(cluster, cluster.nodes[0], "six")
        assert sees_lease(cluster, cluster.nodes[0], "six")


def test_nothing_is_left_of_a_block_that_ended_well_or_of_the_etcd_below() -> None:
    with KubernetesCluster(etcd_size=1) as cluster:
        pids = [node.pid for node in (*cluster.nodes, *cluster.etcd.nodes)]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not cluster.folder.exists()
    assert not cluster.etcd.folder.exists()


def test_an_api_server_that_does_not_start_is_told_of_with_its_log_and_that_of_its_etcd() -> None:
    cluster = KubernetesCluster(etcd_size=1, options=["--no-such-flag"])
    with pytest.raises(EngineFailed, match=r"^n1 ended while it was starting; the end of its log:\n") as caught:
        cluster.__enter__()
    assert "no-such-flag" in caught.value.tail
    assert caught.value.__notes__ == [
        f"data and logs of {each.binary} are kept in {each.folder}" for each in (cluster.etcd, cluster)
    ]
    for each in (cluster.etcd, cluster):
        shutil.rmtree(each.folder)
