"""A process of a test that speaks in lines of JSON, can be frozen, and ends when its stdin does."""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Self

from tenure.testing.engines.processes import wait_for

PATIENCE_S = 60


class Speaker:
    """One process and what it has said."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []
        self.frozen_at_s = 0.0
        self._has_ended = False
        self._news = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, module: str, *arguments: str) -> Self:
        command = [sys.executable, "-m", module, *arguments]
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()
        async with self._news:
            self._has_ended = True
            self._news.notify_all()

    async def says(self, above: int = 0, **due: Any) -> dict[str, Any]:
        """Return the first word that it has said since it was last frozen, or will say, with these parts and such a token."""

        def fits(word: dict[str, Any]) -> bool:
            return word["at_s"] >= self.frozen_at_s and word["token"] > above and word | due == word

        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._news.wait_for(lambda: self._has_ended or any(map(fits, self.said)))
            except TimeoutError:
                pass
        found = next(filter(fits, self.said), None)
        assert found is not None, f"nothing like {due} above {above} among {self.said[-20:]}"
        return found

    def stop(self) -> None:
        """Freeze it; on return none of its threads runs."""
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        assert wait_for(lambda: all(_state(thread) == "T" for thread in threads.iterdir()), PATIENCE_S)
        self.frozen_at_s = time.monotonic()

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        if not self._has_ended:
            self.go_on()
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()
        await self._listener


def _state(thread: Path) -> str:
    """What a thread does, as the kernel has it: the word behind its name, which stands in brackets."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]
