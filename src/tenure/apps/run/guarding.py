"""The supervisor's end of its guardian: start it, tell it, and dismiss it if it does not answer."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from typing import Final

from tenure.apps.run import guardian
from tenure.apps.run.child import CannotStart, Child, script
from tenure.apps.run.reaper import Reaper

# A healthy one answers within a millisecond, but a busy machine may keep it waiting. Nothing else is held up meanwhile:
# the supervisor has a timer of its own.
_ANSWER_WITHIN_S: Final = 1.0
_START_WITHIN_S: Final = 10.0


class Guardian:
    """One guardian, and another one after it if need be. Used by one task at a time."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._process: Child | None = None
        self._line: socket.socket | None = None

    async def guard(self, group: int, deadline_ns: int) -> bool:
        """Have the group killed if this process dies, or gives no later deadline in time. False: there was no answer."""
        return await self._tell(f"{group} {deadline_ns}\n".encode())

    async def withdraw(self) -> bool:
        """Return when the guardian cannot kill the group any more: only then may the leader of the group be reaped.

        One that does not answer is dead by then, and the answer is False.
        """
        return await self._tell(b"0 0\n")

    def close(self) -> None:
        """Let the guardian end."""
        if self._line is not None:
            self._line.close()

    async def _tell(self, said: bytes) -> bool:
        loop = asyncio.get_running_loop()
        within_s = _START_WITHIN_S if self._line is None else _ANSWER_WITHIN_S
        with suppress(CannotStart, OSError, TimeoutError):
            line = self._line or self._start()
            async with asyncio.timeout(within_s):
                await loop.sock_sendall(line, said)
                if await loop.sock_recv(line, 1):
                    return True
        self._dismiss()
        return False

    def _start(self) -> socket.socket:
        line, theirs = socket.socketpair()
        line.setblocking(False)
        with theirs:
            nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
            files = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *nowhere]
            everything = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
            process = Child(self._reaper, script(guardian.__file__), os.environ, file_actions=files, blocked=everything)
        process.ended.add_done_callback(lambda _: process.reap())
        self._process, self._line = process, line
        return line

    def _dismiss(self) -> None:
        # Killed before its line is closed: one that was only frozen would take the end of it for our death.
        if self._process is not None and self._line is not None:
            self._process.kill()
            self._line.close()
            self._process = self._line = None
