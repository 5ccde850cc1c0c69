"""One engine process, which dies with this one. ``keeper.py`` says how."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
            _send(self.pid, number)  # It may be gone though its keeper is not, which ends what it had started.

    def pause(self) -> None:
        """Stop it and what it has started; on return none of their threads runs any more."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: self.ended or _stands_still(self.pid), 10)  # It starts nothing more.
        for child in _started_by(self.pid):
            _send(child, signal.SIGSTOP)
        wait_for(lambda: self.ended or all(map(_stands_still, _started_by(self.pid))), 10)

    def resume(self) -> None:
        """Let it run on after a pause."""
        for child in _started_by(self.pid):
            _send(child, signal.SIGCONT)
        self.signal(signal.SIGCONT)

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


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look at ``condition`` until it holds or the time is up; returns whether it held."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _started_by(pid: int) -> list[int]:
    """The processes that one has started, and that those have, and so on. Nothing where there is no /proc to look into."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        todo = [child for parent in todo for child in children.get(parent, ())]
        found += todo
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _stands_still(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():  # Not Linux, or it has just ended.
        return True
    try:
        # The state is what follows the name, and the name may hold anything, a bracket too.
        states = [(thread / "stat").read_text().rpartition(") ")[2][0] for thread in threads.iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False  # A thread ended while we looked.
    return set(states) <= {"T", "Z"}
