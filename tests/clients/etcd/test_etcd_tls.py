"""TLS on a real cluster: who is trusted, whose name is checked, and what people are told when it fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.tls import tls_context
from tenure.errors import ConfigError, Refused, Unreachable
from tenure.testing.engines import Binary, EtcdCluster, Tls
from tests.clients.etcd.etcd_client_rig import client_of, fresh_key, play, put


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(etcd_binary: Binary | None, tls: Tls) -> Iterator[EtcdCluster]:
    with EtcdCluster(1, binary=etcd_binary, tls=tls) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def mutual(etcd_binary: Binary | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EtcdCluster, Tls]]:
    """A cluster that takes the common name of a client's certificate for its user; only root may do anything."""
    tls = Tls(tmp_path_factory.mktemp("mutual"), clients_need_certificates=True)
    with EtcdCluster(1, binary=etcd_binary, tls=tls) as cluster:
        cluster.ctl("user", "add", "root:unused")
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("user", "add", "eve:unused")
        cluster.ctl("auth", "enable")
        yield cluster, tls


def told(client: EtcdClient) -> str:
    """What a person is told who opens this client."""
    messages = []

    async def story() -> None:
        with pytest.raises(Unreachable) as caught:
            async with client:
                pass
        messages.append(str(caught.value))

    play(story())
    assert "\n" not in messages[0]
    return messages[0]


def test_calls_go_over_tls(secure: EtcdCluster, tls: Tls) -> None:
    async def story() -> None:
        async with client_of(secure, tls=tls_context(str(tls.ca))) as client:
            assert await put(client, fresh_key(), b"x" * 300_000) > 0

    play(story())


def test_a_certificates_common_name_is_the_user(mutual: tuple[EtcdCluster, Tls]) -> None:
    cluster, tls = mutual

    async def story() -> None:
        root, eve = tls.client, tls.issue("eve")
        async with client_of(cluster, tls=tls_context(str(tls.ca), str(root.certificate), str(root.key))) as client:
            await put(client, fresh_key())
        async with client_of(cluster, tls=tls_context(str(tls.ca), str(eve.certificate), str(eve.key))) as client:
            with pytest.raises(Refused, match="permission denied"):
                await put(client, fresh_key())

    play(story())


def test_an_authority_that_we_do_not_know_is_told(secure: EtcdCluster, tls: Tls) -> None:
    assert "name its authority by ca" in told(client_of(secure, tls=tls_context(str(tls.wrong_ca))))


def test_a_certificate_for_another_host_is_told(secure: EtcdCluster, tls: Tls) -> None:
    port = secure.nodes[0].ports[0]
    client = EtcdClient([f"localhost:{port}"], address="etcds://localhost", tls=tls_context(str(tls.ca)))
    assert "its certificate is for another host (Hostname mismatch" in told(client)


def test_plaintext_to_a_tls_port_is_told(secure: EtcdCluster) -> None:
    assert "if that port speaks TLS, use etcds://" in told(client_of(secure))


def test_tls_to_a_plaintext_port_is_told(etcd: EtcdCluster, tls: Tls) -> None:
    assert "that port does not speak TLS, use etcd://" in told(client_of(etcd, tls=tls_context(str(tls.ca))))


def test_a_missing_client_certificate_is_told(mutual: tuple[EtcdCluster, Tls]) -> None:
    cluster, tls = mutual
    assert "give cert and key" in told(client_of(cluster, tls=tls_context(str(tls.ca))))


@pytest.mark.parametrize(
    ("names", "setting"),
    [
        (["missing.pem"], "ca"),
        (["rubbish.pem"], "ca"),
        (["ca.pem", "missing.pem"], "cert"),
        (["ca.pem", "rubbish.pem", "rubbish.pem"], "cert"),
        (["ca.pem", None, "rubbish.pem"], "key"),
    ],
)
def test_a_file_that_is_no_certificate_is_told(tls: Tls, tmp_path: Path, names: list[str | None], setting: str) -> None:
    (tmp_path / "rubbish.pem").write_text("rubbish")
    (tmp_path / "ca.pem").write_bytes(tls.ca.read_bytes())
    files = [name and str(tmp_path / name) for name in names]
    with pytest.raises(ConfigError) as caught:
        tls_context(*files)
    assert caught.value.setting == setting


def test_calls_go_over_ipv6() -> None:
    async def story(cluster: EtcdCluster) -> None:
        assert cluster.endpoints[0].startswith("[::1]:")
        async with client_of(cluster) as client:
            assert await put(client, fresh_key()) > 0

    with EtcdCluster(1, host="::1") as cluster:
        play(story(cluster))
