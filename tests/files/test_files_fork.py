"""What a forked child has of its parent's lock: nothing, neither held nor in its way."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from tenure.errors import Refused
from tenure.model import Token
from tenure.sinks import FileSink
from tests.files.files_rig import FENCE, content, stands_at, term

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

# Holds the lock, has a child that goes on, and is killed.
HOLDER = """
import os, signal, sys, time
from tests.files.files_rig import term
from tenure.sinks import FileSink

def change(_):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

FileSink(sys.argv[1]).blocking(term(1)).update("ledger", change)
"""


def test_a_child_does_not_keep_the_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        try:
            assert process.wait() == -signal.SIGKILL
            anyio.run(FileSink(tmp_path).seal, FENCE, Token(2))
        finally:
            os.kill(child, signal.SIGKILL)
    assert stands_at(tmp_path) == 2


def test_a_child_forked_while_a_thread_writes_can_write_itself_once_that_has_ended(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    entered, let_go = threading.Event(), threading.Event()
    reads, writes = os.pipe()

    def change(_: bytes | None) -> bytes:
        entered.set()
        assert let_go.wait(30)
        return b"by the parent"

    thread = threading.Thread(target=sink.blocking(term(1)).update, args=("ledger", change))
    thread.start()
    assert entered.wait(30)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(reads, 1)
            sink.blocking(term(1)).write_bytes("ledger", b"by the child")
            code = 0
        finally:
            os._exit(code)
    let_go.set()
    thread.join()
    assert content(tmp_path) == b"by the parent"
    os.write(writes, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert content(tmp_path) == b"by the child"
    for end in (reads, writes):
        os.close(end)


def test_a_child_forked_inside_a_write_cannot_finish_it(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    children: list[int] = []
    parent = os.getpid()

    def change(_: bytes | None) -> bytes:
        child = os.fork()
        if child:
            children.append(child)
            assert os.waitpid(child, 0)[1] == 0
            return b"by the parent"
        return b"by the child"

    code = 1
    try:
        sink.blocking(term(1)).update("ledger", change)
    except Refused:
        code = 0
    finally:
        if os.getpid() != parent:
            os._exit(code)
    assert len(children) == 1
    assert content(tmp_path) == b"by the parent"
