"""A child and its process group: found, started, signalled, reaped."""

import asyncio
import errno
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenure.apps.run import starter
from tenure.apps.run.reaper import SIGNALLED, Reaper

NOT_EXECUTABLE: Final = 126  # These two are what a shell says.
NOT_FOUND: Final = 127
# What the supervisor, or the interpreter that it runs in, ignores. An ignored signal would stay so in the child.
_BACK_TO_DEFAULT: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)
_ERRNO_BYTES_MAX: Final = 16
_LOOK_EVERY_S: Final = 0.005  # The kernel takes a millisecond or so to end a process that was killed.


class CannotStart(Exception):
    """A command cannot be run. ``code`` is what a shell would exit with."""

    def __init__(self, command: str, code: int, detail: str) -> None:
        self.command, self.code, self.detail = command, code, detail
        super().__init__(command, code, detail)

    def __str__(self) -> str:
        # The name comes last: "passwd: " in front of a word would be taken for a password, and hide it.
        return f"{self.detail}: {self.command}"


def check_command(command: str) -> None:
    """Raise CannotStart for a command that is not there or not executable, before anything else is done."""
    if shutil.which(command) is None:
        there = shutil.which(command, mode=os.F_OK) is not None or ("/" in command and Path(command).exists())
        code, detail = (NOT_EXECUTABLE, "not executable") if there else (NOT_FOUND, "command not found")
        raise CannotStart(command, code, detail)


def open_standard_files() -> None:
    """Open what was closed when we were started. Else a file of ours would get its number, and the command's output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def script(path: str, *arguments: str) -> list[str]:
    """Return the command line that runs one of our scripts, isolated from the user's Python and quick to start."""
    return [sys.executable, "-I", "-S", path, *arguments]


class Child:
    """A process that leads a group of its own. Both numbers are its own until it is reaped."""

    def __init__(
        self,
        reaper: Reaper,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        file_actions: Iterable[tuple[Any, ...]] = (),
        blocked: Iterable[signal.Signals] = (),
    ) -> None:
        """Start ``arguments``, of which the first is a path, with these signals blocked. Raises CannotStart."""
        try:
            # Not fork: the office's thread may hold any lock at this moment, and the fork would have it for ever.
            self.pid = os.posix_spawn(
                arguments[0],
                list(arguments),
                environment,
                file_actions=tuple(file_actions),
                setpgroup=0,
                setsigmask=tuple(blocked),
                setsigdef=_BACK_TO_DEFAULT,
            )
        except OSError as error:
            raise CannotStart(arguments[0], NOT_EXECUTABLE, f"cannot start ({error.strerror})") from None
        self._reaper = reaper
        self._reaped = False
        self.ended = reaper.expect(self.pid)

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        self._send(-self.pid, number)

    def kill(self) -> None:
        """Kill the whole group, and the child itself wherever it is: it may have left its own group."""
        self._send(-self.pid, signal.SIGKILL)
        self._send(self.pid, signal.SIGKILL)

    def _send(self, target: int, number: int) -> None:
        # Once reaped, the number may be another's. Zombies cannot be signalled on some systems (EPERM on macOS).
        if not self._reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(target, number)

    def reap(self) -> int:
        """Take note of the end of the child and return its exit code. Signals are refused from here on."""
        self._reaped = True
        self._reaper.reap(self.pid)
        return self.ended.result()

    async def end(self) -> int:
        """Kill whatever runs, wait for the child and return its exit code."""
        self.kill()
        await asyncio.wait([self.ended])
        return self.reap()

    async def group_gone(self, within_s: float) -> None:
        """After the kill: return when no process of the group is left. Some may take a while, deep in the kernel."""
        with suppress(ProcessLookupError, TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    with suppress(PermissionError):
                        os.killpg(self.pid, 0)
                    await asyncio.sleep(_LOOK_EVERY_S)


class Command(Child):
    """The user's command: a starter that stands at a gate, until ``go``."""

    def __init__(
        self,
        reaper: Reaper,
        command: Sequence[str],
        environment: Mapping[str, str],
        blocked: Iterable[signal.Signals],
        files: Iterable[tuple[Any, ...]] = (),
    ) -> None:
        self.name = command[0]
        self._gate, theirs = socket.socketpair()
        self._gate.setblocking(False)
        with theirs:
            theirs.set_inheritable(True)
            arguments = script(starter.__file__, str(theirs.fileno()), *command)
            super().__init__(reaper, arguments, environment, file_actions=files, blocked=blocked)

    async def go(self) -> CannotStart | None:
        """Open the gate; return when the command runs, or has ended, or why it cannot be run."""
        loop, said = asyncio.get_running_loop(), b""
        with self._gate, suppress(ConnectionError):  # The starter has been killed: its end will be noticed.
            await loop.sock_sendall(self._gate, b".")
            while more := await loop.sock_recv(self._gate, _ERRNO_BYTES_MAX):
                said += more
        if not said and await self.ended < SIGNALLED:  # It has ended by itself, and never was the command.
            return CannotStart(self.name, NOT_EXECUTABLE, "tenure's own starter does not run, so it cannot start")
        if number := said[1:]:
            code = NOT_FOUND if int(number) == errno.ENOENT else NOT_EXECUTABLE
            return CannotStart(self.name, code, f"cannot execute ({os.strerror(int(number))})")
        return None
