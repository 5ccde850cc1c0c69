"""What the tests of the Kubernetes store and sink share: the rig of the contract, and eyes and hands of an operator."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tenure.clients.kubernetes import Conflict, KubernetesClient, NotThere, settings_of
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.base import Store
from tenure.stores.kubernetes import KubernetesStore, from_url
from tenure.stores.kubernetes.names import lease_for
from tenure.stores.kubernetes.rights import manifest
from tenure.testing.engines import EngineFailed, KubernetesCluster
from tenure.testing.engines.processes import wait_for

# Whole seconds, as a Lease has them, and long enough for a busy machine to run kubectl in the middle of it.
TTL_NS = 9 * 10**9
# Far more than anything takes that is waited for; a machine with all cores busy is ten times slower than an idle one.
LIMIT_S = 60
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Operator:
    """Somebody who looks and writes by hand."""

    def __init__(self, client: KubernetesClient) -> None:
        self.client = client

    async def lease(self, election: str) -> dict[str, Any]:
        return await self.client.get(f"{LEASES}/{lease_for(election)}", operation="look")

    async def delete(self, election: str) -> None:
        with suppress(NotThere):
            await self.client.ask("DELETE", f"{LEASES}/{lease_for(election)}", None, operation="delete")

    async def edit(self, election: str, **spec: Any) -> None:
        """Write into the record."""
        await self._change(election, lambda lease: lease["spec"].update(spec))

    async def label(self, election: str, value: str) -> None:
        """Change the Lease and nothing of its record."""
        await self._change(election, lambda lease: lease["metadata"].setdefault("labels", {}).update(edited=value))

    async def _change(self, election: str, change: Callable[[dict[str, Any]], None]) -> None:
        while True:
            lease = await self.lease(election)
            change(lease)
            with suppress(Conflict):  # Somebody else wrote meanwhile.
                await self.client.replace(f"{LEASES}/{lease_for(election)}", lease, operation="edit")
                return


@asynccontextmanager
async def operator(url: str) -> AsyncIterator[Operator]:
    settings = settings_of(url)
    async with KubernetesClient(settings.access, address=settings.address, timeout_s=10) as client:
        yield Operator(client)


class KubernetesRig:
    """One cluster under the contract."""

    # So that a call has two seconds, on a machine on which a dozen promises are checked at once.
    ttl_ns = 6 * 10**9

    def __init__(self, cluster: KubernetesCluster, options: str = "") -> None:
        self.cluster, self.url = cluster, cluster.url + options
        self._opened: list[KubernetesStore] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[KubernetesStore]:
        async with from_url(self.url) as store:
            self._opened.append(store)
            try:
                yield store
            finally:
                self._opened.remove(store)

    async def delete_record(self, election: str) -> None:
        """Delete a Lease as somebody does who wants the office free at once: it is nobody's before, and everybody has seen that.

        Else it is taken for the rest of its duration by those who have seen who held it: test_kubernetes_deleted.py.
        """
        async with operator(self.url) as by_hand:
            with suppress(NotThere):
                await by_hand.edit(election, holderIdentity=None)
            for store in self._opened:
                await store.read(election)
            await by_hand.delete(election)

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)

    async def pass_time(self, ns: int) -> None:
        await anyio.sleep(ns / 1e9)


async def until(seen: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that will happen; fails if it does not."""
    with anyio.fail_after(LIMIT_S):
        while not await seen():  # noqa: ASYNC110  (another process does it)
            await anyio.sleep(0.02)


def give(cluster: KubernetesCluster, rights: str, user: str, *expected: str) -> None:
    """Apply a manifest, and wait until the API server goes by it: ``expected`` are words of ``kubectl auth can-i``.

    It hears of new rights by a watch of its own, as everybody does.
    """

    def given() -> bool:
        try:
            return cluster.kubectl("auth", "can-i", f"--as={user}", *expected).strip() == "yes"
        except EngineFailed:  # It says no, and ends with 1.
            return False

    cluster.kubectl("apply", "--filename=-", stdin=rights)
    assert wait_for(given, LIMIT_S), f"{user} still may not {' '.join(expected)}"


