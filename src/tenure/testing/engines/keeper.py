"""The keeper: a process that runs one engine and takes it along when the harness dies, however it dies.

The harness runs it as a script, by path, in an interpreter without site-packages. It imports nothing of tenure. It is in a
session of its own: a Ctrl-C is meant for the tests, which may want to read the engine before they end it.

Rules of this file
1. The engine is killed when standard input ends (the harness closed it, or is dead), and when the harness is dead though
   standard input goes on: a child that it forked without exec holds the other end as well.
2. If the keeper itself is killed, the kernel kills the engine. That signal is sent when the *thread* that forked ends, which
   is why the harness does not fork engines itself: it may be called in any thread. The keeper has only one.
3. The keeper ends when the engine has ended, and not before; and then nothing lives on that the engine has started. Servers of
   PostgreSQL leave by themselves when the first of them is gone, but not while they are stopped, and not at once.
"""

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: who loses its parent becomes our child


def main() -> None:
    """Run the command that the third and all further arguments are, for the process that the first names."""
    harness, log, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ended_at, wake_at = os.pipe()
    os.set_blocking(wake_at, False)
    signal.set_wakeup_fd(wake_at, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    keeper = os.getpid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1)
    engine = os.fork()
    if engine == 0:
        _become(command, log, keeper)
    os.write(sys.stdout.fileno(), f"{engine}\n".encode())
    news = select.poll()
    news.register(sys.stdin.fileno(), select.POLLIN)
    news.register(ended_at, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        try:
            news.register(os.pidfd_open(harness), select.POLLIN)
        except ProcessLookupError:
            os.kill(engine, signal.SIGKILL)
    while os.waitpid(engine, os.WNOHANG) == (0, 0):
        if any(source != ended_at for source, _ in news.poll()):
            os.kill(engine, signal.SIGKILL)
            os.waitpid(engine, 0)
            break
        os.read(ended_at, 100)  # It, or a child that it left to us, has ended, or was only stopped or continued.
    if sys.platform == "linux":
        _end_orphans()


def _end_orphans() -> None:
    while True:
        for orphan in _children():
            os.kill(orphan, signal.SIGKILL)  # Ours, and so its number stays its own until we have waited for it.
        try:
            os.waitpid(-1, 0)  # What it had started comes to us in its turn.
        except ChildProcessError:
            return


def _children() -> list[int]:
    found = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(FileNotFoundError, ProcessLookupError), open(f"{entry.path}/stat") as stat:  # noqa: PTH123
                    if int(stat.read().rpartition(") ")[2].split()[1]) == os.getpid():
                        found.append(int(entry.name))
    return found


def _become(command: list[str], log: str, keeper: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)  # It died before we had asked to die with it.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.execvp(command[0], command)  # noqa: S606  (the engine, with the harness's own arguments)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
