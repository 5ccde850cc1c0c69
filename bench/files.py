"""What a fence costs a file: a fenced write beside write, fsync and rename without one.

The content is four kilobytes. A fenced write syncs the file and, after the rename, its folder. The plain write is measured twice: with the
same two syncs, which the goal is about; and as it is often written, with one, which may lose the rename when the machine
fails. What the second sync costs by itself is told beside it, as no fence can make it cheaper. Writes take turns one by one in an order that is
drawn anew for every round, and medians are compared, so a busy disk does not fall upon one side.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from rows import Figures, told

from tenure.sinks import FileSink

ROUNDS = 400
TERM = SimpleNamespace(fence="sqlite:///var/lib/tenure/state.db/billing/close", token=7)
_CONTENT = b"x" * 4096


def _plain(folder: Path, *, synced: bool) -> Callable[[], None]:
    target, temp = str(folder / "ledger"), str(folder / "ledger.new")

    def write() -> None:
        file = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.write(file, _CONTENT)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temp, target)  # noqa: PTH104  (what is measured)
        if synced:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    return write


def _fenced(folder: Path) -> Callable[[], None]:
    bound = FileSink(folder).blocking(TERM)
    bound.write_bytes("ledger", _CONTENT)  # Raises the fence, as a seal does.
    return lambda: bound.write_bytes("ledger", _CONTENT)


def figures() -> Figures:
    # Not in the folder for temporary files, which may be in memory: there, a sync is nothing.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folders = [Path(name) / kind for kind in ("fenced", "plain", "unsynced")]
        for folder in folders:
            folder.mkdir()
        writes = {
            "fenced": _fenced(folders[0]),
            "plain": _plain(folders[1], synced=True),
            "unsynced": _plain(folders[2], synced=False),
        }
        taken: dict[str, list[int]] = {kind: [] for kind in writes}
        for _ in range(ROUNDS):
            for kind in random.sample(list(writes), len(writes)):
                began = time.perf_counter_ns()
                writes[kind]()
                taken[kind].append(time.perf_counter_ns() - began)
    medians = {kind: median(times) for kind, times in taken.items()}
    yield "files: fenced write / same write, same two syncs", medians["fenced"] / medians["plain"], 1.2, "x", False
    once = "write+fsync+rename, folder not synced"
    yield told(f"files: fenced write / {once}", medians["fenced"] / medians["unsynced"], "x")
    yield told(f"files: write+fsync+rename+fsync of folder / {once}", medians["plain"] / medians["unsynced"], "x")
    yield told(f"files: {once}", medians["unsynced"] / 1e6, "ms")
