"""The policy that ``tenure fence kubernetes`` prints makes the API server itself refuse whoever has no token, or an old one."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.sinks import KubernetesSink
from tenure.sinks.kubernetes_policy import fenceable, policy
from tenure.testing.engines import EngineFailed, KubernetesCluster
from tenure.testing.engines.processes import wait_for
from tests.kubernetes.policy_rig import APPLY, deleted, led, refusal

pytestmark = pytest.mark.anyio

PATIENCE_S = 60
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def fenced(cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """A cluster whose API server fences the ConfigMap ``led``, and deployments."""
    both = "---\n".join(policy(fenceable(name), "default") for name in ("configmaps/led", "deployments.apps"))
    cluster.kubectl(*APPLY, stdin=both)
    assert wait_for(lambda: "say the token" in refusal(cluster, "create", "configmap", "led"), PATIENCE_S)
    yield cluster
    cluster.kubectl("delete", "--filename=-", stdin=both)
    # The policy is gone some moments after it was deleted.
    assert wait_for(lambda: deleted(cluster, "configmap/led", "deployment/web", "deployment/free"), PATIENCE_S)


def test_the_api_server_itself_refuses_whoever_says_no_token_or_an_old_one(fenced: KubernetesCluster) -> None:
    assert refusal(fenced, *APPLY, stdin=led(7, "a")).startswith("say the token")
    fenced.kubectl(*APPLY, "--field-manager=tenure:7", stdin=led(7, "a"))
    fenced.kubectl(*APPLY, "--field-manager=tenure:9", stdin=led(9, "b"))
    assert refusal(fenced, *APPLY, "--field-manager=tenure:7", stdin=led(7, "z")).startswith("stale token 7")
    # A merge patch that does not mention the annotation inherits it. Who asks is told by the field manager alone.
    patch = ("patch", "configmap", "led", "--type=merge", '--patch={"data":{"x":"z"}}')
    assert refusal(fenced, *patch).startswith("say the token")
    assert refusal(fenced, *patch, "--field-manager=tenure:8").startswith("stale token 8, and this object has seen 9")
    assert refusal(fenced, *patch, "--field-manager=tenure:10").startswith("the annotation tenure/token must be 10")
    fenced.kubectl(*patch, "--field-manager=tenure:9")
    strip = ("annotate", "configmap", "led", "tenure/token-", "--field-manager=tenure:9")
    assert refusal(fenced, *strip).startswith("the annotation tenure/token must be 9")


def test_an_object_is_deleted_only_after_a_write_under_its_token_has_marked_it(fenced: KubernetesCluster) -> None:
    fenced.kubectl(*APPLY, "--field-manager=tenure:9", stdin=led(9, "b"))
    delete = ("delete", "configmap", "led")
    assert refusal(fenced, *delete).startswith("mark it before you delete it, with the annotation tenure/delete: 9")
    mark = ("annotate", "configmap", "led", "tenure/delete=9")
    assert refusal(fenced, *mark, "--field-manager=tenure:8").startswith("stale token 8")
    fenced.kubectl(*mark, "--field-manager=tenure:9")
    fenced.kubectl(*delete)
    assert "configmap/led" not in fenced.kubectl("get", "configmaps", "--output=name").split()


def test_until_a_new_leader_has_written_the_old_one_is_not_refused(fenced: KubernetesCluster) -> None:
    fenced.kubectl(*APPLY, "--field-manager=tenure:5", stdin=led(5, "a"))
    fenced.kubectl("annotate", "configmap", "led", "tenure/delete=5", "--field-manager=tenure:5")
    # There may be a leader with token 6 by now. Nothing here has heard of it.
    late = ("annotate", "configmap", "led", "late=5", "--field-manager=tenure:5")
    assert (refusal(fenced, *late), refusal(fenced, "delete", "configmap", "led")) == ("", "")
    fenced.kubectl("annotate", "configmap", "led", "tenure/token=6", "--overwrite", "--field-manager=tenure:6")
    assert refusal(fenced, *late).startswith("stale token 5")
    assert refusal(fenced, "delete", "configmap", "led").startswith("mark it before you delete it")


def test_a_deletion_by_collection_is_fenced_as_one_by_name_is(fenced: KubernetesCluster) -> None:
    for name in ("led", "free"):
        fenced.kubectl(*APPLY, "--field-manager=tenure:9", stdin=led(9, "b", name))
    # The raw request: kubectl by itself deletes one after the other.
    delete = ("delete", "--raw")
    one, other = (f"{CONFIG_MAPS}?fieldSelector=metadata.name={name}" for name in ("led", "free"))
    with pytest.raises(EngineFailed, match="tenure: mark it before you delete it"):
        fenced.kubectl(*delete, one)
    fenced.kubectl(*delete, other)
    fenced.kubectl("annotate", "configmap", "led", "tenure/delete=9", "--field-manager=tenure:9")
    fenced.kubectl(*delete, one)
    left = fenced.kubectl("get", "configmaps", "--output=name").split()
    assert {"configmap/led", "configmap/free"}.isdisjoint(left)


def test_a_fence_around_one_object_leaves_all_others_alone(fenced: KubernetesCluster) -> None:
    unnamed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "led-"}}
    assert refusal(fenced, "create", "--filename=-", stdin=json.dumps(unnamed)) == ""
    fenced.kubectl("create", "configmap", "led-too")
    fenced.kubectl("annotate", "configmap", "led-too", "some=thing")
    fenced.kubectl("delete", "configmap", "led-too")


def test_subresources_of_one_object_are_fenced_and_those_of_its_neighbour_are_not(cluster: KubernetesCluster) -> None:
    for name in ("alone", "beside"):
        cluster.kubectl("create", "deployment", name, "--image=none")
    text = policy(fenceable("deployments.apps/alone"), "default")
    cluster.kubectl(*APPLY, stdin=text)
    replicas = ("--type=merge", '--patch={"spec":{"replicas":3}}')
    status = ("--subresource=status", "--type=merge", '--patch={"status":{"replicas":3}}')
    scale = ("--subresource=scale", *replicas)
    patch = ("patch", "deployment", "alone")
    try:
        assert wait_for(lambda: refusal(cluster, *patch, *replicas).startswith("say the token"), PATIENCE_S)
        assert refusal(cluster, *patch, *status).startswith("say the token")
        assert refusal(cluster, *patch, *scale).startswith("say the token")
        told = refusal(cluster, *patch, *scale, "--field-manager=tenure:7")
        assert told.startswith("this subresource shows no token")
        for change in (replicas, status, scale):
            assert refusal(cluster, "patch", "deployment", "beside", *change) == ""
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=text)
        assert wait_for(lambda: deleted(cluster, "deployment/alone", "deployment/beside"), PATIENCE_S)


KEEPERS = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:node:n1",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:apiserver",
]
STRANGERS = [
    "system:serviceaccount:default:kube-system",
    "system:serviceaccount:kube-system-too:x",
    "system:serviceaccounts",
    "system:nodes",
    "system:kube-controller-manager:x",
    "x-system:apiserver",
    "admin",
]


def by(user: str) -> tuple[str, str]:
    """Somebody of this name who may do everything, as far as rights go."""
    return f"--as={user}", "--as-group=system:masters"


def test_those_who_keep_the_cluster_running_need_no_token(fenced: KubernetesCluster) -> None:
    fenced.kubectl(*APPLY, "--field-manager=tenure:9", stdin=led(9, "b"))
    write, delete = ("annotate", "configmap", "led", "some=thing"), ("delete", "configmap", "led")
    for user in KEEPERS:
        assert (refusal(fenced, *write, *by(user)), refusal(fenced, *delete, *by(user))) == ("", ""), user


def test_nobody_is_taken_for_one_of_those_who_keep_the_cluster_running_for_a_name_like_theirs(
    fenced: KubernetesCluster,
) -> None:
    fenced.kubectl(*APPLY, "--field-manager=tenure:9", stdin=led(9, "b"))
    write, delete = ("annotate", "configmap", "led", "some=thing"), ("delete", "configmap", "led")
    for user in STRANGERS:
        assert refusal(fenced, *write, *by(user)).startswith("say the token"), user
        assert refusal(fenced, *delete, *by(user)).startswith("mark it before you delete it"), user


def test_the_next_token_applies_on_the_server_side_only_by_force(fenced: KubernetesCluster) -> None:
    apply = (*APPLY, "--server-side", "--field-manager=tenure:8")
    fenced.kubectl(*APPLY, "--server-side", "--field-manager=tenure:7", stdin=led(7, "a"))
    with pytest.raises(EngineFailed, match="conflict"):
        fenced.kubectl(*apply, stdin=led(8, "b"))
    fenced.kubectl(*apply, "--force-conflicts", stdin=led(8, "b"))
    stale = (*APPLY, "--server-side", "--force-conflicts", "--field-manager=tenure:7")
    assert refusal(fenced, *stale, stdin=led(7, "z")).startswith("stale token 7")


def test_a_fence_around_all_pods_refuses_every_eviction(cluster: KubernetesCluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unled"}}
    pod["spec"] = {"containers": [{"name": "x", "image": "none"}]}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "unled"}}
    evict = ("create", "--raw", "/api/v1/namespaces/default/pods/unled/eviction?dryRun=All", "--filename=-")
    text = policy(fenceable("pods"), "default")
    cluster.kubectl("create", "--filename=-", stdin=json.dumps(pod))
    cluster.kubectl(*APPLY, stdin=text)

    def told() -> str:
        try:
            return cluster.kubectl(*evict, stdin=json.dumps(eviction))
        except EngineFailed as error:
            return str(error)

    try:
        assert wait_for(lambda: "tenure: say the token" in told(), PATIENCE_S)
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=text)
        cluster.kubectl("delete", "pod", "unled", "--now")


def test_subresources_are_fenced_and_objects_that_nobody_leads_are_left_alone(fenced: KubernetesCluster) -> None:
    for name in ("web", "free"):
        fenced.kubectl("create", "deployment", name, "--image=none")
    fenced.kubectl("annotate", "deployment", "web", "tenure/token=7", "--field-manager=tenure:7")
    status = ("--subresource=status", "--type=merge", '--patch={"status":{"replicas":3}}')
    assert refusal(fenced, "patch", "deployment", "web", *status).startswith("say the token")
    assert refusal(fenced, "patch", "deployment", "web", *status, "--field-manager=tenure:6").startswith(
        "stale token 6"
    )
    fenced.kubectl("patch", "deployment", "web", *status, "--field-manager=tenure:7")
    fenced.kubectl("patch", "deployment", "free", *status)
    fenced.kubectl("annotate", "deployment", "free", "some=thing")
    # A Scale shows no annotation, so it cannot be told whose it is.
    scale = ("--subresource=scale", "--type=merge", '--patch={"spec":{"replicas":3}}', "--field-manager=tenure:7")
    assert refusal(fenced, "patch", "deployment", "web", *scale).startswith("this subresource shows no token")
    fenced.kubectl("annotate", "deployment", "web", "tenure/delete=7", "--field-manager=tenure:7")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("configmap/x", "did you mean configmaps?"),
        ("cm/x", "such as deployments.apps/web, or one that namespaces have in the core"),
        ("deployments/web", "did you mean deployments.apps?"),
        ("deployments.v1/web", "did you mean deployments.apps?"),
        ("deployment.apps/web", "did you mean deployments.apps?"),
        ("ingress", "did you mean ingresses.networking.k8s.io?"),
        ("nodes/x", "one that namespaces have in the core"),
        ("configmaps/{fence}", "small letters, digits, dashes and dots"),
        ("configmaps/-a..b", "a letter or a digit at both ends"),
        (f"configmaps/{'a' * 254}", "253"),
        ("widgets.-example.com", "a letter or a digit at both ends"),
        ("Config Maps", "must be a resource"),
    ],
)
def test_what_would_fence_nothing_is_refused_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        fenceable(text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_named_in_full_is_taken_apart() -> None:
    for text, parts in (
        ("configmaps/books", ("configmaps", "", "v1", "books")),
        ("deployments.apps", ("deployments", "apps", "v1", "")),
        ("widgets.v1beta1.example.com/a.b", ("widgets", "example.com", "v1beta1", "a.b")),
    ):
        found = fenceable(text)
        assert (found.plural, found.group, found.version, found.name) == parts


def test_a_policy_whose_own_name_would_be_too_long_is_not_printed() -> None:
    assert policy(fenceable(f"configmaps/{'a' * 200}"), "default")
    with pytest.raises(ConfigError, match="fence configmaps without a name"):
        policy(fenceable(f"configmaps/{'a' * 253}"), "default")


async def test_the_sink_writes_what_the_policy_wants_to_see(fenced: KubernetesCluster) -> None:
    def write(value: str) -> Any:
        return lambda thing: thing.setdefault("data", {}).update(x=value)

    old, new = (SimpleNamespace(fence="led", token=token) for token in (3, 4))
    async with KubernetesSink(fenced.url, "configmaps/led") as sink:
        await sink.seal("led", Token(3))
        await sink.bind(old).update("configmaps/led", write("old"))
        await sink.seal("led", Token(4))
        with pytest.raises(StaleToken, match="highest seen is 4"):
            await sink.bind(old).update("configmaps/led", write("stale"))
        await sink.bind(new).update("configmaps/led", write("new"))
        await sink.bind(new).update(
            "configmaps/led", lambda thing: thing["metadata"]["annotations"].update({"tenure/delete": "4"})
        )
    assert fenced.kubectl("get", "configmap", "led", "--output=jsonpath={.data.x}") == "new"
