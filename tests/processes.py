"""Processes that a test looks at from outside."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path


def check_eventually(condition: Callable[[], object], within_s: float = 30) -> None:
    """Return when the condition holds; fail if it does not come to hold."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it never came to be"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs. One that is dead and was not yet reaped does not."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def parent(pid: int) -> int:
    """The process that started it, or that it was left to; 0: it has gone."""
    try:
        return int(_stat(pid)[1])
    except OSError:
        return 0


def freeze(pid: int, *files: Path) -> None:
    """Stop a process between two of its transactions on files of SQLite, so that others can go on there.

    One that is stopped within a transaction keeps the lock on the file, and nobody can succeed it until it goes on.
    """
    assert all(file.exists() for file in files), "nobody would ever be inside"
    threads, deadline_s = Path(f"/proc/{pid}/task"), time.monotonic() + 30
    while True:
        os.kill(pid, signal.SIGSTOP)
        check_eventually(lambda: all(_words(thread / "stat")[0] == "T" for thread in threads.iterdir()))
        if not any(is_locked(file) for file in files):
            return
        assert time.monotonic() < deadline_s, "somebody is always inside"
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.001)


def is_locked(file: Path) -> bool:
    """Whether somebody is inside a transaction on a file of SQLite, so that nobody else could write now."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")  # Without a log beside the file, not even a reader may be inside.
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
    return False


def marked(variable: str) -> list[int]:
    """Whatever has this in its environment, such as ``MARK=…``, and has not ended."""
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, variable)]
    return [pid for pid in found if alive(pid)]


def _stat(pid: int) -> list[str]:
    return _words(Path(f"/proc/{pid}/stat"))


def _words(stat: Path) -> list[str]:
    """What the kernel says behind the name, which stands in brackets. The first word is what it does."""
    return stat.read_text().rpartition(")")[2].split()


def _has(path: Path, variable: str) -> bool:
    try:
        return f"{variable}\0".encode() in path.read_bytes()
    except OSError:
        return False  # It has ended.
