"""The supervisor's end of its guardian: start it, tell it, and dismiss it if it does not answer."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
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
    """One guardian, and another one after it if need be."""

    def __init__(self, reaper: Reaper, *words: str) -> None:
        """Each one that is started is given these ``words``: the names of the ready file, if there is one."""
        self._reaper, self._words = reaper, words
        self._process: Child | None = None
        self._line: socket.socket | None = None
        self._one_at_a_time = asyncio.Lock()

    async def tell(self, what: Callable[[], tuple[bool, Mapping[int, int]]]) -> bool:
        """Say whether the ready file is to be shown, and which groups are to be killed if this process dies, or gives no later deadline.

        Returns when that is in force: only then may the leader of a group be reaped that is no longer among them. ``what``
        is called when it is about to be said. A guardian that does not answer is dead by then, and the answer is False if the next
        one does not answer either.
        """
        async with self._one_at_a_time:
            for _ in range(2):
                # Asked anew for the second one: what was true a second ago may be over.
                show, deadlines_ns = what()
                words = (f"{group} {deadline_ns}" for group, deadline_ns in deadlines_ns.items())
                if await self._tell(f"{show:d} {' '.join(words)}\n".encode()):
                    return True
            return False

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
            words = script(guardian.__file__, *self._words)
            process = Child(self._reaper, words, os.environ, file_actions=files, blocked=everything)
        process.ended.add_done_callback(lambda _: process.reap())
        self._process, self._line = process, line
        return line

    def _dismiss(self) -> None:
        # Killed before its line is closed: one that was only frozen would take the end of it for our death.
        if self._process is not None and self._line is not None:
            self._process.kill()
            self._line.close()
            self._process = self._line = None
