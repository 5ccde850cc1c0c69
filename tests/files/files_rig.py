"""A writer that is killed at the N-th call that it makes to the system, and what must be true of the folder afterwards."""

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from tenure.sinks import FileSink

FENCE = "sqlite:///state.db/books"
OLD, NEW = b"old " * 4000, b"new " * 5000

# Every call by which the sink speaks to the system.
CALLS = [
    (os, name) for name in ("open", "close", "read", "write", "fsync", "rename", "unlink", "mkdir", "lstat", "stat")
]
CALLS += [(os, name) for name in ("fstat", "chmod", "listdir")] + [(fcntl, "flock")]


def term(token: int) -> SimpleNamespace:
    return SimpleNamespace(fence=FENCE, token=token)


def killed_at(number: int, *, after: bool, work: Callable[[], object]) -> bool:
    """Fork, and kill the child before or after its N-th call. Returns whether it came so far."""
    child = os.fork()
    if child == 0:
        _die_at(number, after=after, work=work)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the writer failed by itself"
    return False


def _die_at(number: int, *, after: bool, work: Callable[[], object]) -> NoReturn:
    count = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args, **kwargs)
            finally:
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        return called

    for module, name in CALLS:
        setattr(module, name, counted(getattr(module, name)))
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def content(folder: Path) -> bytes | None:
    file = folder / "ledger"
    return file.read_bytes() if file.exists() else None


def kept(folder: Path) -> list[str]:
    """What lies beside the fences."""
    return sorted(path.name for path in (folder / ".tenure").iterdir())


def stands_at(folder: Path) -> int:
    return FileSink(folder).folder.highest(FENCE)
