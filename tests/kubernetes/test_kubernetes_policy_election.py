"""The policy of ``tenure fence kubernetes --election``: the API server compares with the Lease what has no token of its own.

An API server's memory of Leases stands still once the last such policy was deleted, so each test leaves it started anew.
"""

import json
from collections.abc import Iterator

import pytest

from tenure.sinks.kubernetes_policy import fenceable, policy
from tenure.testing.engines import EngineFailed, KubernetesCluster
from tenure.testing.engines.processes import wait_for
from tests.kubernetes.kubernetes_rig import LIMIT_S
from tests.kubernetes.policy_rig import APPLY, deleted, led, refusal

FENCED = ("configmaps/counted", "deployments.apps/counted")
SCALE = ("patch", "deployment", "counted", "--subresource=scale", "--type=merge", '--patch={"spec":{"replicas":3}}')
STATUS = ("patch", "deployment", "counted", "--subresource=status", "--type=merge", '--patch={"status":{"replicas":3}}')
DELETE = ("delete", "configmap", "counted")
MARK = ("annotate", "configmap", "counted", "tenure/delete=5", "--overwrite")


def as_token(token: int) -> str:
    return f"--field-manager=tenure:{token}"


@pytest.fixture
def counted(cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """A cluster whose API server fences two objects, a Deployment that is there and a ConfigMap that is not, by a Lease at 5."""
    text = "---\n".join(policy(fenceable(name), "default", "counted") for name in FENCED)
    count(cluster, 5)
    cluster.kubectl("create", "deployment", "counted", "--image=none")
    cluster.kubectl(*APPLY, stdin=text)
    assert wait_for(lambda: "the election is at 5" in stale(cluster, 4), LIMIT_S)
    assert wait_for(lambda: "the election is at 5" in refusal(cluster, *SCALE, as_token(4)), LIMIT_S)
    yield cluster
    cluster.kubectl("delete", "--filename=-", stdin=text)
    assert wait_for(lambda: deleted(cluster, "configmap/counted", "deployment/counted"), LIMIT_S)
    cluster.kubectl("delete", "lease", "counted")
    cluster.restart()


def count(cluster: KubernetesCluster, transitions: int) -> None:
    """Have the election come to this count."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "counted"}}
    cluster.kubectl(*APPLY, stdin=json.dumps({**lease, "spec": {"leaseTransitions": transitions}}))


def stale(cluster: KubernetesCluster, token: int) -> str:
    return refusal(cluster, *APPLY, as_token(token), stdin=led(token, "z", "counted"))


def test_with_an_election_a_new_object_is_compared_with_its_lease(counted: KubernetesCluster) -> None:
    assert stale(counted, 4).startswith("stale token 4, and the election is at 5")
    assert stale(counted, 5) == ""
    count(counted, 6)
    assert wait_for(lambda: stale(counted, 5).startswith("stale token 5, and the election is at 6"), LIMIT_S)
    assert stale(counted, 6) == ""


def test_with_an_election_subresources_are_compared_with_its_lease(counted: KubernetesCluster) -> None:
    for change in (SCALE, STATUS):
        assert refusal(counted, *change).startswith("say the token")
        assert refusal(counted, *change, as_token(4)).startswith("stale token 4, and the election is at 5")
        # Though a Scale shows no token, and the Deployment has none: that is what the Lease is for.
        assert refusal(counted, *change, as_token(5)) == ""


def test_with_an_election_a_deletion_goes_by_its_mark_and_only_the_mark_is_compared_with_the_lease(
    counted: KubernetesCluster,
) -> None:
    counted.kubectl(*APPLY, as_token(5), stdin=led(5, "a", "counted"))
    told = "mark it before you delete it, with the annotation tenure/delete: 5"
    assert refusal(counted, *DELETE).startswith(told)
    count(counted, 6)
    assert wait_for(lambda: "the election is at 6" in refusal(counted, *MARK, as_token(5)), LIMIT_S)
    assert refusal(counted, *DELETE).startswith(told)
    count(counted, 5)
    assert wait_for(lambda: refusal(counted, *MARK, as_token(5)) == "", LIMIT_S)
    counted.kubectl(*MARK, as_token(5))
    count(counted, 6)
    assert wait_for(lambda: "the election is at 6" in refusal(counted, *MARK, as_token(5)), LIMIT_S)
    # A request to delete says no token. What was marked in time is deleted, also late.
    counted.kubectl(*DELETE)
    with pytest.raises(EngineFailed, match="not found"):
        counted.kubectl("get", "configmap", "counted")
