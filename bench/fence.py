"""What a fence costs: a fenced commit beside the same commit unfenced, with the same settings.

The commit is the smallest there is, one row of a ledger in Python's own ``with connection:``, so everything that is added
shows. Twice: durable, as SQLite is by default (the log is synced at every commit), which is what the goals are about; and
with synchronous=NORMAL, where a commit waits for no disk and takes some fifteen microseconds. There, a statement more
from Python is an eighth of it already, and the goal is that a fence costs no more than three of them.

Each kind has a file of its own, or it would find its page cache emptied by the commit of another. Blocks of commits are
interleaved in an order that is drawn anew for every round, and medians of single commits are compared, so a checkpoint
or a busy neighbour does not fall upon one side.

Then durable commits by 8 and by 32 threads. SQLite has one writer at a time, and who waits for it looks again every so often, so
what is compared is how many commits all of them make in a while. Threads have a connection each, as guard and triggers are
used; or share one under a lock, as the sink does, which is several times as quick and has a baseline of its own for that.
"""

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Literal

from rows import Figures, told

from tenure.sinks import SQLiteSink, guard, install_triggers

# A disk is more unsteady than its neighbours, so durable commits take turns one by one.
ROUNDS = {"FULL": 300, "NORMAL": 60}
BLOCK = {"FULL": 1, "NORMAL": 100}
WRITERS = (8, 32)
TURNS, TURN_S = 40, 0.25
WAIT_S = 60.0  # Who waits for the one writer has bad luck again and again, and must not fail for it.
LOGGED = 200  # commits whose bytes in the log are counted
TERM = SimpleNamespace(fence="sqlite:///var/lib/tenure/state.db/billing/close", token=7)
_LEDGER = "CREATE TABLE IF NOT EXISTS ledger (entry INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL, note TEXT)"
_INSERT = "INSERT INTO ledger (account, cents, note) VALUES (?, ?, ?)"
_ROW = ("savings", 1250, "rent")

Commit = Callable[[], object]


