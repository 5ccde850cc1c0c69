"""What the scheduler costs: how many due runs a second it dispatches and records in a SQLite file, and how late they begin.

The jobs are functions that do nothing, so that what is measured is ours and the disk's: each run is recorded three times (due, begun, ended).
"""

import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from rows import Figures, told

from tenure.apps.cron import Cron, Every, Job, Run
from tenure.apps.ledger.opening import open_ledger
from tenure.election import Election
from tenure.office.opened import open_store

SECONDS = 8


class _Late:
    """A job that notes how late it begins."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self.begun = asyncio.Event()

    async def run(self, run: Run) -> None:
        self.begun.set()
        self.ms.append(time.time() * 1000 - run.key.scheduled_ms)


async def _lead(folder: Path, jobs: int, every_ms: int) -> tuple[list[float], float]:
    """Run jobs for a while; return how late each began, and how many a second were completed in the ledger."""
    late = _Late()
    ledger = open_ledger(f"sqlite://{folder}/ledger.db")
    made = [
        Job(f"job{number}", Every(every_ms), late.run, catch_up="all", catch_up_limit=10_000, overlap="allow")
        for number in range(jobs)
    ]
    cron = Cron(ledger, made, max_parallel=1000, history=1_000_000)
    async with open_store(f"sqlite://{folder}/store.db") as store:
        leading = asyncio.ensure_future(Election(store, "bench").lead(cron.run, sinks=[ledger]))
        await late.begun.wait()
        await asyncio.sleep(SECONDS)
        cron.drain()
        await leading
    await ledger.close()
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        count, began_ms, ended_ms = connection.execute(
            "SELECT count(*), min(started), max(ended) FROM tenure_cron_run WHERE state = 'completed'"
        ).fetchone()
        assert connection.execute("SELECT count(*) FROM tenure_cron_run WHERE attempt > 1").fetchone() == (0,)
    assert count == len(late.ms), "a run was not recorded, or recorded and not run"
    return late.ms, count / ((ended_ms - began_ms) / 1000)


def _bare(path: str) -> None:
    """Wake every 100 ms, commit once, and print how late that was: the least that recording before beginning can be."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        until_s = time.time() + SECONDS
        while (now_s := time.time()) < until_s:
            due_s = (now_s // 0.1 + 1) * 0.1
            time.sleep(max(0.0, due_s - time.time()))
            connection.execute("INSERT INTO t VALUES (?)", (due_s,))
            print((time.time() - due_s) * 1000)


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def figures() -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        _, per_s = asyncio.run(_lead(Path(folder), jobs=30, every_ms=10))
    yield "cron: due runs dispatched and recorded on SQLite, 3000 due", per_s, 1000, "/s", True
    with tempfile.TemporaryDirectory() as folder:
        # At the same time, on the same disk: what strikes one strikes the other.
        command = [sys.executable, __file__, f"{folder}/bare.db"]
        bare = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        late_ms, per_s = asyncio.run(_lead(Path(folder), jobs=10, every_ms=100))
        bare_ms = [float(line) for line in bare.communicate()[0].splitlines()]
    assert per_s > 95, f"only {per_s:.0f} runs a second"
    yield "cron: how late a run begins, p99 at 100 runs/s in bursts of ten", _p99(late_ms), 50, "ms", False
    yield told("cron: likewise, median", median(late_ms), "ms")
    yield told(
        "cron: how late a bare commit is beside it, p99", _p99(bare_ms), "ms", "What the machine and its disk add."
    )


if __name__ == "__main__":
    _bare(sys.argv[1])
