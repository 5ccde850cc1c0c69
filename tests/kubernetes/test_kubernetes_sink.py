"""The Kubernetes sink keeps the contract of sinks; and the policy beside it fences whoever does not use the sink."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.clients.kubernetes import NotThere
from tenure.clients.kubernetes.resources import resource_of
from tenure.errors import ConfigError, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import Bound, KubernetesSink, Verify
from tenure.sinks.kubernetes import _digits
from tenure.sinks.kubernetes_policy import policy
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import EngineFailed, KubernetesCluster
from tenure.testing.engines.processes import wait_for
from tests.kubernetes.kubernetes_rig import KubernetesRig, operator

pytestmark = pytest.mark.anyio

LEDGER = "configmaps/ledger-{fence}"
PATIENCE_S = 30


class KubernetesSinkRig:
    """Values as a list in a ConfigMap of each fence."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[KubernetesSink]:
        async with KubernetesSink(self.cluster.url, LEDGER, verify=verify) as sink:
            yield sink

    async def write(self, client: KubernetesSink, term: Bound, value: str) -> None:
        def append(ledger: dict[str, Any]) -> None:
            data = ledger.setdefault("data", {})
            data["values"] = json.dumps([*json.loads(data.get("values", "[]")), value])

        await client.bind(term).update(LEDGER, append)

    async def read_all(self, fence: str) -> list[str]:
        async with operator(self.cluster.url) as by_hand:
            path = f"/api/v1/namespaces/default/configmaps/ledger-{_digits(fence)}"
            try:
                found = await by_hand.client.get(path, operation="read")
            except NotThere:
                return []
        values: list[str] = json.loads(found.get("data", {}).get("values", "[]"))
        return values

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Check and write are one request, so the worst is that it is lost on its way: it was never sent."""

    async def restart(self) -> None:
        await KubernetesRig(self.cluster).restart()


async def test_every_promise_is_kept(cluster: KubernetesCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[KubernetesSinkRig]:
        yield KubernetesSinkRig(cluster)

    told = []
    for name in SINK_CONTRACT:
        try:
            await check_sink_promise(name, make)
        except ContractBroken as error:
            told.append(str(error))
    assert told == []


async def test_an_object_belongs_to_one_fence_and_a_mistake_is_told_of(cluster: KubernetesCluster) -> None:
    async with KubernetesSink(cluster.url, "configmaps/owned") as sink:
        await sink.seal("one", Token(7))
        with pytest.raises(Refused, match="belongs to the fence 'one', not 'two': give each election an object"):
            await sink.seal("two", Token(8))
        cluster.kubectl("annotate", "configmap", "owned", "tenure/token=seven", "--overwrite")
        with pytest.raises(Refused, match="is 'seven', where a number must be: mend it"):
            await sink.seal("one", Token(8))


async def test_what_cannot_be_fenced_is_refused_in_words(cluster: KubernetesCluster) -> None:
    for objects, told in (((), "must name what is written to"), (("configmaps",), "must name one object")):
        with pytest.raises(ConfigError, match=told):
            KubernetesSink(cluster.url, *objects)
    async with KubernetesSink(cluster.url, "deployments.apps/not-there") as sink:
        with pytest.raises(Refused, match='"not-there" not found'):
            await sink.seal("x", Token(1))
        with pytest.raises(ConfigError, match="is none of the sink's"):
            await sink.bind(SimpleNamespace(fence="x", token=1)).update("configmaps/other", lambda _: None)


def led(token: int, value: str, name: str = "led") -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"tenure/token": str(token)}},
            "data": {"x": value},
        }
    )


@pytest.fixture
def fenced(cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """A cluster whose API server fences the ConfigMap ``led``, and deployments."""
    both = "---\n".join(policy(resource_of(name), "default") for name in ("configmaps/led", "deployments.apps"))
    cluster.kubectl("apply", "--filename=-", stdin=both)
    assert wait_for(lambda: "say the token" in refusal(cluster, "create", "configmap", "led"), PATIENCE_S)
    yield cluster
    cluster.kubectl("delete", "--filename=-", stdin=both)
    # The policy is gone some moments after it was deleted.
    assert wait_for(lambda: deleted(cluster, "configmap/led", "deployment/web", "deployment/free"), PATIENCE_S)


def deleted(cluster: KubernetesCluster, *names: str) -> bool:
    try:
        cluster.kubectl("delete", "--ignore-not-found", *names)
    except EngineFailed:
        return False
    return True


def refusal(cluster: KubernetesCluster, *arguments: str, stdin: str = "") -> str:
    """What kubectl was refused with; empty: it was not, or for another reason."""
    try:
        cluster.kubectl(*arguments, "--dry-run=server", stdin=stdin)
    except EngineFailed as error:
        told = str(error)
        assert "tenure: " in told, told
        return told.partition("tenure: ")[2]
    return ""


def test_the_api_server_itself_refuses_whoever_says_no_token_or_an_old_one(fenced: KubernetesCluster) -> None:
    apply = ("apply", "--filename=-")
    assert refusal(fenced, *apply, stdin=led(7, "a")).startswith("say the token")
    fenced.kubectl(*apply, "--field-manager=tenure:7", stdin=led(7, "a"))
    fenced.kubectl(*apply, "--field-manager=tenure:9", stdin=led(9, "b"))
    assert refusal(fenced, *apply, "--field-manager=tenure:7", stdin=led(7, "z")).startswith("stale token 7")
    # A merge patch that does not mention the annotation inherits it. Who asks is told by the field manager alone.
    patch = ("patch", "configmap", "led", "--type=merge", '--patch={"data":{"x":"z"}}')
    assert refusal(fenced, *patch).startswith("say the token")
    assert refusal(fenced, *patch, "--field-manager=tenure:8").startswith("stale token 8, and this object has seen 9")
    assert refusal(fenced, *patch, "--field-manager=tenure:10").startswith("the annotation tenure/token must be 10")
    fenced.kubectl(*patch, "--field-manager=tenure:9")
    strip = ("annotate", "configmap", "led", "tenure/token-", "--field-manager=tenure:9")
    assert refusal(fenced, *strip).startswith("the annotation tenure/token must be 9")


def test_an_object_is_deleted_only_after_a_write_under_its_token_has_marked_it(fenced: KubernetesCluster) -> None:
    fenced.kubectl("apply", "--filename=-", "--field-manager=tenure:9", stdin=led(9, "b"))
    delete = ("delete", "configmap", "led")
    assert refusal(fenced, *delete).startswith("mark it before you delete it, with the annotation tenure/delete: 9")
    mark = ("annotate", "configmap", "led", "tenure/delete=9")
    assert refusal(fenced, *mark, "--field-manager=tenure:8").startswith("stale token 8")
    fenced.kubectl(*mark, "--field-manager=tenure:9")
    fenced.kubectl(*delete)
    assert "configmap/led" not in fenced.kubectl("get", "configmaps", "--output=name").split()


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


def test_with_an_election_a_new_object_is_compared_with_its_lease(cluster: KubernetesCluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "counted"}}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps({**lease, "spec": {"leaseTransitions": 5}}))
    text = policy(resource_of("configmaps/counted"), "default", "counted")
    cluster.kubectl("apply", "--filename=-", stdin=text)
    old, stale = ("apply", "--filename=-", "--field-manager=tenure:4"), led(4, "z", "counted")
    try:
        assert wait_for(lambda: "the election is at 5" in refusal(cluster, *old, stdin=stale), PATIENCE_S)
        new = led(5, "a", "counted")
        assert refusal(cluster, "apply", "--filename=-", "--field-manager=tenure:5", stdin=new) == ""
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=text)


async def test_the_sink_writes_what_the_policy_wants_to_see(fenced: KubernetesCluster) -> None:
    def write(value: str) -> Any:
        return lambda thing: thing.setdefault("data", {}).update(x=value)

    old, new = (SimpleNamespace(fence="led", token=token) for token in (3, 4))
    async with KubernetesSink(fenced.url, "configmaps/led") as sink:
        await sink.bind(old).update("configmaps/led", write("old"))
        await sink.seal("led", Token(4))
        with pytest.raises(StaleToken, match="highest seen is 4"):
            await sink.bind(old).update("configmaps/led", write("stale"))
        await sink.bind(new).update("configmaps/led", write("new"))
        await sink.bind(new).update(
            "configmaps/led", lambda thing: thing["metadata"]["annotations"].update({"tenure/delete": "4"})
        )
    assert fenced.kubectl("get", "configmap", "led", "--output=jsonpath={.data.x}") == "new"
