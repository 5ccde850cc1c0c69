"""What the SQLite store costs: office taken and left, a hand-over between two processes, and a standby that waits.

Taking and leaving is compared with what SQLite itself needs for two synced transactions on the same file, in
interleaved rounds. Both sides are dominated by the disk; ``own`` shows what is ours, on a file in memory-backed storage
if the machine has some.
"""

import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rows import Figures, NotMeasured

from tenure.clock import BootClock
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.sqlite import SQLiteStore

PAIRS = 300
HAND_OVERS = 60
IDLE_S = 8.0
TTL_NS = 10 * 10**9
_MEMORY_BACKED = Path("/dev/shm")  # noqa: S108  (a folder of our own is made in it)


def _raw_pair(connection: sqlite3.Connection) -> None:
    for holder in ("a", None):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE raw SET holder = ? WHERE election = 'e'", (holder,))
        connection.execute("COMMIT")


async def _acquire_and_release(folder: Path) -> tuple[float, float]:
    """Return the medians, in seconds, of a raw pair of transactions and of a claim with its release."""
    raw_s, own_s = [], []
    async with SQLiteStore(folder / "elections.db") as store:
        connection = sqlite3.connect(folder / "elections.db", isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE raw (election TEXT PRIMARY KEY, holder TEXT) WITHOUT ROWID")
        connection.execute("INSERT INTO raw VALUES ('e', NULL)")
        holder = Holder.fresh()
        for serial in range(1, PAIRS + 1):
            # In turns: how long a commit takes depends on the length of the log, which both share.
            began = time.perf_counter()
            _raw_pair(connection)
            raw_s.append(time.perf_counter() - began)
            bid = Bid("e", holder, serial, TTL_NS)
            began = time.perf_counter()
            await store.claim(bid)
            await store.release(bid)
            own_s.append(time.perf_counter() - began)
        connection.close()
    return median(raw_s), median(own_s)


async def _take_turns(path: str) -> None:
    """One of two processes that hand the office to each other: prints when it took it and when it began to leave it."""
    clock, holder = BootClock(), Holder.fresh()
    async with SQLiteStore(path) as store:
        for serial in range(1, HAND_OVERS + 1):
            bid = Bid("e", holder, serial, TTL_NS)
            answer = await store.claim(bid)
            while isinstance(answer, Wait):
                await store.changed(answer)
                answer = await store.claim(bid)
            taken = clock.now()
            # Long enough for the other one to come and wait, at no fixed distance from its looks.
            await asyncio.sleep(0.05 + taken % 20_000_000 / 1e9)
            left = clock.now()
            await store.release(bid)
            print(json.dumps({"token": answer.token, "taken": taken, "left": left}), flush=True)
            await asyncio.sleep(0.04)  # There is no queue: who leaves and asks at once is in office again.


def _hand_over_s(path: str) -> float:
    """Return the median time from the call that leaves the office to the grant in the other process."""
    command = [sys.executable, __file__, "take-turns", path]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    turns = {}
    for number, process in enumerate(pair):
        for line in process.communicate()[0].splitlines():
            turn = json.loads(line)
            turns[turn["token"]] = (number, turn["taken"], turn["left"])
    passed = [
        (taken - turns[token - 1][2]) / 1e9
        for token, (number, taken, _) in turns.items()
        if token - 1 in turns and turns[token - 1][0] != number
    ]
    assert len(passed) > HAND_OVERS // 2, "they did not take turns"
    return float(median(passed))


async def _stand_by(path: str) -> None:
    """Wait for an office that stays taken, and print what share of a core that cost."""
    async with SQLiteStore(path) as store:
        wait = await store.claim(Bid("e", Holder.fresh(), 1, TTL_NS))
        assert isinstance(wait, Wait)
        waiting = asyncio.create_task(store.changed(wait))
        await asyncio.sleep(0.2)
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        await asyncio.sleep(IDLE_S)
        elapsed_s = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        assert not waiting.done()
        waiting.cancel()
    cost_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(100 * cost_s / elapsed_s)


async def _idle_percent(path: str) -> float:
    """Return the cost of a standby in another process, while the leader renews as the default timing has it."""
    async with SQLiteStore(path) as store:
        grant = await store.claim(Bid("e", Holder.fresh(), 1, TTL_NS))
        assert isinstance(grant, Grant)
        standby = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "stand-by", path, stdout=subprocess.PIPE
        )
        answer = asyncio.create_task(standby.communicate())
        while not (await asyncio.wait({answer}, timeout=2.0))[0]:
            await store.renew(grant)
        return float((await answer)[0])


def figures() -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        raw_s, own_s = asyncio.run(_acquire_and_release(Path(folder)))
        hand_over_s = _hand_over_s(f"{folder}/turns.db")
        idle_percent = asyncio.run(_idle_percent(f"{folder}/idle.db"))
    yield "SQLite: acquire + release / two raw synced transactions", own_s / raw_s, 1.5, "x", False
    what = "SQLite: what acquire + release add where the disk costs nothing"
    if _MEMORY_BACKED.is_dir():
        with tempfile.TemporaryDirectory(dir=_MEMORY_BACKED) as folder:
            raw_s, own_s = asyncio.run(_acquire_and_release(Path(folder)))
        yield what, (own_s - raw_s) * 1e6, 1000, "µs", False
    else:
        yield NotMeasured(what, f"there is no folder in memory at {_MEMORY_BACKED}")
    yield "SQLite: hand-over between two processes, median", hand_over_s * 1e3, 30, "ms", False
    yield "SQLite: a standby that waits, of a core", idle_percent, 0.5, "%", False


if __name__ == "__main__":
    act = {"take-turns": _take_turns, "stand-by": _stand_by}[sys.argv[1]]
    asyncio.run(act(sys.argv[2]))
