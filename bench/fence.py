"""What a fence costs: a fenced commit beside the same commit unfenced, with the same settings.

The commit is the smallest there is, one row of a ledger in Python's own ``with connection:``, so everything that is added
shows. Twice: durable, as SQLite is by default (the log is synced at every commit), which is what the goals are about; and
with synchronous=NORMAL, where a commit waits for no disk and takes some fifteen microseconds. There, a statement more
from Python is an eighth of it already, and the goal is that a fence costs no more than three of them.

Each kind has a file of its own, or it would find its page cache emptied by the commit of another. Blocks of commits are
interleaved in an order that is drawn anew for every round, and medians of single commits are compared, so a checkpoint
or a busy neighbour does not fall upon one side.
"""

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Literal

from tenure.sinks import SQLiteSink, guard, install_triggers

# A disk is more unsteady than its neighbours, so durable commits take turns one by one.
ROUNDS = {"FULL": 300, "NORMAL": 60}
BLOCK = {"FULL": 1, "NORMAL": 100}
TERM = SimpleNamespace(fence="sqlite:///var/lib/tenure/state.db/billing/close", token=7)
_LEDGER = "CREATE TABLE ledger (entry INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL, note TEXT)"
_INSERT = "INSERT INTO ledger (account, cents, note) VALUES (?, ?, ?)"
_ROW = ("savings", 1250, "rent")

Commit = Callable[[], object]


def _open(path: Path, synchronous: str, isolation_level: Literal["DEFERRED"] | None = "DEFERRED") -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=isolation_level, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(_LEDGER)
    return connection


def _unfenced(connection: sqlite3.Connection) -> Commit:
    def commit() -> None:
        with connection:
            connection.execute(_INSERT, _ROW)

    return commit


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


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    durable, quick = _ratios("FULL"), _ratios("NORMAL")
    yield "fenced write, bound transaction / same commit", durable["transaction"], 1.10, "x", False
    yield "fenced write, guard / same commit", durable["guard"], 1.10, "x", False
    yield "fenced write, trigger / same commit", durable["trigger"], 1.25, "x", False
    yield "the same without waiting for the disk, transaction", quick["transaction"], 1.40, "x", False
    yield "the same without waiting for the disk, guard", quick["guard"], 1.40, "x", False
    yield "the same without waiting for the disk, trigger", quick["trigger"], 1.40, "x", False
