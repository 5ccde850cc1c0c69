"""Processes that a test looks at from outside."""

import time
from collections.abc import Callable
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


def marked(variable: str) -> list[int]:
    """Whatever has this in its environment, such as ``MARK=…``, and has not ended."""
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _has(path, variable)]
    return [pid for pid in found if alive(pid)]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _has(path: Path, variable: str) -> bool:
    try:
        return f"{variable}\0".encode() in path.read_bytes()
    except OSError:
        return False  # It has ended.
