"""What others see of ``tenure run``: a file, an answer over HTTP, words to systemd. All with real processes."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import check_eventually, freeze

from tenure.testing.engines.ports import claim_ports

TENURE = Path(sys.executable).parent / "tenure"
# The successor's command writes down at once whether the file of who led before is still there.
SUCCESSOR = "test -e ready && echo there > seen || echo gone > seen; exec sleep 1000"


class Stage:
    """A folder with a store in it, and what was started there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[str]]()
        self.ready, self.store = folder / "ready", folder / "store.db"

    def start(self, *options: str, command: str = "exec sleep 1000", **variables: str) -> "subprocess.Popen[str]":
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **variables}
        words = [
            str(TENURE),
            "run",
            "x",
            "--store",
            f"sqlite://{self.store}",
            *options,
            "--",
            "sh",
            "-c",
            command,
        ]
        pipe = subprocess.PIPE
        self.started.append(
            subprocess.Popen(words, text=True, cwd=self.folder, env=environment, stdout=pipe, stderr=pipe)
        )
        return self.started[-1]

    def refused(self, *options: str, **variables: str) -> str:
        """What a start says that must end with one line and exit code 2, before there is a store."""
        _, said = (process := self.start(*options, **variables)).communicate(timeout=30)
        assert (process.returncode, said.count("\n")) == (2, 1), said
        assert not self.store.exists()
        return said

    @property
    def seen(self) -> str:
        """What the successor's command saw."""
        file = self.folder / "seen"
        check_eventually(lambda: file.exists() and file.read_text())
        return file.read_text().strip()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    for process in stage.started:
        process.kill()  # and the guardian kills the rest
        process.communicate()


@pytest.fixture
def port() -> Iterator[int]:
    [claim] = claim_ports(1, "127.0.0.1")
    yield claim.port
    claim.release()


def asked(port: int, path: str = "/") -> int:
    """The code of the answer; 0: nobody listens yet."""
    try:
        return int(urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20).status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return 0


@pytest.mark.parametrize("fault", ["killed", "frozen", "resigned"])
def test_the_file_is_gone_before_anybody_else_leads_whatever_becomes_of_the_leader(stage: Stage, fault: str) -> None:
    leader = stage.start("--ttl", "2", "--ready-file", "ready", command="trap '' TERM; while :; do sleep 0.1; done")
    check_eventually(stage.ready.exists)
    standby = stage.start("--ttl", "2", "--ready-file", "other", command=SUCCESSOR)
    assert standby.stderr is not None
    assert "standing by" in standby.stderr.readline()
    assert not (stage.folder / "other").exists()
    match fault:
        case "killed":
            leader.kill()
        case "frozen":
            freeze(leader.pid, stage.store)
        case _:
            subprocess.run([TENURE, "resign", "x", "--store", f"sqlite://{stage.store}"], check=True)
    assert stage.seen == "gone"
    check_eventually((stage.folder / "other").exists)
    assert not stage.ready.exists()


def test_a_supervisor_that_was_frozen_beyond_its_lease_never_says_ready_again_for_it(stage: Stage, port: int) -> None:
    leader = stage.start("--ttl", "4", "--ready-file", "ready", "--ready-http", f":{port}")
    check_eventually(stage.ready.exists)
    freeze(leader.pid, stage.store)
    with socket.create_connection(("127.0.0.1", port)) as asking:  # the kernel accepts it; nobody reads
        asking.sendall(b"GET /ready HTTP/1.1\r\n\r\n")
        stage.start("--ttl", "4", command=SUCCESSOR)
        assert stage.seen == "gone"
        leader.send_signal(signal.SIGCONT)
        assert asking.recv(100).startswith(b"HTTP/1.1 503 ")
    check_eventually(lambda: asked(port) == 503)
    assert not stage.ready.exists()


def test_the_file_is_there_only_while_the_command_runs_and_nothing_is_left_at_the_end(stage: Stage) -> None:
    leader = stage.start("--ready-file", "ready", "--restart", "on-failure", command="read x < go; exit $x")
    os.mkfifo(stage.folder / "go")
    for code in "10":
        check_eventually(stage.ready.exists)
        (stage.folder / "go").write_text(f"{code}\n")
        check_eventually(lambda: not stage.ready.exists())  # It waits a second before it starts it again.
    assert leader.wait(30) == 0
    assert {path.name for path in stage.folder.iterdir()} == {"go", "store.db"}


def test_a_file_that_a_dead_supervisor_and_its_dead_guardian_left_is_no_sign(stage: Stage) -> None:
    stage.ready.touch()
    other = stage.start("--ready-file", "ready", "--healthy", "false")
    assert other.stderr is not None
    assert "not standing" in other.stderr.readline()
    assert not stage.ready.exists()


