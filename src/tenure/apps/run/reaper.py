"""Reaping: the one place that waits for children, ours and those that others left to us.

The supervisor inherits every orphan of the command, and as process 1 of a container every other, and one that nobody waits for stays in the process table
for ever. So whatever has ended is reaped, except those that somebody here expects: they are told, and reap it themselves
when they have done with its number. Until then that number, as a process and as a group, is nobody else's.
"""

import asyncio
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
SIGNALLED: Final = 128  # Shells add this to the number of the signal that a process died of.


class Reaper:
    """Listens for the end of children on the running event loop."""

    def __init__(self, *, adopts: bool = True) -> None:
        """``adopts``: whatever ends is reaped. Not so where others in this process start children, and wait for them themselves."""
        self.on_stop: Callable[[int, int], None] = lambda _pid, _number: None  # called when a child was stopped
        self._adopts = adopts
        if sys.platform == "linux" and adopts:
            # Orphans of the command come to us, not to process 1: many a container's never reaps, and a dead process that
            # nobody reaps keeps its group in being for as long as we are willing to wait for its end.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._expected: dict[int, asyncio.Future[int]] = {}
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._look)

    def expect(self, pid: int) -> asyncio.Future[int]:
        """Return a future of the exit code of a child. Call it before the loop turns, and ``reap`` when it is done."""
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._expected[pid] = ended
        return ended

    def reap(self, pid: int) -> None:
        """Give the number of a child that has ended back to the system."""
        del self._expected[pid]
        os.waitpid(pid, 0)
        self._look()

    def _look(self) -> None:
        if not self._adopts:
            self._look_for_expected()
            return
        try:
            while stopped := os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG):
                self.on_stop(stopped.si_pid, stopped.si_status)
            # Peek first: a wait for any child would reap those that are expected. One that is not yet reaped hides the
            # others, which are looked for again afterwards.
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in self._expected:
                    self._tell(found)
                    break
                os.waitpid(found.si_pid, 0)
        except ChildProcessError:
            pass  # There are no children.

    def _look_for_expected(self) -> None:
        for pid in list(self._expected):
            if found := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._tell(found)

    def _tell(self, found: os.waitid_result) -> None:
        ended = self._expected[found.si_pid]
        if not ended.done():
            ended.set_result(found.si_status if found.si_code == os.CLD_EXITED else SIGNALLED + found.si_status)
