"""The guardian as a process: what makes it kill, and what does not."""

import ast
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.apps.run import guardian

FAR_NS = 3600 * 10**9


class Guarded:
    """A guardian, the supervisor's end of its line, and a process that leads a group."""

    def __init__(self, *words: str) -> None:
        self.line, theirs = socket.socketpair()
        self.line.settimeout(30)
        with theirs:
            command = [sys.executable, "-I", "-S", guardian.__file__, *words]
            self.guardian = subprocess.Popen(command, stdin=theirs.fileno())
        self.leader = subprocess.Popen(["/bin/sleep", "1000"], process_group=0)

    def tell(self, *groups: int, in_ns: int = FAR_NS, show: int = 0) -> None:
        deadline_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + in_ns
        self.line.sendall(f"{show} {' '.join(f'{group} {deadline_ns}' for group in groups)}\n".encode())

    def end(self) -> None:
        self.line.close()
        self.guardian.wait(30)
        self.leader.kill()
        self.leader.wait()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    guarded = Guarded()
    yield guarded
    guarded.end()


def test_the_group_is_killed_when_its_time_is_up(guarded: Guarded) -> None:
    guarded.tell(guarded.leader.pid, in_ns=50_000_000)
    assert guarded.leader.wait(30) == -9
    assert guarded.guardian.poll() is None


def test_a_later_deadline_replaces_the_one_before(guarded: Guarded) -> None:
    guarded.tell(guarded.leader.pid)
    assert guarded.line.recv(1)
    guarded.tell(guarded.leader.pid, in_ns=2 * FAR_NS)
    assert guarded.line.recv(1)
    assert guarded.leader.poll() is None


@pytest.mark.parametrize("answer_is_read", [True, False])
def test_the_group_is_killed_when_the_supervisor_has_gone(guarded: Guarded, answer_is_read: bool) -> None:
    guarded.tell(guarded.leader.pid)
    select.select([guarded.line], [], [])
    if answer_is_read:
        guarded.line.recv(1)
    guarded.line.close()
    assert guarded.leader.wait(30) == -9
    assert guarded.guardian.wait(30) == 0


def test_a_group_that_was_withdrawn_is_left_alone(guarded: Guarded) -> None:
    guarded.tell(guarded.leader.pid)
    assert guarded.line.recv(1)
    guarded.tell()
    assert guarded.line.recv(1)
    guarded.line.close()
    assert guarded.guardian.wait(30) == 0
    assert guarded.leader.poll() is None


def test_of_many_groups_one_is_withdrawn_and_the_others_are_killed_with_the_supervisor(guarded: Guarded) -> None:
    others = [subprocess.Popen(["/bin/sleep", "1000"], process_group=0) for _ in range(3)]
    guarded.tell(guarded.leader.pid, *(other.pid for other in others))
    assert guarded.line.recv(1)
    guarded.tell(*(other.pid for other in others))
    assert guarded.line.recv(1)
    guarded.line.close()
    assert [other.wait(30) for other in others] == [-9, -9, -9]
    assert guarded.leader.poll() is None


def test_what_has_come_of_a_line_is_not_acted_on_before_it_is_whole(guarded: Guarded) -> None:
    """Thousands of groups are more than a socket takes at once. The time is up for the first part of this number, as it were."""
    deadline_ns = str(time.clock_gettime_ns(time.CLOCK_BOOTTIME) + FAR_NS)
    guarded.line.sendall(f"0 {guarded.leader.pid} {deadline_ns[:5]}".encode())
    assert not select.select([guarded.line], [], [], 0.1)[0]
    guarded.line.sendall(f"{deadline_ns[5:]}\n".encode())
    assert guarded.line.recv(1)
    assert guarded.leader.poll() is None


def test_a_group_that_has_gone_is_no_error(guarded: Guarded) -> None:
    guarded.leader.kill()
    guarded.leader.wait()
    guarded.tell(guarded.leader.pid, in_ns=0)
    assert guarded.line.recv(1)
    guarded.line.close()
    assert guarded.guardian.wait(30) == 0


def test_it_imports_nothing_that_is_dear() -> None:
    source = Path(guardian.__file__).read_text()
    imported = {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"os", "select", "sys", "time"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(source)))


def test_the_starter_never_becomes_the_command_if_its_gate_ends() -> None:
    from tenure.apps.run import starter

    gate, theirs = socket.socketpair()
    with theirs:
        os.set_inheritable(theirs.fileno(), True)
        words = [sys.executable, "-I", "-S", starter.__file__, str(theirs.fileno()), "echo", "never"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()])
    gate.close()
    assert process.communicate(timeout=30)[0] == b""


@pytest.fixture
def showing(tmp_path: Path) -> Iterator[Guarded]:
    (tmp_path / "hidden").touch()
    guarded = Guarded(str(tmp_path / "hidden"), str(tmp_path / "shown"))
    yield guarded
    guarded.end()


def test_the_ready_file_is_shown_while_it_is_wanted_and_gone_before_the_group_is_killed(
    showing: Guarded, tmp_path: Path
) -> None:
    for show in (0, 1, 1, 0, 1):
        showing.tell(showing.leader.pid, show=show)
        assert showing.line.recv(1)
        assert (tmp_path / "shown").exists() is bool(show)
    showing.tell(showing.leader.pid, in_ns=50_000_000, show=1)
    assert showing.leader.wait(30) == -9
    assert not (tmp_path / "shown").exists()


def test_a_ready_file_is_not_shown_once_the_time_is_up(showing: Guarded, tmp_path: Path) -> None:
    showing.tell(showing.leader.pid, in_ns=-1, show=1)  # a supervisor that was frozen after it had decided to show it
    assert showing.line.recv(1)
    assert not (tmp_path / "shown").exists()


def test_the_ready_file_goes_with_the_supervisor(showing: Guarded, tmp_path: Path) -> None:
    showing.tell(showing.leader.pid, show=1)
    assert showing.line.recv(1)
    showing.line.close()
    assert showing.guardian.wait(30) == 0
    assert not (tmp_path / "shown").exists()