def test_over_http_the_leader_is_ready_a_standby_lives_and_nobody_else_is_answered(stage: Stage, port: int) -> None:
    stage.start("--ready-http", f"127.0.0.1:{port}")
    check_eventually(lambda: asked(port) == 200)
    assert (asked(port, "/ready"), asked(port, "/live"), asked(port, "/other")) == (200, 200, 404)
    [claim] = claim_ports(1, "127.0.0.1")
    standby = stage.start("--ready-http", f":{claim.port}")
    check_eventually(lambda: asked(claim.port) == 503)
    assert (asked(claim.port, "/ready?full=1"), asked(claim.port, "/live")) == (503, 200)
    for rubbish, answer in [
        (b"\0" * 10_000, b""),
        (b"\xff\r\n\r\n", b"HTTP/1.1 405"),
        (b"POST / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
    ]:
        with socket.create_connection(("127.0.0.1", claim.port)) as asking:
            asking.sendall(rubbish)
            asking.shutdown(socket.SHUT_WR)
            assert asking.recv(12) == answer
    standby.terminate()
    assert "Traceback" not in standby.communicate(timeout=30)[1]
    assert asked(claim.port) == 0
    claim.release()


class Systemd:
    """systemd's end of the protocol: a real datagram socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(30)

    def hears(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def hears_eventually(self, **wanted: str) -> dict[str, str]:
        while not wanted.items() <= (said := self.hears()).items():
            pass
        return said

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_hears_that_a_leader_and_a_standby_are_ready_how_it_goes_and_that_they_live(
    stage: Stage, kind: str
) -> None:
    name = f"{stage.folder}/notify"
    variables = {"NOTIFY_SOCKET": name if kind == "path" else f"@{name}", "WATCHDOG_USEC": "200000"}
    systemd = Systemd(name if kind == "path" else f"\0{name}")
    given = stage.folder / "given"
    leader = stage.start("--notify", command=f"env > {given}.new; mv {given}.new {given}; exec sleep 1000", **variables)
    assert systemd.hears() == {"READY": "1", "MAINPID": str(leader.pid), "STATUS": "standing for x"}
    for _ in range(3):
        assert systemd.hears_eventually(WATCHDOG="1", STATUS="elected in x with token 1")
    check_eventually(given.exists)
    leader.terminate()
    assert systemd.hears_eventually(STOPPING="1")["READY"] == "1"
    leader.communicate(timeout=30)
    told = given.read_text()
    assert "TENURE_TOKEN=1" in told
    assert not any(word in told for word in ("NOTIFY_SOCKET", "WATCHDOG"))  # The command would speak in our name.
    other = stage.start()
    assert other.stderr is not None
    assert "elected" in other.stderr.readline()
    standby = stage.start("--notify", **variables)
    assert systemd.hears_eventually(READY="1", MAINPID=str(standby.pid))
    while "standing by for x" not in systemd.hears()["STATUS"]:
        pass
    systemd.close()


def test_without_systemd_nothing_is_told_and_nothing_amiss(stage: Stage) -> None:
    process = stage.start("--notify", command="true")
    assert process.communicate(timeout=30) == ("", "tenure: elected in x with token 1\n")


def test_what_cannot_be_shown_is_refused_in_one_line_before_anybody_stands(stage: Stage, port: int) -> None:
    (stage.folder / "full").write_text("my settings")
    (stage.folder / "folder").mkdir()
    assert "No such file or directory" in stage.refused("--ready-file", "nowhere/ready")
    assert "Not a directory" in stage.refused("--ready-file", "full/ready")
    assert "is no empty file" in stage.refused("--ready-file", "full")
    assert (stage.folder / "full").read_text() == "my settings"
    assert "is no empty file" in stage.refused("--ready-file", "folder")
    assert "path of a file" in stage.refused("--ready-file", "")
    with socket.create_server(("127.0.0.1", port)):
        assert "in use" in stage.refused("--ready-http", f":{port}")
    for rubbish in ("", "80x", ":0", ":65536", "::1:80", "host:"):
        assert "HOST:PORT" in stage.refused("--ready-http", rubbish)
    assert "cannot be listened on" in stage.refused("--ready-http", "no.such.host.invalid:8086")
    assert "must begin with /" in stage.refused("--notify", NOTIFY_SOCKET="vsock:2:1")
    assert "microseconds" in stage.refused("--notify", NOTIFY_SOCKET="/x", WATCHDOG_USEC="soon")
    assert [path.name for path in stage.folder.iterdir() if "ready" in path.name] == []


def test_two_supervisors_do_not_share_a_file(stage: Stage) -> None:
    stage.start("--ready-file", "ready")
    check_eventually(stage.ready.exists)
    second = stage.start("--ready-file", "ready")
    assert "is another supervisor's" in second.communicate(timeout=30)[1]
    assert second.returncode == 2
    assert stage.ready.exists()


def test_a_systemd_that_is_not_there_is_told_in_one_line(stage: Stage) -> None:
    process = stage.start("--notify", NOTIFY_SOCKET="@nobody-listens-here")
    assert "NOTIFY_SOCKET = @nobody-listens-here: cannot be reached" in process.communicate(timeout=30)[1]
    assert process.returncode == 2
