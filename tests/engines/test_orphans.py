"""No engine outlives the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tenure.testing import engines as engines_of
from tenure.testing.engines import EtcdCluster, PostgresCluster
from tenure.testing.engines.network import Network
from tenure.testing.engines.processes import Process, wait_for
from tests.engines.namespaces import inodes

_PATIENCE_S = 60
# A harness as a test would use it. It says which processes there are, and then waits to be killed.
_HARNESS = """
import os, sys, time
from tenure.testing.engines import (
    ConsulCluster, EtcdCluster, KubernetesCluster, MariaDbCluster, PostgresCluster, VersityGateway, ZooKeeperEnsemble
)
with {cluster} as cluster:
    heir = {heir}
    if heir == 0:
        time.sleep(600)
    below = [cluster.etcd] if isinstance(cluster, KubernetesCluster) else []
    print(heir, *(node.pid for each in [cluster, *below] for node in each.nodes), flush=True)
    sys.stdin.read()
"""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def harness(cluster: str, tmp_path: Path, heir: str = "-1") -> Iterator[tuple[subprocess.Popen[str], int, list[int]]]:
    program = _HARNESS.format(cluster=cluster, heir=heir)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        heir_pid, *engines = map(int, process.stdout.readline().split())
        try:
            yield process, heir_pid, engines
        finally:
            process.kill()
            if heir_pid > 0:
                os.kill(heir_pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "cluster",
    [
        "EtcdCluster(3)",
        "ZooKeeperEnsemble(1)",
        "ConsulCluster(1)",
        "KubernetesCluster()",
        "PostgresCluster(2)",
        "MariaDbCluster()",
        "VersityGateway()",
    ],
)
def test_engines_die_with_a_harness_that_is_killed(cluster: str, tmp_path: Path) -> None:
    _ = getattr(
        engines_of, cluster.partition("(")[0]
    )().binary  # Where it is missing, this says so and not the harness.
    with harness(cluster, tmp_path) as (process, _, engines):
        assert engines
        assert not any(is_gone(pid) for pid in engines)
        process.kill()
        assert wait_for(lambda: all(is_gone(pid) for pid in engines), _PATIENCE_S)


def test_engines_die_with_their_harness_though_a_child_of_it_lives_on(tmp_path: Path) -> None:
    with harness("EtcdCluster(1)", tmp_path, heir="os.fork()") as (process, heir, engines):
        process.kill()
        assert wait_for(lambda: all(is_gone(pid) for pid in engines), _PATIENCE_S)
        assert not is_gone(heir)


def test_what_a_paused_engine_has_started_is_killed_with_it() -> None:
    with PostgresCluster() as cluster:
        [node] = cluster.nodes
        node.pause()  # Who is stopped does not notice that its parent is gone.
        servers = [pid for path in Path("/proc").glob("[0-9]*") if _parent(pid := int(path.name)) == node.pid]
        assert len(servers) >= 3
        node.kill()
        assert all(is_gone(pid) for pid in servers)


def test_an_engine_that_has_just_died_by_itself_can_be_killed_while_what_it_left_is_being_ended(tmp_path: Path) -> None:
    many = "for _ in $(seq 200); do sleep 600 & done"  # so that it takes a while
    engine = Process(["sh", "-c", many], tmp_path / "log")
    assert wait_for(lambda: not Path(f"/proc/{engine.pid}").exists(), _PATIENCE_S)
    assert not engine.ended
    engine.kill()
    assert engine.ended


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_an_engine_dies_with_its_keeper() -> None:
    with EtcdCluster(1) as cluster:
        [node] = cluster.nodes
        keeper = int(Path(f"/proc/{node.pid}/stat").read_text().rpartition(") ")[2].split()[1])
        assert keeper != os.getpid()
        pid = node.pid
        os.kill(keeper, signal.SIGKILL)
        assert wait_for(lambda: is_gone(pid), _PATIENCE_S)
        assert not node.running


def test_an_engine_outlives_the_thread_that_started_it() -> None:
    with ExitStack() as stack:
        starter = threading.Thread(target=stack.enter_context, args=(cluster := EtcdCluster(1),))
        starter.start()
        starter.join()
        assert cluster.serves(cluster.nodes[0])


def test_networks_of_a_harness_that_was_killed_are_removed_by_the_next_once_nobody_holds_them(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with harness("EtcdCluster(1, isolated=True)", tmp_path, heir="os.fork()") as (process, heir, [engine]):
            namespace = stack.enter_context(Path(f"/proc/{engine}/ns/net").open("rb"))
            inode = os.fstat(namespace.fileno()).st_ino
            assert list(inodes()).count(inode) == 1
            process.kill()
            assert wait_for(lambda: is_gone(engine), _PATIENCE_S)
            Network(1).close()
            # Its child has the number of the network, as it has whatever was open. So nobody may remove it yet, neither we nor a test
            # that runs beside this one; and that its engine has died does not do it either.
            assert list(inodes()).count(inode) == 1
        assert wait_for(lambda: is_gone(heir), _PATIENCE_S)
        Network(1).close()
        # Or another test, which has begun one at the same time, is still at it.
        assert wait_for(lambda: inode not in inodes(), _PATIENCE_S)