@contextmanager
def service_account(cluster: KubernetesCluster) -> Iterator[str]:
    """The service account that the manifest is for, with the rights of it; ``kubectl create token tenure`` gives a token."""
    user = "system:serviceaccount:default:tenure"
    text = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: tenure, namespace: default}\n---\n"
    text += manifest("default")
    give(cluster, text, user, "get", "namespaces/default")
    try:
        yield user
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=text)


def rights_of(user: str) -> str:
    """The rights of the manifest for this user, in the place of the service account that it names."""
    text, subject = manifest("default"), '- kind: ServiceAccount\n  name: tenure\n  namespace: "default"\n'
    assert subject in text
    return text.replace(subject, f"- kind: User\n  name: {user}\n")


def certified(cluster: KubernetesCluster, user: str) -> dict[str, str]:
    """What a kubeconfig has for somebody who is known by a certificate alone."""
    assert cluster.tls is not None
    pair = cluster.tls.issue(user)
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def expired_token(cluster: KubernetesCluster, account: str) -> str:
    """A token of this service account, as the cluster itself signed it an hour too long ago."""
    name = account.rpartition(":")[2]
    uid = cluster.kubectl("get", "serviceaccount", name, "--output=jsonpath={.metadata.uid}")
    ended_s, issuer = int(time.time()) - 3600, "https://tenure.example"
    claims = {
        "iss": issuer,
        "sub": account,
        "aud": [issuer],
        "exp": ended_s,
        "iat": ended_s - 60,
        "nbf": ended_s - 60,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": name, "uid": uid}},
    }
    return _signed(claims, cluster._signer.key)


def _signed(claims: dict[str, Any], key: Path) -> str:
    """A JSON web token."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signer = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "JWT"}, claims))
    signature = decode_dss_signature(signer.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encoded(b''.join(number.to_bytes(32, 'big') for number in signature))}"


async def stands(url: str, name: str) -> None:
    """Take the office, keep it and leave it."""
    async with from_url(url) as store:
        grant = await wins(store, bid(name))
        assert await store.renew(grant) == grant
        await store.release(grant.bid)


def bid(election: str, holder: Holder | None = None, serial: int = 1, ttl_ns: int = TTL_NS, advertise: str = "") -> Bid:
    return Bid(election, holder or Holder.fresh(), serial, ttl_ns, advertise)


async def wins(store: Store, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant)
    return answer


async def waits(store: Store, asked: Bid) -> Wait:
    answer = await store.claim(asked)
    assert isinstance(answer, Wait)
    return answer


async def takes_over(store: Store, wait: Wait) -> Grant:
    """Stand by until the office is free, and take it."""
    answer: Grant | Wait = wait
    with anyio.fail_after(LIMIT_S):
        while isinstance(answer, Wait):
            await store.changed(answer)
            answer = await store.claim(wait.bid)
    return answer


def with_proxy(cluster: KubernetesCluster, endpoint: str, node: int = 0) -> str:
    """The URL of a store that reaches an API server by another address, with a kubeconfig of its own."""
    configuration = json.loads(cluster.kubeconfig.read_text())
    configuration["current-context"] = configuration["contexts"][node]["name"]
    configuration["clusters"][node]["cluster"]["server"] = f"https://{endpoint}"
    file = cluster.folder / f"kubeconfig-{endpoint.replace(':', '-')}"
    file.write_text(json.dumps(configuration))
    return f"kubernetes://default?kubeconfig={file}"


async def by_kubectl(cluster: KubernetesCluster, *arguments: str, stdin: str = "") -> str:
    return await asyncio.to_thread(lambda: cluster.kubectl(*arguments, stdin=stdin))
