"""What the harness promises whichever engine it runs: what is left of a block, and how failures are told."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.testing.engines import ConsulCluster, EngineFailed, EtcdCluster, VersityGateway, ZooKeeperEnsemble
from tenure.testing.engines.ports import Claim, claim_ports
from tenure.testing.engines.processes import wait_for


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_of_a_block_that_ended_well() -> None:
    before = files_open()
    with EtcdCluster(1) as cluster:
        [node] = cluster.nodes
        pid = node.pid
        assert node.log.stat().st_size > 0
        with pytest.raises(OSError, match="in use"):
            Claim(node.ports[0])
    assert not cluster.folder.exists()
    assert not Path(f"/proc/{pid}").exists()
    assert files_open() == before  # Neither a port nor a pipe is held any more.


def test_data_and_logs_of_a_block_that_failed_are_kept_and_it_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as caught, EtcdCluster(1) as cluster:
        _ = 1 / 0
    assert caught.value.__notes__ == [f"data and logs of {cluster.binary} are kept in {cluster.folder}"]
    assert cluster.nodes[0].log.stat().st_size > 0
    assert not cluster.nodes[0].running
    shutil.rmtree(cluster.folder)


def test_a_cluster_that_is_told_so_keeps_its_folder() -> None:
    with EtcdCluster(1) as cluster:
        cluster.keep()
    assert cluster.nodes[0].log.exists()
    shutil.rmtree(cluster.folder)


@pytest.mark.parametrize(
    ("cluster", "word"),
    [
        (EtcdCluster(1, options=["--no-such-flag"]), "no-such-flag"),
        (ZooKeeperEnsemble(1, options=["tickTime=x"]), '"x"'),
        (ConsulCluster(1, options=["-hcl=no_such_key = 1"]), "no_such_key"),
        (VersityGateway(options=["--no-such-flag"]), "no-such-flag"),
    ],
    ids=["etcd", "zookeeper", "consul", "versitygw"],
)
def test_an_engine_that_does_not_start_is_told_of_with_the_end_of_its_log(
    cluster: EtcdCluster | ZooKeeperEnsemble | ConsulCluster | VersityGateway, word: str
) -> None:
    with pytest.raises(EngineFailed, match=r"^n1 ended while it was starting; the end of its log:\n") as caught:
        cluster.__enter__()
    assert word in caught.value.tail
    assert caught.value.__notes__ == [f"data and logs of {cluster.binary} are kept in {cluster.folder}"]
    shutil.rmtree(cluster.folder)


def test_a_node_of_a_shared_network_cannot_be_cut_off() -> None:
    with EtcdCluster(1) as cluster, pytest.raises(ConfigError, match="only the nodes of a cluster with isolated=True"):
        cluster.nodes[0].partition()


def test_a_cluster_has_a_node() -> None:
    with pytest.raises(ConfigError, match="size = 0: a cluster has at least one node"):
        EtcdCluster(0)


def test_processes_that_look_for_ports_at_the_same_time_get_different_ones() -> None:
    program = (
        "import sys; from tenure.testing.engines.ports import claim_ports\n"
        "claims = claim_ports(400, '127.0.0.1')\n"
        "print(*(claim.port for claim in claims), flush=True); sys.stdin.read()"
    )
    with ExitStack() as stack:
        seekers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(4)
        ]
        ports = [int(port) for seeker in seekers if seeker.stdout for port in seeker.stdout.readline().split()]
    assert len(ports) == len(set(ports)) == 1600
    assert max(ports) < 32768


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_somebody_uses_is_not_given(host: str, kind: socket.SocketKind) -> None:
    def choose() -> Claim:
        random.seed(7)  # The same lots, so the same choice.
        [claim] = claim_ports(1, host)
        return claim

    first = choose()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as user:
        user.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind is socket.SOCK_STREAM))
        user.bind((host, first.port))
        if kind is socket.SOCK_STREAM:
            user.listen()
        first.release()  # Only now: others look for ports at the same time.
        second = choose()
    second.release()
    assert second.port != first.port


def test_a_node_that_ended_by_itself_is_started_again_like_any_other() -> None:
    with EtcdCluster(1) as cluster:
        [node] = cluster.nodes
        before = files_open()
        os.kill(node.pid, signal.SIGKILL)
        assert wait_for(lambda: not node.running, 30)
        node.start()
        assert cluster.serves(node)
        assert files_open() == before
