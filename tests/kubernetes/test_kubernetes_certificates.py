"""Client certificates that a plugin hands out: they say who asks, and are replaced when they are refused."""

import asyncio
import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tenure.clients.kubernetes.client import AT_ONCE
from tenure.errors import Refused
from tenure.stores.kubernetes import from_url
from tenure.testing.engines import KubernetesCluster, Tls
from tests.kubernetes.kubernetes_rig import LEASES, bid, by_kubectl, give, rights_of, stands, wins
from tests.kubernetes.stub import status, stub

pytestmark = pytest.mark.anyio

API = "client.authentication.k8s.io/v1"
# It says whatever stands in a file, and counts how often it was asked.
SAYS = """
import pathlib, sys
said, asked = map(pathlib.Path, sys.argv[1:])
with asked.open("a") as count: count.write("x")
print(said.read_text())
"""


class Issuer:
    """What stands behind a plugin."""

    def __init__(self, tls: Tls, folder: Path) -> None:
        self._tls, self._said, self._asked = tls, folder / "said", folder / "asked"
        self._asked.touch()
        arguments = ["-c", SAYS, str(self._said), str(self._asked)]
        self.user = {"exec": {"apiVersion": API, "command": sys.executable, "args": arguments}}

    @property
    def asked_count(self) -> int:
        return len(self._asked.read_text())

    def issue(self, name: str) -> None:
        """Have it hand out a certificate with this name from now on."""
        pair = self._tls.issue(name)
        given = {"clientCertificateData": pair.certificate.read_text(), "clientKeyData": pair.key.read_text()}
        self._said.write_text(json.dumps({"apiVersion": API, "kind": "ExecCredential", "status": given}))


async def test_a_certificate_of_a_plugin_says_who_asks(
    configured: Callable[..., str], cluster: KubernetesCluster, tmp_path: Path
) -> None:
    assert cluster.tls is not None
    issuer = Issuer(cluster.tls, tmp_path)
    issuer.issue("dora")
    url = configured(issuer.user)
    with pytest.raises(Refused, match=r'User "dora" cannot get resource "namespaces"'):
        await stands(url, "plugin-certificate")
    rights = rights_of("dora")
    try:
        await asyncio.to_thread(give, cluster, rights, "dora", "get", "namespaces/default")
        await stands(url, "plugin-certificate")
    finally:
        await by_kubectl(cluster, "delete", "--filename=-", stdin=rights)
    assert issuer.asked_count == 2


async def test_a_certificate_of_a_plugin_that_is_refused_is_replaced_though_connections_with_it_are_open(
    tmp_path: Path,
) -> None:
    tls = Tls(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = tls.issue("server", "127.0.0.1")
    server.load_cert_chain(pair.certificate, pair.key)
    server.load_verify_locations(tls.ca)
    server.verify_mode = ssl.CERT_OPTIONAL
    issuer, known, seen = Issuer(tls, tmp_path), "first", []
    all_are_there = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        """As an API server does, it looks at each request anew whether the certificate of its connection has ended."""
        assert request.transport is not None
        shown = dict(part for (part,) in request.transport.get_extra_info("peercert")["subject"])["commonName"]
        seen.append(shown)
        if shown == known:
            return None
        if seen.count(shown) == AT_ONCE:
            all_are_there.set()
        await all_are_there.wait()
        return status(401)

    async with stub(server) as api:
        cluster = {"server": api.server, "certificate-authority": str(tls.ca)}
        configuration = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": issuer.user}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(configuration))
        issuer.issue(known)
        api.answer = answer
        async with from_url(f"kubernetes://default?kubeconfig={tmp_path / 'kubeconfig'}&timeout=60") as store:
            grant = await wins(store, bid("replaced", ttl_ns=600 * 10**9))
            assert (set(seen), issuer.asked_count) == ({"first"}, 1)
            credentials = store.client.access.credentials
            before = await credentials.headers()
            issuer.issue("second")
            known = "second"
            seen.clear()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(AT_ONCE):
                    tasks.create_task(store.client.get(LEASES, operation="look"))
            # Each was refused once, all of them were served after one more run, and no old connection was used again.
            assert (seen.count("first"), seen.count("second"), issuer.asked_count) == (AT_ONCE, AT_ONCE, 2)
            # Somebody whose refusal comes only now is served by what is there: no third run.
            assert await credentials.renew(before)
            assert await store.renew(grant) == grant
            assert issuer.asked_count == 2
