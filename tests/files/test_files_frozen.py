"""Leaders that are frozen while they write, and an event loop that is not."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tenure.errors import Unreachable
from tenure.model import Token
from tenure.sinks import FileSink
from tenure.testing.engines.processes import wait_for
from tests.files.files_rig import FENCE, content, stands_at, term

# Stops itself: with the lock held, or with its content on the disk and the lock still to come.
FROZEN = """
import os, signal, sys
from tests.files.files_rig import term
from tenure.errors import TenureError
from tenure.sinks import FileSink
from tenure.sinks.files.folder import Folder

folder, where = sys.argv[1:]

def freeze():
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

def change(_):
    freeze()
    return b"by the frozen"

try:
    if where == "inside":
        FileSink(folder).blocking(term(1)).update("ledger", change)
    else:
        locked = Folder._locked
        Folder._locked = lambda self, desk: (freeze(), locked(self, desk))[1]
        FileSink(folder).blocking(term(1)).write_bytes("ledger", b"by the frozen")
except TenureError as error:
    print(type(error).__name__, flush=True)
else:
    print("written", flush=True)
"""


@contextmanager
def frozen(folder: Path, where: str) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", FROZEN, str(folder), where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "frozen\n"
            stat = Path(f"/proc/{process.pid}/stat")
            assert wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", 30)
            yield process
        finally:
            process.kill()


def test_a_leader_frozen_before_the_lock_is_refused_when_it_goes_on(tmp_path: Path) -> None:
    with frozen(tmp_path, "before") as process:
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
        FileSink(tmp_path).blocking(term(2)).write_bytes("ledger", b"by the next")
        process.send_signal(signal.SIGCONT)
        assert process.stdout
        assert process.stdout.readline() == "StaleToken\n"
    assert content(tmp_path) == b"by the next"


def test_a_leader_frozen_inside_the_lock_keeps_everybody_out_until_it_is_killed(tmp_path: Path) -> None:
    with frozen(tmp_path, "inside") as process:
        with pytest.raises(Unreachable, match="kept"):
            anyio.run(FileSink(tmp_path, wait_s=0.2).seal, FENCE, Token(2))
        assert stands_at(tmp_path) == 0
        process.kill()
        process.wait()
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
    assert (stands_at(tmp_path), content(tmp_path)) == (2, None)


def test_who_tidies_up_below_the_fences_lets_nobody_in_beside_a_frozen_leader(tmp_path: Path) -> None:
    FileSink(tmp_path).blocking(term(1)).write_bytes("ledger", b"old")
    with frozen(tmp_path, "inside") as process:
        for file in (tmp_path / ".tenure").iterdir():
            if file.name != "fences.json":
                file.unlink()
        with pytest.raises(Unreachable, match="kept"):
            anyio.run(FileSink(tmp_path, wait_s=0.2).seal, FENCE, Token(2))
        process.send_signal(signal.SIGCONT)
        assert process.stdout
        assert process.stdout.readline() == "written\n"
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
    assert content(tmp_path) == b"by the frozen"


def test_a_leader_frozen_inside_the_lock_cannot_write_after_the_fences_were_removed(tmp_path: Path) -> None:
    with frozen(tmp_path, "inside") as process:
        shutil.rmtree(tmp_path / ".tenure")
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
        process.send_signal(signal.SIGCONT)
        assert process.stdout
        assert process.stdout.readline() == "Refused\n"
    assert (stands_at(tmp_path), content(tmp_path)) == (2, None)


def test_a_leader_that_goes_on_inside_the_lock_was_first(tmp_path: Path) -> None:
    with frozen(tmp_path, "inside") as process:
        process.send_signal(signal.SIGCONT)
        assert process.stdout
        assert process.stdout.readline() == "written\n"
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
    assert content(tmp_path) == b"by the frozen"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_callers_event_loop_runs_on_while_the_disk_is_waited_for(backend: str, tmp_path: Path) -> None:
    let_go = threading.Event()

    def change(_: bytes | None) -> bytes:
        assert let_go.wait(30), "the event loop stood still"
        return b"done"

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(FileSink(tmp_path).bind(term(1)).update, "ledger", change)
            await anyio.lowlevel.checkpoint()
            let_go.set()

    anyio.run(run, backend=backend)
    assert content(tmp_path) == b"done"
