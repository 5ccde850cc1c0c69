"""``tenure run`` on a terminal, and as process 1."""

import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

TENURE = str(Path(sys.executable).parent / "tenure")
# Makes standard input the controlling terminal of a new session, as a terminal emulator does.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A pseudo-terminal with ``tenure run`` on it."""

    def __init__(self, folder: Path) -> None:
        self._master, self._slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._folder, self._shown = folder, b""
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> None:
        tenure = [TENURE, "run", "x", "-q", "--store", f"sqlite://{self._folder}/store.db", *words]
        files = {"stdin": self._slave, "stdout": self._slave, "stderr": self._slave}
        self._process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-c", ON_TERMINAL, *tenure], **files, start_new_session=True, cwd=self._folder
        )

    def run_in_shell(self, line: str) -> None:
        """Run a line with ``{tenure}`` in it, as one job of a shell."""
        tenure = f"{TENURE} run x -q --store sqlite://{self._folder}/store.db"
        files = {"stdin": self._slave, "stdout": self._slave, "stderr": self._slave}
        self._process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-c", ON_TERMINAL, "/bin/sh", "-c", line.format(tenure=tenure)],
            **files,
            start_new_session=True,
            cwd=self._folder,
        )

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def shows(self, text: str) -> None:
        """Wait until the text has been shown."""

        def shown() -> bool:
            with suppress(BlockingIOError):
                self._shown += os.read(self._master, 10_000)
            return text.encode() in self._shown

        check_eventually(shown, lambda: self._shown)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._slave)[3] & termios.ECHO)

    def await_supervisor_in_front(self) -> None:
        check_eventually(lambda: self._process is not None and os.tcgetpgrp(self._master) == self._process.pid)

    def exit_code(self) -> int:
        assert self._process is not None
        return self._process.wait(30)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)
        os.close(self._slave)


def check_eventually(condition: Callable[[], object], seen: Callable[[], object] = lambda: "") -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, seen()
        time.sleep(0.01)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_the_command_is_in_the_foreground_and_reads_what_is_typed(terminal: Terminal) -> None:
    # Whether it runs or sleeps at that instant, and how nice it is, are other matters, and also said there.
    where = "case $(ps -o stat= -p $$) in *+*) echo in the foreground;; esac"
    terminal.run("--", "sh", "-c", f"read line; echo got $line; {where}; exit 4")
    terminal.type("hello\n")
    terminal.shows("got hello")
    terminal.shows("in the foreground")
    assert terminal.exit_code() == 4


# Not a shell: one that gets a Ctrl-C while it starts a process may miss it (dash does, in one case of five).
WAITS = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.write(1, b'up'); signal.pause()"


@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_ctrl_c_ends_the_command_and_its_supervisor(terminal: Terminal, restart: str) -> None:
    terminal.run("--restart", restart, "--", sys.executable, "-I", "-S", "-c", WAITS)
    terminal.shows("up")
    terminal.type("\x03")
    assert terminal.exit_code() == 130


def test_ctrl_c_between_two_commands_ends_the_supervisor(terminal: Terminal) -> None:
    terminal.run("--restart", "on-failure", "--", "sh", "-c", "echo down; kill -9 $$")
    terminal.shows("down")
    terminal.await_supervisor_in_front()
    terminal.type("\x03")
    assert terminal.exit_code() == 130


def test_ctrl_z_does_not_suspend_a_leader(terminal: Terminal) -> None:
    terminal.run("--", "sh", "-c", "echo up; read line; echo got $line")
    terminal.shows("up")
    terminal.type("\x1a")
    terminal.shows("^Z")
    terminal.type("on\n")
    terminal.shows("got on")
    assert terminal.exit_code() == 0


def test_a_terminal_left_without_echo_by_a_killed_command_is_mended(terminal: Terminal) -> None:
    terminal.run("--", "sh", "-c", "stty -echo; kill -9 $$")
    assert terminal.exit_code() == 137
    assert terminal.echoes()


ORPHAN = """
import os, time
assert os.getppid() == 1
told, tell = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(tell, str(os.getpid()).encode())
    os._exit(0)
os.wait()
orphan = int(os.read(told, 20))
deadline_s = time.monotonic() + 20
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < deadline_s: time.sleep(0.01)
os._exit(3 if os.path.exists(f"/proc/{orphan}") else 9)
"""


def test_as_process_1_it_reaps_what_others_leave_behind(tmp_path: Path) -> None:
    alone = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        assert "CI" not in os.environ, "the build server must permit: unshare --pid --fork --mount-proc"
        pytest.skip("this kernel, or this user, may not unshare process numbers: process 1 is NOT TESTED")
    command = [sys.executable, "-I", "-S", "-c", ORPHAN]
    words = [TENURE, "run", "x", "--store", f"sqlite://{tmp_path}/store.db", "--", *command]
    run = subprocess.run([*alone, *words], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 9, run.stderr


def test_who_reads_the_output_in_a_pipeline_keeps_the_terminal(terminal: Terminal) -> None:
    terminal.run_in_shell("{tenure} -- sh -c 'echo said; sleep 0.5' | sh -c 'read key </dev/tty; cat; echo got $key'")
    terminal.type("space\n")
    terminal.shows("said")
    terminal.shows("got space")
    assert terminal.exit_code() == 0


def test_a_command_in_a_pipeline_gets_the_terminal_if_it_asks_for_it(terminal: Terminal) -> None:
    terminal.run_in_shell("{tenure} -- sh -c 'read key; echo got $key' | cat")
    terminal.type("word\n")
    terminal.shows("got word")
    assert terminal.exit_code() == 0
