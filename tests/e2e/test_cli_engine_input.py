"""What a person hears who names an engine that is not there, not the one that was meant, or that refuses them.

One line that says what to do, exit code 69, no traceback, no password, and an end: the same for every command.
"""

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.user import at_home

from tenure.testing.engines import ConsulCluster, EtcdCluster, Tls, ZooKeeperEnsemble

# Nothing here takes longer than a few seconds. A command that hangs is ended by this.
WITHIN_S = 60.0
COMMANDS = (("status", "x"), ("run", "x", "--no-wait"), ("doctor",))
PASSWORD = "hunter2/@x"
WRITTEN = "hunter2%2F%40x"
WRONG = "hunter3%2F%40x"
QUICK = ("--heartbeat-interval=50", "--election-timeout=250")
NO_STORE = 69

Tell = Callable[..., list[str]]


@pytest.fixture
def told(tmp_path: Path) -> Tell:
    """What each command says of a URL, in that order: one line, whatever it is."""

    def tell(url: str, commands: tuple[tuple[str, ...], ...] = COMMANDS) -> list[str]:
        return [_one_line(run) for run in _run_all(tmp_path, commands, url)]

    return tell


def _run_all(home: Path, commands: tuple[tuple[str, ...], ...], url: str) -> list["subprocess.CompletedProcess[str]"]:
    """Run commands side by side: each of them mostly waits."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(lambda command: _run(home, command, url), commands))


def _run(home: Path, command: tuple[str, ...], url: str) -> "subprocess.CompletedProcess[str]":
    body = ["--", "true"] if command[0] == "run" else []
    run = subprocess.run(
        [sys.executable, "-m", "tenure", *command, "--store", url, *body],
        env=at_home(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    for secret in ("hunter", WRITTEN, WRONG):
        assert secret not in run.stdout + run.stderr
    return run


def _one_line(run: "subprocess.CompletedProcess[str]") -> str:
    assert (run.returncode, run.stdout) == (NO_STORE, ""), run.stderr
    # A candidate says so when it tries again; then comes why it gave up.
    lines = [line for line in run.stderr.splitlines() if not line.endswith("; trying again")]
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("tenure: ")
    return lines[0]


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on which nobody listens. It is bound, so that nobody else gets it meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def silent_server() -> Iterator[int]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class _OldEtcd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Keep it quiet."""


