"""Who asks, how that is kept fresh, and what becomes of a tenure whose rights are taken away."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.errors import Refused, Unreachable
from tenure.stores.kubernetes import KubernetesStore, from_url
from tenure.testing.engines import KubernetesCluster, Tls
from tests.kubernetes.kubernetes_rig import bid, by_kubectl, certified, expired_token, give, rights_of, stands, wins

pytestmark = pytest.mark.anyio

WRONG = "wrong-and-secret"


@pytest.fixture
def alice(cluster: KubernetesCluster) -> Iterator[str]:
    """The token of a user with the rights of the manifest, and no others."""
    text = rights_of("alice")
    give(cluster, text, "alice", "get", "namespaces/default")
    yield cluster.token_of("alice")
    cluster.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=text)


async def test_the_rights_of_the_manifest_are_enough_for_everything(
    configured: Callable[..., str], alice: str, cluster: KubernetesCluster
) -> None:
    async with from_url(configured({"token": alice})) as store:
        grant = await wins(store, bid("alice"))
        assert await store.renew(grant) == grant
        assert await store.proclaim(grant, "http://here") == grant
        assert await store.ask_to_resign("alice") is not None
        assert await store.elections()
        await store.release(grant.bid)
        await wins(store, bid("alice"))
    examined = await KubernetesStore(store.settings).examine(8 * 10**9)
    assert {finding.level.value for finding in examined} == {"good"}
    assert "alice" in await by_kubectl(cluster, "get", "rolebinding", "tenure", "--output=yaml")


async def test_without_rights_the_one_that_is_missing_is_named_with_its_fix(
    configured: Callable[..., str], cluster: KubernetesCluster
) -> None:
    with pytest.raises(Refused, match=r'User "bob" cannot get resource "namespaces".*tenure doctor --rbac'):
        await stands(configured({"token": cluster.token_of("bob")}), "bob")


async def test_rights_that_are_taken_away_refuse_renewals_until_they_are_given_back(
    configured: Callable[..., str], alice: str, cluster: KubernetesCluster
) -> None:
    async with from_url(configured({"token": alice})) as store:
        grant = await wins(store, bid("taken-away", ttl_ns=60 * 10**9))
        rights = await by_kubectl(cluster, "get", "rolebinding", "tenure", "--output=json")
        await by_kubectl(cluster, "delete", "rolebinding", "tenure")

        async def refused() -> str:
            async with asyncio.timeout(30):
                while True:
                    try:
                        await store.renew(grant)
                    except Refused as error:
                        return str(error)

        told = await refused()
        assert 'User "alice" cannot update resource "leases"' in told
        kept = json.loads(rights)
        kept["metadata"] = {"name": "tenure", "namespace": "default"}
        await by_kubectl(cluster, "apply", "--filename=-", stdin=json.dumps(kept))

        async with asyncio.timeout(30):
            while True:
                try:
                    assert await store.renew(grant) == grant
                except Refused:
                    continue
                break


@pytest.mark.parametrize("user", [{}, {"token": WRONG}], ids=["nobody", "a wrong token"])
async def test_whoever_is_not_known_is_told_so_and_no_secret_is_shown(
    configured: Callable[..., str], user: dict[str, str]
) -> None:
    with pytest.raises(Refused, match=r"Unauthorized|cannot get resource") as told:
        await stands(configured(user), "unknown")
    assert WRONG not in str(told.value)
    assert "\n" not in str(told.value)


async def test_a_token_that_is_replaced_in_its_file_is_taken_up_when_the_old_one_is_refused(
    configured: Callable[..., str], cluster: KubernetesCluster, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(cluster.token_of("admin"))
    async with from_url(configured({"tokenFile": str(file)})) as store:
        grant = await wins(store, bid("rotated"))
        # What was read is refused from now on, as an expired one is; the file has a new one.
        store.settings.access.credentials._headers = {"Authorization": f"Bearer {WRONG}"}  # type: ignore[attr-defined]
        assert await store.renew(grant) == grant
        file.write_text(WRONG)
        store.settings.access.credentials._headers = {"Authorization": "Bearer expired"}  # type: ignore[attr-defined]
        with pytest.raises(Refused, match="log in again"):
            await store.renew(grant)
        file.write_text(cluster.token_of("admin"))
        assert await store.renew(grant) == grant


async def test_a_token_that_has_expired_is_told_of_and_its_successor_is_taken_up(
    configured: Callable[..., str], cluster: KubernetesCluster, account: str, tmp_path: Path
) -> None:
    file, expired = tmp_path / "token", expired_token(cluster, account)
    file.write_text(expired)
    url = configured({"tokenFile": str(file)})
    with pytest.raises(Refused, match=r"Unauthorized; .*expired: log in again") as told:
        await stands(url, "expired")
    assert expired not in str(told.value)
    store = from_url(url)
    assert expired in str(await store.settings.access.credentials.headers())
    file.write_text(await by_kubectl(cluster, "create", "token", "tenure"))
    async with store:
        grant = await wins(store, bid("expired"))
        assert await store.renew(grant) == grant


async def test_a_client_certificate_says_who_asks(configured: Callable[..., str], cluster: KubernetesCluster) -> None:
    url = configured(certified(cluster, "carol"))
    with pytest.raises(Refused, match=r'User "carol" cannot get resource "namespaces"'):
        await stands(url, "by-certificate")
    rights = rights_of("carol")
    try:
        await asyncio.to_thread(give, cluster, rights, "carol", "get", "namespaces/default")
        await stands(url, "by-certificate")
    finally:
        await by_kubectl(cluster, "delete", "--filename=-", stdin=rights)


async def test_an_exec_plugin_says_who_asks_and_is_asked_again_when_that_is_refused(
    configured: Callable[..., str], cluster: KubernetesCluster, tmp_path: Path
) -> None:
    script = tmp_path / "plugin.py"
    said, asked = tmp_path / "said", tmp_path / "asked"
    said.write_text(WRONG)
    script.write_text(
        "import json, pathlib\n"
        f"said, asked = pathlib.Path({str(said)!r}), pathlib.Path({str(asked)!r})\n"
        "asked.write_text(str(int(asked.read_text()) + 1) if asked.exists() else '1')\n"
        "status = {'token': said.read_text()}\n"
        f"said.write_text({cluster.token_of('admin')!r})\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    await stands(configured({"exec": plugin}), "plugin")
    assert asked.read_text() == "2"


async def test_a_server_whose_authority_is_not_trusted_is_not_spoken_to(
    configured: Callable[..., str], cluster: KubernetesCluster, tmp_path: Path
) -> None:
    user = {"token": cluster.token_of("admin")}
    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        await stands(configured(user, {"certificate-authority": str(Tls(tmp_path).ca)}), "untrusted")
    insecure = {"certificate-authority": None, "insecure-skip-tls-verify": True}
    await stands(configured(user, insecure), "unchecked")


async def test_another_name_may_be_checked_than_the_one_that_is_asked(
    configured: Callable[..., str], cluster: KubernetesCluster
) -> None:
    user, port = {"token": cluster.token_of("admin")}, cluster.endpoints[0].rpartition(":")[2]
    elsewhere = {"server": f"https://localhost:{port}"}
    with pytest.raises(Unreachable, match="its certificate is for another host"):
        await stands(configured(user, elsewhere), "wrong-name")
    await stands(configured(user, {**elsewhere, "tls-server-name": "127.0.0.1"}), "right-name")


async def test_a_proxy_is_gone_through(configured: Callable[..., str], cluster: KubernetesCluster) -> None:
    asked: list[bytes] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        host, port = asked[-1].split()[1].decode().rsplit(":", 1)
        there, to_there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pass_on(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
            try:
                while data := await one.read(65536):
                    other.write(data)
            except ConnectionError:
                pass
            finally:
                other.transport.abort()

        await asyncio.gather(pass_on(reader, to_there), pass_on(there, writer))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = {"token": cluster.token_of("admin")}
    await stands(configured(user, {"proxy-url": f"http://127.0.0.1:{port}"}), "proxied")
    server.close()
    assert all(request.startswith(f"CONNECT {cluster.endpoints[0]}".encode()) for request in asked)
    assert asked
