"""Where the ``tenure`` command begins. Signals come first: whatever is imported before them is time in which one is lost.

``commands`` is therefore imported by ``main()``, and not above it.
"""

import os
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130
_SIGNALLED: Final = 128  # Shells add this to the number of the signal that a process died of.


def main() -> None:
    """Run the command line and leave with its exit code."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # The kernel drops what process 1 does not handle: a container that is stopped while we start would run on.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(_SIGNALLED + number))
    try:
        from tenure.cli.commands import invoke  # noqa: PLC0415  (it takes long enough to be interrupted)

        code = invoke()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # From here on nothing would catch the exception, and Python would print where it was when it came.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)
