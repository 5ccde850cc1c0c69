"""What the office costs and how fast it fails over: one check, a thousand elections in one process, a leader that dies.

Crash failover is measured between real processes: from ``kill -9`` of the leader to the first instruction of the next
body, on the one boot clock of the machine, and is given as what it takes beyond the ttl.
"""

import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import anyio

import tenure
from tenure import sync

ELECTIONS = 1000
AT_ONCE = 25
MANY_TTL_S = 10.0
IDLE_S = 10.0
CRASHES = 11
CRASH_TTL_S = 1.0
CHECKS = 20_000
_PAGE = resource.getpagesize()


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


async def _lead_many(url: str) -> tuple[float, float]:
    """Return the bytes that one election takes beyond its body's own task, and the share of a core of all, in percent."""
    async with tenure.open_store(url) as store, anyio.create_task_group() as tasks:
        leading = 0
        tasks.start_soon(anyio.sleep_forever)
        before = _resident_bytes()
        for _ in range(ELECTIONS):
            tasks.start_soon(anyio.sleep_forever)
        await anyio.sleep(0.5)
        plain_bytes = _resident_bytes() - before
        all_lead = anyio.Event()

        async def body(_: tenure.Tenure) -> None:
            nonlocal leading
            leading += 1
            if leading in (1, ELECTIONS + 1):
                all_lead.set()
            await anyio.sleep_forever()

        tasks.start_soon(tenure.Election(store, "warm").lead, body)
        await all_lead.wait()
        all_lead = anyio.Event()
        before = _resident_bytes()
        for number in range(ELECTIONS):
            tasks.start_soon(tenure.Election(store, f"election/{number}", ttl=MANY_TTL_S).lead, body)
            if number % AT_ONCE == 0:
                # A thousand claims at one moment would leave behind what they needed together, for none of them.
                while leading < number:  # noqa: ASYNC110
                    await anyio.sleep(0.005)
        await all_lead.wait()
        await anyio.sleep(2)  # the last claims are answered, the first renewals are on their way
        bytes_each = (_resident_bytes() - before - plain_bytes) / ELECTIONS
        began, used = time.monotonic(), time.process_time()
        await anyio.sleep(IDLE_S)
        busy = (time.process_time() - used) / (time.monotonic() - began)
        tasks.cancel_scope.cancel()
    return bytes_each, 100 * busy


def _check_ns() -> float:
    with sync.Election(tenure.MemoryStore(), "x").once() as term:
        return min(timeit.repeat(term.check, number=CHECKS, repeat=7)) / CHECKS * 1e9


def _stand(url: str) -> None:
    """One candidate: says when its body begins, and stays until it is killed."""

    def body(term: sync.Tenure) -> None:
        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
        term.sleep(3600)

    with sync.open_store(url) as store:
        sync.Election(store, "x", ttl=CRASH_TTL_S).lead(body)


class _Candidates:
    """Two candidates at any time; who leads is killed, and another joins."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._elected = threading.Condition()
        self._last: tuple[subprocess.Popen[str], int] | None = None
        self.all: list[subprocess.Popen[str]] = []

    def join(self) -> None:
        argv = [sys.executable, __file__, "stand", self._url]
        candidate = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.all.append(candidate)
        threading.Thread(target=self._listen, args=[candidate], daemon=True).start()

    def _listen(self, candidate: subprocess.Popen[str]) -> None:
        assert candidate.stdout is not None
        for line in candidate.stdout:
            with self._elected:
                self._last = (candidate, int(line))
                self._elected.notify_all()

    def leader(self, after: subprocess.Popen[str] | None) -> tuple[subprocess.Popen[str], int]:
        with self._elected:
            self._elected.wait_for(lambda: self._last is not None and self._last[0] is not after, timeout=30)
            assert self._last is not None
            return self._last


def _failovers_s(url: str) -> list[float]:
    candidates, took = _Candidates(url), list[float]()
    try:
        candidates.join()
        leader, _ = candidates.leader(None)
        for number in range(CRASHES):
            candidates.join()
            # At no fixed distance from a renewal, and late enough for the new one to stand by.
            time.sleep(1.5 + 0.07 * number)
            killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            os.kill(leader.pid, signal.SIGKILL)
            leader, began = candidates.leader(leader)
            took.append((began - killed) / 1e9)
    finally:
        for candidate in candidates.all:
            candidate.kill()
            candidate.wait()
    return took


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    yield "Tenure.check()", _check_ns() / 1e3, 1.0, "µs", False
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, __file__, "many", f"sqlite://{folder}/elections.db"]
        told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
        yield f"{ELECTIONS} leaders in one process, each", float(told[0]) / 1024, 8.0, "KiB", False
        yield f"{ELECTIONS} leaders in one process, ttl {MANY_TTL_S:g} s, idle", float(told[1]), 2.0, "%", False
        beyond_s = median(_failovers_s(f"sqlite://{folder}/crash.db")) - CRASH_TTL_S
        yield "crash failover, p50, beyond the ttl", 1e3 * beyond_s, 100.0, "ms", False


if __name__ == "__main__":
    if sys.argv[1] == "many":
        print(*anyio.run(_lead_many, sys.argv[2]))
    else:
        _stand(sys.argv[2])
