"""The watch for suspends: it goes on whatever happens to whom it wakes."""

import subprocess
import sys

import pytest

# The one clock runs on while a machine sleeps, the other stands. Nothing of ours is replaced: the clock is moved below it.
SLEPT_TWICE = """
import threading, time
real, ahead_ns = time.clock_gettime_ns, 0
time.clock_gettime_ns = lambda clock: real(clock) + (ahead_ns if clock == time.CLOCK_BOOTTIME else 0)
from tenure.office.thread import Office

class Alarm:
    def __init__(self):
        self.due, self.rung = None, threading.Event()

    async def set(self):
        office.timetable.set(self, office.clock.now() + 60 * 10**9)

    def ring(self):
        self.rung.set()
        raise ZeroDivisionError

office = Office.of_this_process()
for _ in range(2):
    alarm = Alarm()
    office.submit(alarm.set()).result(20)  # A task, which comes after the watch has begun.
    ahead_ns += 90 * 10**9
    assert alarm.rung.wait(20), "it sleeps on"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="moves CLOCK_BOOTTIME")
def test_an_alarm_that_raises_after_a_suspend_is_told_and_the_next_suspend_is_seen_as_well() -> None:
    run = subprocess.run([sys.executable, "-c", SLEPT_TWICE], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("\nZeroDivisionError") == 2, run.stderr