@contextmanager
def web_server() -> Iterator[int]:
    """A server of HTTP/1 and nothing else, as etcd was before version 3."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OldEtcd) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()


@contextmanager
def talking_server() -> Iterator[int]:
    """A server that speaks first, and of something else."""

    def greet() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            held.append(connection)

    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        greeting = threading.Thread(target=greet)
        greeting.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            greeting.join()
            for connection in held:
                connection.close()


def check_told(lines: list[str], *said: str) -> None:
    for line in lines:
        assert [words for words in said if words not in line] == [], line


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper", "consul"])
def test_a_host_that_does_not_exist_is_named(told: Tell, scheme: str) -> None:
    check_told(
        told(f"{scheme}://ada:{WRITTEN}@no-such-host.invalid"), "no-such-host.invalid", "no such host: check its name"
    )


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper", "consul"])
def test_a_port_on_which_nobody_listens_is_named(told: Tell, scheme: str) -> None:
    with closed_port() as port:
        check_told(
            told(f"{scheme}://ada:{WRITTEN}@127.0.0.1:{port}"), f"127.0.0.1:{port}", "listens", "is the server running"
        )


@pytest.mark.parametrize("scheme", ["etcd", "etcds", "zookeeper", "zookeepers", "consul"])
def test_a_server_that_says_nothing_is_not_waited_for(told: Tell, scheme: str) -> None:
    with silent_server() as port:
        check_told(told(f"{scheme}://127.0.0.1:{port}"), f"127.0.0.1:{port}", "no answer")


def test_a_server_of_the_old_etcd_or_of_the_web_is_told_from_an_etcd(told: Tell) -> None:
    with web_server() as port:
        check_told(told(f"etcd://127.0.0.1:{port}"), f"127.0.0.1:{port}", "no gRPC", "is it an etcd")


def test_a_server_of_the_web_is_told_from_a_zookeeper(told: Tell) -> None:
    with web_server() as port:
        check_told(told(f"zookeeper://127.0.0.1:{port}"), f"127.0.0.1:{port}", "no ZooKeeper", "check host and port")


@pytest.mark.parametrize(
    ("scheme", "said"), [("etcd", "no gRPC"), ("zookeeper", "not ZooKeeper's"), ("consul", "HTTP")]
)
def test_a_server_that_speaks_of_something_else_is_told_from_an_engine(told: Tell, scheme: str, said: str) -> None:
    with talking_server() as port:
        check_told(told(f"{scheme}://127.0.0.1:{port}"), f"127.0.0.1:{port}", said)


def test_tls_on_one_side_only_is_told_with_the_scheme_that_is_right(told: Tell, tmp_path: Path) -> None:
    with EtcdCluster(1, options=QUICK) as plain, EtcdCluster(1, tls=Tls(tmp_path), options=QUICK) as encrypted:
        check_told(told(f"etcds://ada:{WRITTEN}@{plain.endpoints[0]}"), "use etcd://")
        check_told(told(f"etcd://ada:{WRITTEN}@{encrypted.endpoints[0]}"), "use etcds://")


def test_tls_on_one_side_only_of_a_zookeeper_is_told(told: Tell, tmp_path: Path) -> None:
    with ZooKeeperEnsemble(1) as plain, ZooKeeperEnsemble(1, tls=Tls(tmp_path)) as encrypted:
        check_told(told(f"zookeepers://{plain.endpoints[0]}"), "does not speak TLS", "use zookeeper://")
        check_told(told(f"zookeeper://{encrypted.endpoints[0]}"), "TLS", "zookeepers://")


@pytest.mark.parametrize("kind", [EtcdCluster, ZooKeeperEnsemble], ids=lambda kind: kind.engine)
def test_a_certificate_of_another_authority_is_not_trusted(
    told: Tell, kind: type[EtcdCluster] | type[ZooKeeperEnsemble], tmp_path: Path
) -> None:
    tls = Tls(tmp_path)
    with kind(1, tls=tls) as cluster:
        check_told(told(f"{cluster.url}?ca={tls.wrong_ca}"), cluster.endpoints[0], "certificate is not", "trust", "ca")
        check_told(told(cluster.url), "certificate is not", "trust", "ca")


def test_an_etcd_that_wants_a_certificate_of_the_client_asks_for_it(told: Tell, tmp_path: Path) -> None:
    tls = Tls(tmp_path, clients_need_certificates=True)
    with EtcdCluster(1, tls=tls, options=QUICK) as cluster:
        check_told(told(f"{cluster.url}?ca={tls.ca}"), "client certificate", "give cert and key")


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdCluster]:
    """An etcd with a user, who may use the names that begin with ``books/``."""
    with EtcdCluster(1, options=QUICK) as cluster:
        for command in (
            f"user add root:{PASSWORD}",
            "user grant-role root root",
            f"user add ada:{PASSWORD}",
            "role add books",
            "user grant-role ada books",
            "role grant-permission books --prefix=true readwrite books/",
            "auth enable",
        ):
            cluster.ctl(*command.split())
        yield cluster


def test_a_wrong_password_of_etcd_is_said_so(told: Tell, guarded: EtcdCluster) -> None:
    check_told(told(f"etcd://ada:{WRONG}@{guarded.endpoints[0]}"), "was refused", "user name or password is wrong")


def test_a_password_in_a_file_is_not_shown_either(told: Tell, guarded: EtcdCluster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter3", encoding="utf-8")
    url = f"etcd://ada@{guarded.endpoints[0]}?password_file={tmp_path}/password"
    check_told(told(url), "was refused", "user name or password is wrong")


def test_an_etcd_that_wants_a_password_asks_for_it(told: Tell, guarded: EtcdCluster) -> None:
    asking = COMMANDS[:2]  # What a doctor says of rights is a finding: tests/e2e/test_cli_doctor.py.
    check_told(told(f"etcd://{guarded.endpoints[0]}", asking), "was refused", "a user and a password into the URL")


def test_rights_that_are_missing_in_etcd_are_named(told: Tell, guarded: EtcdCluster) -> None:
    check_told(told(f"etcd://ada:{WRITTEN}@{guarded.endpoints[0]}", COMMANDS[:2]), "permission denied", "readwrite")


def test_the_right_password_is_let_in(guarded: EtcdCluster, tmp_path: Path) -> None:
    runs = _run_all(tmp_path, COMMANDS, f"etcd://ada:{WRITTEN}@{guarded.endpoints[0]}/books")
    assert [run.returncode for run in runs] == [0, 0, 0]


@pytest.fixture(scope="module")
def locked() -> Iterator[ZooKeeperEnsemble]:
    """A ZooKeeper in which the chroot ``/locked`` is somebody's own."""
    from kazoo.client import KazooClient
    from kazoo.security import make_digest_acl

    with ZooKeeperEnsemble(1) as ensemble:
        client = KazooClient(ensemble.endpoints[0])
        client.start(WITHIN_S)
        client.create("/locked", acl=[make_digest_acl("ada", PASSWORD, all=True)])
        client.stop()
        client.close()
        yield ensemble


