"""The terminal: lent to the command while it runs, taken back afterwards, as a shell does with its jobs."""

import os
import signal
import termios
from contextlib import suppress
from typing import Any, Final

_INPUT: Final = 0


class Terminal:
    """Standard input, if that is a terminal."""

    def __init__(self) -> None:
        self._modes: list[Any] | None = None  # how the terminal was when it was lent; None: it was not
        # A process in the background that moves the terminal on, or only says a word where ``stty tostop`` is set, would
        # be stopped.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def lend(self, group: int) -> None:
        """Put ``group`` into the foreground, if we are there, and have it go on if it waits to be."""
        with suppress(OSError, termios.error):  # not a terminal, or not ours
            if os.tcgetpgrp(_INPUT) == os.getpgrp():
                self._modes = termios.tcgetattr(_INPUT)
                os.tcsetpgrp(_INPUT, group)
                os.killpg(group, signal.SIGCONT)

    def take_back(self, group: int, *, mend: bool) -> None:
        """Come to the foreground again. ``mend``: the command was killed and may have left it without echo."""
        modes, self._modes = self._modes, None
        if modes is None:
            return
        with suppress(OSError, termios.error):
            if _in_front_still(group):
                os.tcsetpgrp(_INPUT, os.getpgrp())
                if mend:
                    termios.tcsetattr(_INPUT, termios.TCSADRAIN, modes)

    @property
    def is_lent(self) -> bool:
        """Whether a Ctrl-C goes to the command, and not to us."""
        return self._modes is not None


def _in_front_still(group: int) -> bool:
    """Whether the foreground is the command's, or that of a job of its own which has ended. Else somebody took it."""
    in_front = os.tcgetpgrp(_INPUT)
    if in_front == group:
        return True
    try:
        os.killpg(in_front, 0)
    except ProcessLookupError:
        return True
    return False
