"""The wall clock of a candidate leaps, and nothing comes of it."""

import subprocess
import sys
from pathlib import Path

from tenure.testing.engines import EtcdCluster

# Whoever reads the wall clock gets it through ``time``: a process whose clock leaps by hours sees just this.
_LEAPS = """
import asyncio, sys, time
real_s, real_ns, real_read, leap_s = time.time, time.time_ns, time.clock_gettime, 0
time.time = lambda: real_s() + leap_s
time.time_ns = lambda: real_ns() + leap_s * 10**9
wall = time.CLOCK_REALTIME
time.clock_gettime = lambda clock: real_read(clock) + (leap_s if clock == wall else 0)

import tenure

async def main():
    global leap_s
    facts = []
    async with tenure.open_store(sys.argv[1]) as store:
        election = tenure.Election(store, "leaps", ttl=3, hooks=[facts.append])
        async with election.once() as term:
            for leap_s in (3600, -3600, 10**8):
                sent_at = term._term.valid_until
                async with asyncio.timeout(30):
                    while term._term.valid_until == sent_at:
                        await asyncio.sleep(0.02)
                term.check()
                print("renewed", leap_s, abs(time.time() - real_s()) > 3000, flush=True)
    print(*[type(fact).__name__ for fact in facts])

asyncio.run(main())
"""


def test_a_wall_clock_that_leaps_by_hours_ends_no_tenure(newest: EtcdCluster, tmp_path: Path) -> None:
    program = tmp_path / "leaps.py"
    program.write_text(_LEAPS)
    told = subprocess.run(
        [sys.executable, str(program), newest.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.stdout.splitlines() == [
        "renewed 3600 True",
        "renewed -3600 True",
        "renewed 100000000 True",
        "Elected Left",
    ], told.stderr