@pytest.mark.parametrize("user", ["", f"ada:{WRONG}@"], ids=["nobody", "wrong-password"])
def test_an_acl_that_refuses_us_is_named(told: Tell, locked: ZooKeeperEnsemble, user: str) -> None:
    url = f"zookeeper://{user}{locked.endpoints[0]}/locked"
    check_told(told(url, COMMANDS[:2]), "was refused", "the ACL of a node refuses us", "check user and password")


@pytest.mark.parametrize("user", ["", f"ada:{WRONG}@"], ids=["nobody", "wrong-password"])
def test_an_acl_that_refuses_us_is_a_finding(locked: ZooKeeperEnsemble, user: str, tmp_path: Path) -> None:
    run = _run(tmp_path, ("doctor",), f"zookeeper://{user}{locked.endpoints[0]}/locked")
    assert (run.returncode, run.stderr) == (1, "")
    (office,) = (line for line in run.stdout.splitlines() if line.startswith("bad      office "))
    assert "the ACL of a node refuses us" in office


def test_whom_the_acl_names_is_let_in(locked: ZooKeeperEnsemble, tmp_path: Path) -> None:
    url = f"zookeeper://ada:{WRITTEN}@{locked.endpoints[0]}/locked"
    assert [run.returncode for run in _run_all(tmp_path, COMMANDS, url)] == [0, 0, 0]


def test_a_server_of_the_web_is_told_from_a_consul(told: Tell) -> None:
    with web_server() as port:
        check_told(told(f"consul://127.0.0.1:{port}"), f"127.0.0.1:{port}", "is that a Consul")


def test_tls_on_one_side_only_of_a_consul_is_told_with_the_scheme_that_is_right(told: Tell, tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    with ConsulCluster(1, session_ttl_min_s=1) as plain, ConsulCluster(1, tls=tls) as encrypted:
        check_told(told(f"consuls://{WRITTEN}@{plain.endpoints[0]}"), "does not speak TLS")
        check_told(told(f"consul://{WRITTEN}@{encrypted.endpoints[0]}"), "use consuls://")
        check_told(told(encrypted.url), "certificate is not", "trust", "ca")


@pytest.fixture(scope="module")
def policed() -> Iterator[ConsulCluster]:
    """A Consul that asks for tokens."""
    with ConsulCluster(1, acl=True, session_ttl_min_s=1) as cluster:
        yield cluster


def test_a_consul_that_wants_a_token_asks_for_it(told: Tell, policed: ConsulCluster) -> None:
    check_told(told(policed.url, COMMANDS[:2]), "was refused", "CONSUL_HTTP_TOKEN", "token_file=")


def test_a_token_that_consul_does_not_know_is_not_shown(told: Tell, policed: ConsulCluster) -> None:
    check_told(told(f"consul://{WRONG}@{policed.endpoints[0]}", COMMANDS[:2]), "was refused", "does not know our token")


def test_a_right_that_is_missing_in_consul_is_named(told: Tell, policed: ConsulCluster) -> None:
    token = policed.token('key_prefix "" { policy = "read" }')
    check_told(
        told(f"consul://{token}@{policed.endpoints[0]}", COMMANDS[1:2]), "was refused", "lacks permission", "policy"
    )


def test_a_ttl_below_what_consul_gives_is_told_with_its_limit(tmp_path: Path) -> None:
    with ConsulCluster(1) as cluster:
        run = _run(tmp_path, ("run", "x", "--no-wait", "--ttl", "5s"), cluster.url)
        assert (run.returncode, run.stdout) == (2, "")
        assert "ttl = 5 s: must lie between 10 and 86400 s" in run.stderr
        assert len(run.stderr.splitlines()) == 1


def test_a_namespace_and_a_datacentre_of_consul_that_do_not_exist_are_told(told: Tell) -> None:
    with ConsulCluster(1, session_ttl_min_s=1) as cluster:
        check_told(told(f"{cluster.url}?ns=nowhere", COMMANDS[:2]), "was refused", "leave ns= and partition= out")
        check_told(told(f"{cluster.url}?dc=nowhere", COMMANDS[:2]), "no such datacentre", "check dc=")


def test_a_consul_without_a_leader_is_told_with_what_is_missing(told: Tell) -> None:
    with ConsulCluster(3) as cluster:
        for node in cluster.nodes[:2]:
            node.kill()
        check_told(told(f"consul://{cluster.endpoints[2]}", COMMANDS[:1]), "no leader", "more than half of the servers")
