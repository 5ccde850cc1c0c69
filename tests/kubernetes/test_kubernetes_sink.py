"""The Kubernetes sink keeps the contract of sinks, whatever is done to its objects meanwhile."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.clients.kubernetes import NotThere
from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import Bound, KubernetesSink, Verify
from tenure.sinks.kubernetes import _digits
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import KubernetesRig, by_kubectl, operator, until, with_proxy
from tests.proxy import Proxy

pytestmark = pytest.mark.anyio

LEDGER = "configmaps/ledger-{fence}"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_CONFLICTS = re.compile(
    r'^apiserver_request_total\{code="409",.*resource="configmaps",.*verb="(?:PUT|UPDATE)",?.*\} (\d+)$', re.MULTILINE
)


def appended(value: str, then: Callable[[], None] = lambda: None) -> Callable[[dict[str, Any]], None]:
    """A change that appends a value to a ledger. It is made between the check and the write, and so is ``then``."""

    def append(ledger: dict[str, Any]) -> None:
        data = ledger.setdefault("data", {})
        data["values"] = json.dumps([*json.loads(data.get("values", "[]")), value])
        then()

    return append


@asynccontextmanager
async def cut_off_before_writing(cluster: KubernetesCluster, term: Bound, value: str) -> AsyncIterator[Proxy]:
    """A writer that has checked and whose write is on its way, held back by the proxy, when the writer gives it up."""
    async with Proxy(cluster.endpoints[0]) as proxy:
        async with KubernetesSink(with_proxy(cluster, proxy.endpoint), LEDGER, timeout="4") as sink:
            with pytest.raises(OutcomeUnknown):
                await sink.bind(term).update(LEDGER, appended(value, proxy.hold_requests))
        assert proxy.held_bytes
        yield proxy


class KubernetesSinkRig:
    """Values as a list in a ConfigMap of each fence, which was sealed by the first leader of all before anything is written."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[KubernetesSink]:
        async with KubernetesSink(self.cluster.url, LEDGER, verify=verify) as sink:
            yield sink

    async def write(self, client: KubernetesSink, term: Bound, value: str) -> None:
        async with KubernetesSink(self.cluster.url, LEDGER) as first:
            with suppress(StaleToken):  # Somebody has sealed it, or written to it, since then.
                await first.seal(term.fence, Token(1))
        await client.bind(term).update(LEDGER, appended(value))

    async def read_all(self, fence: str) -> list[str]:
        async with operator(self.cluster.url) as by_hand:
            try:
                found = await by_hand.client.get(f"{CONFIG_MAPS}/ledger-{_digits(fence)}", operation="read")
            except NotThere:
                return []
        values: list[str] = json.loads(found.get("data", {}).get("values", "[]"))
        return values

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """It has read the object and found its token high enough, and its write is lost on its way."""
        async with cut_off_before_writing(self.cluster, term, value):
            pass

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


async def conflict_count(cluster: KubernetesCluster) -> int:
    """How many replacements of ConfigMaps the API server has refused because somebody else came before, as it counts them."""
    told = await by_kubectl(cluster, "get", "--raw", "/metrics")
    return sum(map(int, _CONFLICTS.findall(told)))


async def test_a_write_that_was_checked_and_arrives_after_a_successors_seal_changes_nothing(
    cluster: KubernetesCluster,
) -> None:
    rig, old = KubernetesSinkRig(cluster), SimpleNamespace(fence="late-write", token=5)
    async with rig.open() as sink:
        await rig.write(sink, old, "in time")
        async with cut_off_before_writing(cluster, old, "late") as proxy:
            await sink.seal("late-write", Token(6))
            before = await conflict_count(cluster)
            proxy.deliver()

            async def refused() -> bool:
                return await conflict_count(cluster) > before

            await until(refused)
        assert await rig.read_all("late-write") == ["in time"]
        # The same write is carried out where nobody has sealed meanwhile: it did arrive.
        new = SimpleNamespace(fence="late-write", token=6)
        async with cut_off_before_writing(cluster, new, "unsealed") as proxy:
            proxy.deliver()

            async def arrived() -> bool:
                return await rig.read_all("late-write") == ["in time", "unsealed"]

            await until(arrived)


async def test_an_object_belongs_to_one_fence_and_a_mistake_is_told_of(cluster: KubernetesCluster) -> None:
    async with KubernetesSink(cluster.url, "configmaps/owned") as sink:
        await sink.seal("one", Token(7))
        with pytest.raises(Refused, match="belongs to the fence 'one', not 'two': give each election an object"):
            await sink.seal("two", Token(8))
        # Python reads no number of more than 4300 digits, and no token has more than 19.
        for wrong in ("seven", "9" * 5000, "9" * 19, "-1", "٧"):
            await by_kubectl(cluster, "annotate", "configmap", "owned", f"tenure/token={wrong}", "--overwrite")
            with pytest.raises(Refused, match=f"is '{wrong[:40]}', where a number up to .* must be: mend it"):
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


def term(token: int) -> Bound:
    return SimpleNamespace(fence="led", token=token)


