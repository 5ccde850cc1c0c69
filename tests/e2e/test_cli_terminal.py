"""``tenure status`` and ``watch`` on a terminal, beside a real leader in another process."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.user import at_home

DEADLINE_S = 60.0
TENURE = [sys.executable, "-m", "tenure"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return at_home(tmp_path, TERM="xterm-256color")


@contextmanager
def leader(environment: dict[str, str], name: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that leads until its standard input ends."""
    with subprocess.Popen(
        [*TENURE, "lock", name, "-q", "--", "sh", "-c", "echo in office; cat"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "in office\n"
        yield process
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


class Screen:
    """A terminal of a given width with a command in it."""

    def __init__(self, environment: dict[str, str], width: int, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.process = subprocess.Popen([*TENURE, *arguments], env=environment, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.seen = ""

    def read(self, until: str | None = None) -> str:
        """Read until ``until`` is on the screen, or to the end."""
        while until is None or until not in ESCAPE.sub("", self.seen):
            try:
                chunk = os.read(self.master, 65536)
            except OSError:  # What Linux says when the other side has closed.
                chunk = b""
            if not chunk:
                assert until is None, self.seen
                break
            self.seen += chunk.decode()
        return ESCAPE.sub("", self.seen)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self.master)


@contextmanager
def screen(environment: dict[str, str], width: int, *arguments: str) -> Iterator[Screen]:
    shown = Screen(environment, width, *arguments)
    try:
        yield shown
    finally:
        shown.close()


@pytest.mark.parametrize("width", [80, 120])
def test_status_on_a_terminal_is_a_table_that_fits(environment: dict[str, str], width: int) -> None:
    with leader(environment, "billing/close") as leading, screen(environment, width, "status") as shown:
        picture = shown.read()
        assert shown.process.wait(DEADLINE_S) == 0
    assert max(map(len, picture.splitlines())) <= width
    assert "remaining" in picture
    assert re.search(rf"^billing/close +\S+/{leading.pid} +1 ", picture, re.MULTILINE)


def test_watch_on_a_terminal_is_a_table_that_changes_and_gives_the_cursor_back(environment: dict[str, str]) -> None:
    with screen(environment, 80, "watch") as shown:
        shown.read("no elections yet")
        with leader(environment, "billing/close") as leading:
            shown.read(f"/{leading.pid} ")
        shown.read("nobody")
        shown.process.send_signal(signal.SIGTERM)
        shown.read()
        assert shown.process.wait(DEADLINE_S) == 128 + signal.SIGTERM
    assert shown.seen.rindex("\x1b[?25h") > shown.seen.rindex("\x1b[?25l")
