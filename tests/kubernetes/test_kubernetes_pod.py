"""In a pod: which API server and which user a URL without further words means there, and what becomes of it when they change."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.clients.kubernetes import KubernetesClient
from tenure.clients.kubernetes.access import POD_FOLDER, Access, in_pod
from tenure.clients.kubernetes.settings import TRANSITIONS, Settings
from tenure.errors import Unreachable
from tenure.stores.kubernetes import KubernetesStore
from tenure.testing.engines import KubernetesCluster, MissingEngine, Tls
from tests.kubernetes.kubernetes_rig import LEASES, LIMIT_S, bid, wins
from tests.kubernetes.stub import stub
from tests.user import at_home

pytestmark = pytest.mark.anyio

# What the kubelet would have put there is there for the command alone: it has a file system of its own for such things.
AS_A_POD = """
mount -t tmpfs none /var/run && mkdir -p "$1" && cp "$2"/* "$1" || exit 99
shift 2
exec "$@"
"""
NO_RIGHT = 99
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def fill(folder: Path, token: str, ca: Path) -> None:
    """Write what the kubelet puts into a pod."""
    for name, text in {"token": token, "namespace": "default", "ca.crt": ca.read_text()}.items():
        (folder / name).write_text(text)


def reached_at(endpoint: str) -> dict[str, str]:
    host, port = endpoint.split(":")
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


@pytest.fixture
def pod(cluster: KubernetesCluster, account: str, tmp_path: Path) -> Path:
    """The files of a pod that has the service account."""
    assert cluster.tls is not None
    folder = tmp_path / "pod"
    folder.mkdir()
    fill(folder, cluster.kubectl("create", "token", account.rpartition(":")[2]), cluster.tls.ca)
    return folder


@pytest.fixture
def run(pod: Path, cluster: KubernetesCluster, tmp_path: Path) -> Run:
    """Run a command of ours in a pod, at the home of a user whose kubeconfig names a server that is not there."""
    kubeconfig = tmp_path / "home" / ".kube" / "config"
    kubeconfig.parent.mkdir(parents=True)
    elsewhere = json.loads(cluster.kubeconfig.read_text())
    elsewhere["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    kubeconfig.write_text(json.dumps(elsewhere))

    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        settled = at_home(tmp_path / "home", **reached_at(cluster.endpoints[0]))
        environment = {key: value for key, value in settled.items() if key != "KUBECONFIG"} | variables
        apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        ran = subprocess.run(
            [*apart, "sh", "-c", AS_A_POD, "sh", str(POD_FOLDER), str(pod), sys.executable, "-m", "tenure", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if ran.returncode == NO_RIGHT or "unshare failed" in ran.stderr:
            raise MissingEngine("the right to make mount namespaces", "run as root")
        return ran

    return run


async def test_a_pod_stands_by_its_service_account(cluster: KubernetesCluster, account: str, pod: Path) -> None:
    access = in_pod(reached_at(cluster.endpoints[0]), pod)
    assert access is not None
    async with KubernetesStore(Settings(access, "default", 5.0, TRANSITIONS)) as store:
        grant = await wins(store, bid("pod"))
        assert await store.renew(grant) == grant
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        told = await store.client.create(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews", asked, operation="who am I"
        )
        assert told["status"]["userInfo"]["username"] == account


def test_in_a_pod_a_url_without_a_namespace_means_its_own_api_server_and_not_a_file_at_home(run: Run) -> None:
    ran = run("run", "in-a-pod", "--once", "--json", "--store", "kubernetes://", "--", "true")
    assert ran.returncode == 0, ran.stderr
    assert "elected" in [json.loads(line)["event"] for line in ran.stderr.splitlines()]
    status = run("status", "--json", "--store", "kubernetes://")
    assert "in-a-pod" in [one["election"] for one in json.loads(status.stdout)["elections"]], status.stderr


@pytest.mark.parametrize("how", ["a context is named", "KUBECONFIG is set", "a file is named"])
def test_in_a_pod_a_file_that_is_named_counts_for_more(run: Run, tmp_path: Path, how: str) -> None:
    file = tmp_path / "home" / ".kube" / "config"
    options = {"a context is named": "?context=n1", "a file is named": f"?kubeconfig={file}"}.get(how, "")
    variables = {"KUBECONFIG": str(file)} if how == "KUBECONFIG is set" else {}
    ran = run("status", "--store", f"kubernetes://default{options}", **variables)
    assert ran.returncode == 69
    assert "127.0.0.1:1: nobody listens on that port" in ran.stderr


def client_of(access: Access) -> KubernetesClient:
    """One with connections of its own, so that the server shows its certificate."""
    return KubernetesClient(access, address="kubernetes://default", timeout_s=LIMIT_S)


async def test_a_pod_reaches_an_api_server_whose_authority_was_replaced_and_one_that_has_the_old_one_still(
    tmp_path: Path,
) -> None:
    authorities = []
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        authorities.append(Tls(tmp_path / name))
    old, new = authorities
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def show(authority: Tls) -> None:
        pair = authority.issue("server", "127.0.0.1")
        shown.load_cert_chain(pair.certificate, pair.key)

    show(old)
    async with stub(shown) as api:
        fill(tmp_path, "token", old.ca)
        access = in_pod(reached_at(api.server.removeprefix("https://")), tmp_path)
        assert access is not None
        async with client_of(access) as client:
            assert await client.get(LEASES, operation="look")
        show(new)
        async with client_of(access) as client:
            with pytest.raises(Unreachable, match="its certificate is not trusted"):
                await client.get(LEASES, operation="look")
            (tmp_path / "ca.crt").write_text(new.ca.read_text())
            with pytest.raises(Unreachable, match="its certificate is not trusted"):
                await client.get(LEASES, operation="look")  # It was read less than a minute ago.
            access.credentials._read_at_s -= 61  # type: ignore[attr-defined]
            assert await client.get(LEASES, operation="look")
        show(old)
        async with client_of(access) as client:
            assert await client.get(LEASES, operation="look")