def manifest(name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": value}}


async def test_a_change_that_builds_the_object_anew_does_not_overwrite_a_successor(cluster: KubernetesCluster) -> None:
    def succeed() -> None:
        patch = {"metadata": {"annotations": {"tenure/token": "6"}}, "data": {"x": "successor"}}
        cluster.kubectl("patch", "configmap", "anew", "--type=merge", f"--patch={json.dumps(patch)}")

    def replace(thing: dict[str, Any]) -> None:
        thing.clear()
        thing.update(manifest("anew", "stale"))
        succeed()  # It has read, and has not written yet.

    async with KubernetesSink(cluster.url, "configmaps/anew") as sink:
        await sink.seal("led", Token(5))
        with pytest.raises(StaleToken, match="highest seen is 6"):
            await sink.bind(term(5)).update("configmaps/anew", replace)
    assert await by_kubectl(cluster, "get", "configmap", "anew", "--output=jsonpath={.data.x}") == "successor"


async def test_a_change_that_names_another_object_changes_its_own(cluster: KubernetesCluster) -> None:
    def replace(thing: dict[str, Any]) -> None:
        thing.clear()
        thing.update(manifest("somebody-elses", "mine"))

    await by_kubectl(cluster, "create", "configmap", "somebody-elses", "--from-literal=x=theirs")
    async with KubernetesSink(cluster.url, "configmaps/own") as sink:
        await sink.seal("led", Token(5))
        written = await sink.bind(term(5)).update("configmaps/own", replace)
    assert (written["metadata"]["name"], written["data"]["x"]) == ("own", "mine")
    assert written["metadata"]["annotations"] == {"tenure/token": "5", "tenure/fence": "led"}
    theirs = await by_kubectl(cluster, "get", "configmap", "somebody-elses", "--output=jsonpath={.data.x}")
    assert theirs == "theirs"


@pytest.mark.parametrize("metadata", [None, "text", {"annotations": "text"}])
async def test_a_change_that_leaves_no_metadata_is_refused_in_words(
    cluster: KubernetesCluster, metadata: object
) -> None:
    async with KubernetesSink(cluster.url, "configmaps/bare") as sink:
        await sink.seal("led", Token(5))
        with pytest.raises(Refused, match="configmaps/bare was changed into something without metadata"):
            await sink.bind(term(5)).update("configmaps/bare", lambda thing: thing.update(metadata=metadata))


async def test_a_fence_that_was_deleted_with_its_object_lets_nobody_write_before_it_is_sealed_again(
    cluster: KubernetesCluster,
) -> None:
    async with KubernetesSink(cluster.url, "configmaps/fallen") as sink:
        await sink.seal("led", Token(9))
        await by_kubectl(cluster, "delete", "configmap", "fallen")
        for token in (5, 9):
            with pytest.raises(Refused, match="it was deleted, and its fence is gone with it, or was never sealed"):
                await sink.bind(term(token)).update("configmaps/fallen", lambda _: None)
        await sink.seal("led", Token(10))
        with pytest.raises(StaleToken, match="highest seen is 10"):
            await sink.bind(term(5)).update("configmaps/fallen", lambda _: None)


@pytest.mark.parametrize("kind", ["configmaps", "secrets"])
async def test_a_fence_that_somebody_replaced_with_its_object_lets_nobody_write_before_it_is_sealed_again(
    cluster: KubernetesCluster, kind: str
) -> None:
    bare = manifest("replaced", "theirs") if kind == "configmaps" else manifest("replaced", "dGhlaXJz")
    bare["kind"] = {"configmaps": "ConfigMap", "secrets": "Secret"}[kind]
    await by_kubectl(cluster, "create", "--filename=-", stdin=json.dumps(bare))
    name, labelled = f"{kind}/replaced", {"labels": {"by": "leader"}}

    def change(thing: dict[str, Any]) -> None:
        thing["metadata"] |= labelled

    async with KubernetesSink(cluster.url, name) as sink:
        with pytest.raises(Refused, match="was never sealed"):
            await sink.bind(term(5)).update(name, change)
        await sink.seal("led", Token(6))
        await sink.bind(term(6)).update(name, change)
        # As a pipeline does with a file that knows nothing of fences.
        await by_kubectl(cluster, "replace", "--filename=-", stdin=json.dumps(bare))
        for token in (5, 6):  # The one that was succeeded, and the one that leads: nobody can tell them apart any more.
            with pytest.raises(Refused, match=f"{name} has lost its fence, the annotation tenure/token, .*: seal it"):
                await sink.bind(term(token)).update(name, change)
        assert await by_kubectl(cluster, "get", name, "--output=jsonpath={.metadata.labels}") == ""
        await sink.seal("led", Token(6))
        await sink.bind(term(6)).update(name, change)
        with pytest.raises(StaleToken, match="highest seen is 6"):
            await sink.bind(term(5)).update(name, change)


async def test_an_object_that_is_deleted_under_a_write_is_not_made_again_by_it(cluster: KubernetesCluster) -> None:
    # A Lease is of the few kinds that a replacement makes anew if there is none. It names the one that was read, so not here.
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "dropped"}}
    await by_kubectl(cluster, "create", "--filename=-", stdin=json.dumps(lease))

    def drop(thing: dict[str, Any]) -> None:
        thing["spec"] = {"holderIdentity": "stale"}
        cluster.kubectl("delete", "lease", "dropped", "--ignore-not-found")

    async with KubernetesSink(cluster.url, "leases.coordination.k8s.io/dropped") as sink:
        await sink.seal("led", Token(5))
        with pytest.raises(Refused, match='"dropped" not found'):
            await sink.bind(term(5)).update("leases.coordination.k8s.io/dropped", drop)


async def test_whoever_has_no_rights_is_told_which_ones_a_sink_needs(
    cluster: KubernetesCluster, tmp_path: Path
) -> None:
    configuration = json.loads(cluster.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": cluster.token_of("bob")}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(configuration))
    url = f"kubernetes://default?kubeconfig={file}"
    for name, verbs in (
        ("configmaps/barred", "get, create and update configmaps"),
        ("secrets/barred", "get and update secrets"),
    ):
        async with KubernetesSink(url, name) as sink:
            with pytest.raises(Refused, match=f"a sink needs the right to {verbs} in the namespace default") as told:
                await sink.seal("led", Token(5))
        assert "--rbac" not in str(told.value)
