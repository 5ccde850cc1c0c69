"""One engine process, which dies with this one. ``keeper.py`` says how."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_KEEPER = Path(__file__).with_name("keeper.py")
_LOOK_S = 0.01  # How often a condition is looked at that nothing wakes us for.


class Process:
    """A running engine. Its number stays its own until we have seen it end, so a signal never reaches another process."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._keeper = subprocess.Popen(
            # -I -S: no site-packages and no PYTHON* settings; it needs none, and starts in a third of the time.
            [sys.executable, "-I", "-S", str(_KEEPER), str(os.getpid()), str(log), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())

    @property
    def ended(self) -> bool:
        return self._keeper.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        if not self.ended:
            os.kill(self.pid, number)

    def pause(self) -> None:
        """Stop it; on return none of its threads runs any more."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: self.ended or self._stands_still(), 10)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; returns whether it has come."""
        try:
            self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_pipes()
        return True

    def kill(self) -> None:
        """Kill it, and return once it is gone."""
        # Not by closing its keeper's input: a child that we forked without exec would hold that open.
        self.signal(signal.SIGKILL)
        self._keeper.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            assert pipe is not None
            pipe.close()

    def _stands_still(self) -> bool:
        threads = Path(f"/proc/{self.pid}/task")
        if not threads.exists():  # Not Linux, or it has just ended.
            return True
        try:
            # The state is what follows the name, and the name may hold anything, a bracket too.
            states = [(thread / "stat").read_text().rpartition(") ")[2][0] for thread in threads.iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            return False  # A thread ended while we looked.
        return set(states) <= {"T", "Z"}


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look at ``condition`` until it holds or the time is up; returns whether it held."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_S)
    return True
