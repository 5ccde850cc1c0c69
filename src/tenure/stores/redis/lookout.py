"""Everybody of one store who waits, and the one look that serves them all. Runs on asyncio.

A look asks for all offices that somebody waits for, in one request. It comes when somebody begins to wait, when a lease would
end, and after ``poll`` seconds in any case: whoever is told of a release by a message is woken sooner, and nothing is lost if
a message is.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tenure.clients.upkeep import keep_up
from tenure.errors import StoreError

# Looks per ttl, for the shortest ttl of those who wait; and what that comes to at most, for long ones.
_LOOKS_PER_TTL: Final = 8
_LOOK_MAX_S: Final = 1.0
_SPREAD: Final = 0.25  # so that processes that began together do not look together
_AFTER_END_S: Final = 0.001  # The server counts whole milliseconds.

Look = Callable[[Sequence[str]], Awaitable[Mapping[str, float]]]
"""Says for each election in how many seconds its office may be free, 0 for one that is."""


class Lookout:
    """Used on one event loop. ``look`` asks the engine, and raises StoreError if it cannot."""

    def __init__(self, look: Look, chance: random.Random | None = None) -> None:
        self._look = look
        self._chance = chance or random.Random()
        self._waiting: dict[asyncio.Future[None], tuple[str, float]] = {}
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def wait(self, election: str, ttl_s: float) -> None:
        """Return when the office of ``election`` may be free. Raises StoreError if the engine cannot be asked."""
        if self._closed:
            return  # The next claim says so.
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = election, ttl_s
        self.nudge()
        if self._task is None:
            self._task = keep_up(self._run, "looking for offices that are free")
        try:
            await future
        finally:
            del self._waiting[future]

    def nudge(self) -> None:
        """Look now."""
        self._nudged.set()

    def left(self, election: str) -> None:
        """Wake whoever waits for this office: somebody has left it."""
        self._wake([election])

    async def close(self) -> None:
        """End it. Whoever waits is woken, and hears at its next claim that the store is closed."""
        self._closed = True
        self._wake([election for election, _ in self._waiting.values()])
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            self._nudged.clear()
            again_s = _LOOK_MAX_S
            if self._waiting:
                again_s = await self._look_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(again_s if self._waiting else None):
                    await self._nudged.wait()

    async def _look_once(self) -> float:
        """Look, wake whoever has reason to, and return when to look again, in seconds."""
        asked = sorted({election for election, _ in self._waiting.values()})
        try:
            left_s = await self._look(asked)
        except StoreError as error:
            for future, (election, _) in list(self._waiting.items()):
                if election in asked and not future.done():
                    future.set_exception(error)
                    future.exception()  # Whoever waits may be cancelled before it hears of it.
            return _LOOK_MAX_S
        self._wake([election for election in asked if left_s[election] <= 0])
        shortest_s = min((ttl_s for _, ttl_s in self._waiting.values()), default=_LOOK_MAX_S)
        poll_s = min(shortest_s / _LOOKS_PER_TTL, _LOOK_MAX_S) * self._chance.uniform(1 - _SPREAD, 1)
        return min(poll_s, *(s + _AFTER_END_S for s in left_s.values() if s > 0), _LOOK_MAX_S)

    def _wake(self, elections: Sequence[str]) -> None:
        for future, (election, _) in self._waiting.items():
            if election in elections and not future.done():
                future.set_result(None)
