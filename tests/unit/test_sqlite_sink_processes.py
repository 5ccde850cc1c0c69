"""Real processes: leaders that are frozen, killed or forked at the worst moment, and their successors.

Nothing here sleeps. A child says where it is on its output and waits for a line on its input; the kernel says when it has
stopped.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from tenure.errors import Unreachable
from tenure.model import Token
from tenure.sinks import SQLiteSink

FENCE = "store/books"

# The leader with token 1: says so at each step, and goes on when it is told to.
LEADER = """
import sys
from types import SimpleNamespace
from tenure.errors import StaleToken
from tenure.sinks import SQLiteSink

def step(where):
    print(where, flush=True)
    sys.stdin.readline()

term = SimpleNamespace(fence="store/books", token=1)
with SQLiteSink(sys.argv[1]) as sink:
    with sink.transaction(term) as connection:
        connection.execute("INSERT INTO ledger (value) VALUES ('first')")
    step("believes")
    try:
        with sink.transaction(term) as connection:
            step("checked")
            connection.execute("INSERT INTO ledger (value) VALUES ('second')")
            step("written")
    except StaleToken as stale:
        step(f"refused {stale.token} {stale.highest}")
    else:
        step("committed")
"""

FORK = """
import os, sys
from types import SimpleNamespace
from tenure.errors import ConfigError, StaleToken
from tenure.sinks import SQLiteSink

def write(token, value):
    with sink.transaction(SimpleNamespace(fence="store/books", token=token)) as connection:
        connection.execute("INSERT INTO ledger (value) VALUES (?)", (value,))

def in_child(work):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    work()
    sys.stdout.flush()
    os._exit(0)

def end_of_the_parents():
    try:
        bound.__exit__(None, None, None)
    except ConfigError as error:
        print(error)

sink = SQLiteSink(sys.argv[1])
write(1, "parent")
bound = sink.bind(SimpleNamespace(fence="store/books", token=1))
with bound as connection:
    connection.execute("INSERT INTO ledger (value) VALUES ('parent again')")
    in_child(end_of_the_parents)
in_child(lambda: write(2, "child"))
try:
    write(1, "parent, succeeded")
except StaleToken as stale:
    print(stale)
sink.close()
"""

# Many leaders that do not know of each other: each takes the next token it thinks of, and writes.
CROWD = """
import random, sys
from types import SimpleNamespace
from tenure.errors import StaleToken
from tenure.sinks import SQLiteSink

chance, accepted = random.Random(sys.argv[2]), 0
sys.stdin.readline()
with SQLiteSink(sys.argv[1]) as sink:
    for number in range(100):
        token = 1 + number + chance.randrange(20)
        try:
            with sink.transaction(SimpleNamespace(fence="store/books", token=token)) as connection:
                connection.execute("INSERT INTO ledger (value) VALUES (?)", (str(token),))
            accepted += 1
        except StaleToken as stale:
            assert stale.token == token < stale.highest
print(accepted)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE ledger (entry INTEGER PRIMARY KEY, value TEXT)")
    return tmp_path / "ledger.db"


class Leader:
    """A process of LEADER."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self) -> None:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL


@contextmanager
def leader(path: Path) -> Iterator[Leader]:
    command = [sys.executable, "-c", LEADER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Leader(process)
        finally:
            process.kill()


def seal(path: Path, token: int) -> None:
    """Seal as a successor that does not wait for a lock."""
    connect = partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False, timeout=0)
    with SQLiteSink(connect) as sink:
        anyio.run(sink.seal, FENCE, Token(token))


def values(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM ledger ORDER BY entry")]


def test_a_leader_that_was_frozen_while_it_was_succeeded_is_refused_when_it_wakes(path: Path) -> None:
    with leader(path) as old:
        assert old.said() == "believes"
        old.freeze()
        old.tell()  # It is to write; it sleeps.
        seal(path, 2)
        old.thaw()
        assert old.said() == "refused 1 2"
    assert values(path) == ["first"]


@pytest.mark.parametrize("where", ["checked", "written"])
def test_while_a_leader_is_frozen_inside_its_transaction_nobody_can_seal(path: Path, where: str) -> None:
    with leader(path) as old:
        while old.said() != where:
            old.tell()
        old.freeze()
        with pytest.raises(Unreachable, match="database is locked"):
            seal(path, 2)
        old.thaw()
        old.tell()
        while old.said() != "committed":
            old.tell()
        seal(path, 2)  # What was checked before the seal is there before the seal.
        assert values(path) == ["first", "second"]


@pytest.mark.parametrize("where", ["checked", "written"])
def test_a_leader_that_is_killed_inside_its_transaction_leaves_nothing_and_blocks_nobody(
    path: Path, where: str
) -> None:
    with leader(path) as old:
        while old.said() != where:
            old.tell()
        old.freeze()
        old.kill()
    seal(path, 1)  # Neither the lock nor the check nor the write has outlived it.
    seal(path, 2)
    assert values(path) == ["first"]


def test_whatever_many_processes_try_the_tokens_that_were_accepted_never_go_down(path: Path) -> None:
    start = partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    crowd = [start([sys.executable, "-c", CROWD, str(path), str(seed)]) for seed in range(4)]
    for process in crowd:
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
    accepted = sum(int(process.communicate()[0]) for process in crowd)
    tokens = [int(value) for value in values(path)]
    assert tokens == sorted(tokens)
    assert len(tokens) == accepted > 0


def test_a_forked_child_has_a_connection_of_its_own_and_cannot_end_what_its_parent_began(path: Path) -> None:
    answer = subprocess.run([sys.executable, "-c", FORK, path], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert answer.stdout.splitlines() == [
        "transaction = ended inside: must last until its block ends: what came after was not fenced",
        "token 1 is stale: the highest seen is 2",
    ]
    assert values(path) == ["parent", "parent again", "child"]
