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

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair()
        self.line.settimeout(30)
        with theirs:
            self.guardian = subprocess.Popen([sys.executable, "-I", "-S", guardian.__file__], stdin=theirs.fileno())
        self.leader = subprocess.Popen(["/bin/sleep", "1000"], process_group=0)

    def tell(self, group: int, in_ns: int) -> None:
        deadline_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + in_ns
        self.line.sendall(f"{group} {deadline_ns}\n".encode())

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
    guarded.tell(guarded.leader.pid, 50_000_000)
    assert guarded.leader.wait(30) == -9
    assert guarded.guardian.poll() is None


def test_a_later_deadline_replaces_the_one_before(guarded: Guarded) -> None:
    guarded.tell(guarded.leader.pid, FAR_NS)
    assert guarded.line.recv(1)
    guarded.tell(guarded.leader.pid, 2 * FAR_NS)
    assert guarded.line.recv(1)
    assert guarded.leader.poll() is None


@pytest.mark.parametrize("answer_is_read", [True, False])
def test_the_group_is_killed_when_the_supervisor_has_gone(guarded: Guarded, answer_is_read: bool) -> None:
    guarded.tell(guarded.leader.pid, FAR_NS)
    select.select([guarded.line], [], [])
    if answer_is_read:
        guarded.line.recv(1)
    guarded.line.close()
    assert guarded.leader.wait(30) == -9
    assert guarded.guardian.wait(30) == 0


def test_a_group_that_was_withdrawn_is_left_alone(guarded: Guarded) -> None:
    guarded.tell(guarded.leader.pid, FAR_NS)
    assert guarded.line.recv(1)
    guarded.tell(0, 0)
    assert guarded.line.recv(1)
    guarded.line.close()
    assert guarded.guardian.wait(30) == 0
    assert guarded.leader.poll() is None


def test_a_group_that_has_gone_is_no_error(guarded: Guarded) -> None:
    guarded.leader.kill()
    guarded.leader.wait()
    guarded.tell(guarded.leader.pid, 0)
    assert guarded.line.recv(1)
    guarded.line.close()
    assert guarded.guardian.wait(30) == 0


def test_it_imports_nothing_that_is_dear() -> None:
    source = Path(guardian.__file__).read_text()
    imported = {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"os", "select", "time"}
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
