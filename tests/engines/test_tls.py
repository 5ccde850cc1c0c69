"""Engines that speak TLS, each version on this machine: whom their clients trust, and whom they let in."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.testing.engines import Binary, ConsulCluster, EngineFailed, EtcdCluster, KeyPair, Tls, ZooKeeperEnsemble

Cluster = EtcdCluster | ZooKeeperEnsemble | ConsulCluster
QUESTIONS = {
    "etcd": b"GET /health HTTP/1.0\r\n\r\n",
    "zookeeper": b"ruok",
    "consul": b"GET /v1/status/leader HTTP/1.0\r\n\r\n",
}
ANSWERS = {"etcd": b"health", "zookeeper": b"imok", "consul": b"127.0.0.1:"}


def is_answered(cluster: Cluster, ca: Path, client: KeyPair | None) -> bool:
    """Whether a node answers a client that trusts ``ca`` and shows this certificate."""
    [node] = cluster.nodes
    context = ssl.create_default_context(cafile=ca)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    try:
        with (
            socket.create_connection((node.host, node.ports[0]), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=node.host) as connection,
        ):
            connection.sendall(QUESTIONS[cluster.engine])
            return ANSWERS[cluster.engine] in b"".join(iter(lambda: connection.recv(1000), b""))
    except ssl.SSLCertVerificationError:
        raise  # It is we who do not trust the server.
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_server_is_trusted_by_those_who_know_its_authority(make: Callable[..., Cluster], tmp_path: Path) -> None:
    with make(size=1, tls=(tls := Tls(tmp_path))) as cluster:
        assert cluster.url == f"{cluster.engine}s://{cluster.endpoints[0]}"
        assert is_answered(cluster, tls.ca, None)
        with pytest.raises(ssl.SSLCertVerificationError):
            is_answered(cluster, tls.wrong_ca, None)


def test_a_server_that_wants_certificates_refuses_clients_without(make: Callable[..., Cluster], tmp_path: Path) -> None:
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    with make(size=1, tls=(tls := Tls(tmp_path, clients_need_certificates=True))) as cluster:
        assert is_answered(cluster, tls.ca, tls.client)
        assert not is_answered(cluster, tls.ca, None)
        assert not is_answered(cluster, tls.ca, Tls(strangers).client)


def test_the_name_of_a_client_is_the_one_that_was_chosen(etcd_binary: Binary | None, tmp_path: Path) -> None:
    tls = Tls(tmp_path, client_name="ada", clients_need_certificates=True)
    with EtcdCluster(1, binary=etcd_binary, tls=tls) as cluster:
        for command in ("user add root:x", "user grant-role root root", "user add ada --no-password", "auth enable"):
            cluster.ctl(*command.split())
        with pytest.raises(EngineFailed, match="permission denied"):
            cluster.ctl("put", "key", "value")
        cluster.ctl("--user=root:x", "user", "grant-role", "ada", "root")
        assert cluster.ctl("put", "key", "value") == "OK\n"
        assert cluster.leader() is cluster.nodes[0]
