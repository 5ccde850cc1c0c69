"""Health: a command of the user's that says whether this machine should lead."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from tenure.apps.run.beside import beside
from tenure.apps.run.child import CannotStart, Child
from tenure.apps.run.reaper import Reaper

_SHELL: Final = "/bin/sh"
_NOWHERE: Final = [
    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
]


class Health:
    """Asks once per heartbeat, when somebody wants to know."""

    def __init__(self, check: str, heartbeat_s: float, reaper: Reaper) -> None:
        self._check, self._heartbeat_s, self._reaper = check, heartbeat_s, reaper

    async def until(self, *, good: bool) -> str:
        """Return when the check succeeds (``good``) or fails, with what is wrong."""
        while True:
            trouble = await self.trouble()
            if (trouble == "") is good:
                return trouble
            await anyio.sleep(self._heartbeat_s)

    async def trouble(self) -> str:
        """Run the check once and return what is wrong, or an empty string."""
        try:
            child = Child(self._reaper, [_SHELL, "-c", self._check], os.environ, file_actions=_NOWHERE)
        except CannotStart as error:
            return str(error)
        try:
            # Not wait_for, which would cancel the future.
            done, _ = await asyncio.wait([child.ended], timeout=self._heartbeat_s)
        finally:
            with anyio.CancelScope(shield=True):
                code = await child.end()  # and with it what the check has left behind
        if not done:
            return f"took longer than {self._heartbeat_s:g} s"
        return f"exited with {code}" if code else ""


class Fitness:
    """Stands only while the check succeeds; without a check, at any time."""

    def __init__(self, health: Health | None, election: str, say: Callable[..., None]) -> None:
        self._health, self._election, self._tell = health, election, say
        self.is_fit = True

    async def stand(self, lead: Callable[[], Awaitable[int | None]], withdraw: Callable[[], None]) -> int:
        """Return the exit code of ``lead``, which is called whenever we are fit; ``withdraw`` has it return None soon."""
        health = self._health
        while True:
            if health is not None:
                await self._wait(health)
            async with beside(*([] if health is None else [self._withdraw_when_ill(health, withdraw)])):
                code = await lead()
            if code is not None:
                return code

    async def _wait(self, health: Health) -> None:
        trouble = await health.trouble()
        if trouble:
            self.is_fit = False
            self._say("unhealthy", f"not standing for {self._election}: the health check {trouble}")
            await health.until(good=True)
            self.is_fit = True
            self._say("healthy", f"standing for {self._election}: the health check succeeds")

    async def _withdraw_when_ill(self, health: Health, withdraw: Callable[[], None]) -> None:
        trouble = await health.until(good=False)
        self._say("unhealthy", f"withdrawing from {self._election}: the health check {trouble}")
        withdraw()

    def _say(self, event: str, text: str) -> None:
        self._tell(event, text, election=self._election)