def _open(path: Path, synchronous: str, isolation_level: Literal["DEFERRED"] | None = "DEFERRED") -> sqlite3.Connection:
    connection = sqlite3.connect(path, WAIT_S, isolation_level=isolation_level, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(_LEDGER)
    return connection


def _unfenced(connection: sqlite3.Connection) -> Commit:
    def commit() -> None:
        with connection:
            connection.execute(_INSERT, _ROW)

    return commit


def _locked(connection: sqlite3.Connection) -> Commit:
    """Make an unfenced commit on a connection that threads share, as the sink has it."""
    lock, commit = Lock(), _unfenced(connection)

    def alone() -> None:
        with lock:
            commit()

    return alone


def _transaction(sink: SQLiteSink) -> Commit:
    bound = sink.bind(TERM)

    def commit() -> None:
        with bound as connection:
            connection.execute(_INSERT, _ROW)

    return commit


def _guard(connection: sqlite3.Connection) -> Commit:
    def commit() -> None:
        with connection:
            guard(connection, TERM)
            connection.execute(_INSERT, _ROW)

    return commit


def _trigger(connection: sqlite3.Connection) -> Commit:
    install_triggers(connection, "ledger", fence=TERM.fence)
    return _presented(connection)


def _presented(connection: sqlite3.Connection) -> Commit:
    with connection:
        guard(connection, TERM)  # The seal; it presents the token as well.
    return _unfenced(connection)


def _timed(commit: Commit, count: int) -> list[int]:
    taken = []
    for _ in range(count):
        began = time.perf_counter_ns()
        commit()
        taken.append(time.perf_counter_ns() - began)
    return taken


def _ratios(synchronous: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:

        def opened(name: str) -> sqlite3.Connection:
            return stack.enter_context(closing(_open(Path(folder) / f"{name}.db", synchronous)))

        sink = stack.enter_context(SQLiteSink(lambda: _open(Path(folder) / "transaction.db", synchronous, None)))
        commits = {
            "unfenced": _unfenced(opened("unfenced")),
            "transaction": _transaction(sink),
            "guard": _guard(opened("guard")),
            "trigger": _trigger(opened("trigger")),
        }
        taken: dict[str, list[int]] = {name: [] for name in commits}
        order = list(commits)
        for _ in range(ROUNDS[synchronous]):
            random.shuffle(order)
            for name in order:
                taken[name] += _timed(commits[name], BLOCK[synchronous])
    typical = {name: median(times) for name, times in taken.items()}
    return {name: value / typical["unfenced"] for name, value in typical.items()}


def _count_in_a_turn(commits: list[Commit], threads: ThreadPoolExecutor) -> float:
    """Return how many commits a second these writers make together, each in a thread."""
    together = Barrier(len(commits))

    def write(commit: Commit) -> int:
        together.wait()
        count, until_s = 0, time.monotonic() + TURN_S
        while True:
            commit()
            if time.monotonic() > until_s:
                return count  # This one ended too late to count.
            count += 1

    return sum(threads.map(write, commits)) / TURN_S


def _many_writers(writers: int) -> dict[str, float]:
    """Return how much longer a commit takes than the same unfenced, by how it is fenced."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)

        def opened(kind: str) -> list[sqlite3.Connection]:
            return [stack.enter_context(closing(_open(folder / f"{kind}.db", "FULL"))) for _ in range(writers)]

        sink = stack.enter_context(SQLiteSink(lambda: _open(folder / "transaction.db", "FULL", None)))
        shared = stack.enter_context(closing(_open(folder / "locked.db", "FULL")))
        triggered = opened("trigger")
        install_triggers(triggered[0], "ledger", fence=TERM.fence)
        commits = {
            "unfenced": [_unfenced(connection) for connection in opened("unfenced")],
            "locked": [_locked(shared)] * writers,
            "transaction": [_transaction(sink)] * writers,
            "guard": [_guard(connection) for connection in opened("guard")],
            "trigger": [_presented(connection) for connection in triggered],
        }
        threads = stack.enter_context(ThreadPoolExecutor(writers))
        per_second: dict[str, list[float]] = {kind: [] for kind in commits}
        for _ in range(TURNS):
            for kind in random.sample(list(commits), len(commits)):
                per_second[kind].append(_count_in_a_turn(commits[kind], threads))
    typical = {kind: median(counts) for kind, counts in per_second.items()}
    return {
        "transaction": typical["locked"] / typical["transaction"],
        "guard": typical["unfenced"] / typical["guard"],
        "trigger": typical["unfenced"] / typical["trigger"],
    }


def _log_bytes() -> dict[str, float]:
    """Return how many bytes of the log a commit takes, by how it is fenced; the log is kept while they are counted."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)

        def opened(kind: str) -> sqlite3.Connection:
            return stack.enter_context(closing(_open(folder / f"{kind}.db", "NORMAL")))

        sink = stack.enter_context(SQLiteSink(lambda: _open(folder / "transaction.db", "NORMAL", None)))
        commits = {
            "unfenced": _unfenced(opened("unfenced")),
            "transaction": _transaction(sink),
            "guard": _guard(opened("guard")),
            "trigger": _trigger(opened("trigger")),
        }
        counted = {}
        for kind, commit in commits.items():
            keeper, log = opened(kind), folder / f"{kind}.db-wal"
            commit()  # The seal, where there is one to come.
            keeper.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for _ in range(LOGGED):
                commit()
            counted[kind] = log.stat().st_size / LOGGED
    return counted


def figures() -> Figures:
    durable, quick = _ratios("FULL"), _ratios("NORMAL")
    yield "fenced write, bound transaction / same commit", durable["transaction"], 1.10, "x", False
    yield "fenced write, guard / same commit", durable["guard"], 1.10, "x", False
    yield "fenced write, trigger / same commit", durable["trigger"], 1.25, "x", False
    for writers in WRITERS:
        many = _many_writers(writers)
        what = f"fenced write, {{}} / same commit, {writers} writers"
        yield what.format("bound transaction"), many["transaction"], 1.10, "x", False
        yield what.format("guard"), many["guard"], 1.10, "x", False
        yield what.format("trigger"), many["trigger"], 1.25, "x", False
    logged = _log_bytes()
    for kind in ("transaction", "guard", "trigger"):
        what = f"fenced write, {kind}: bytes in SQLite's log / same commit"
        yield what, logged[kind] / logged["unfenced"], 1.0, "x", False
    yield told("unfenced write: bytes in SQLite's log", logged["unfenced"], "B")
    yield "the same without waiting for the disk, transaction", quick["transaction"], 1.40, "x", False
    yield "the same without waiting for the disk, guard", quick["guard"], 1.40, "x", False
    yield "the same without waiting for the disk, trigger", quick["trigger"], 1.40, "x", False
