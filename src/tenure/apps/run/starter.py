"""The starter: a process that waits at a gate, and then becomes the command.

The supervisor runs it as a script, like the guardian, in a group of its own. Without it a supervisor that is killed
between starting the command and telling the guardian would leave behind a command that nobody watches. With it the
command has not begun by then, and never will: the gate ends, and so does the starter.

Through the gate it says that it runs. If it can become the command, the gate then closes; if it cannot, the number of the
error is said there first.
"""

import os
import signal
import sys


def main() -> None:
    """Wait for a byte on the descriptor that is the first argument, and become the command that the rest is."""
    gate, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(gate, False)
    try:
        if not os.read(gate, 1):
            return
        os.write(gate, b".")
    except ConnectionError:
        return  # The supervisor has died at this very moment.
    # What the interpreter has set up for itself is not for the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvp(command[0], command)  # noqa: S606  (the user's own command)
    except OSError as error:
        os.write(gate, str(error.errno).encode())


if __name__ == "__main__":
    main()
