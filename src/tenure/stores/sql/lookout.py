"""Those who wait for an office, and when they are told to claim again. Runs on asyncio.

Rules of this file
1. A wait is for the row as it is, not for a piece of news: whoever begins to wait has its row looked at, so nothing that
   happened before is missed.
2. One look is for all elections that somebody waits for. There is one at least every ``poll_s``, whatever was heard meanwhile: a
   notification may be lost, and a row that is deleted by hand notifies nobody.
3. No two processes look at the same moment for long: intervals have jitter. Whoever is told of a release claims at once: of many
   claims one writes, and the others read one row and lock nothing.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from tenure.clients.upkeep import keep_up
from tenure.errors import StoreError

_LEAST_S: Final = 0.005  # between two looks

Left = Callable[[list[str]], Awaitable[dict[str, int]]]


class Lookout:
    """Who waits for what, in one store. ``left`` says for how many nanoseconds each election is still held; 0: it is free."""

    def __init__(self, left: Left, poll_s: float) -> None:
        self._left, self._poll_s = left, poll_s
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, election: str) -> None:
        """Return when claiming may help. Raises StoreError if nobody can tell."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(election, set())
        waiting.add(told)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = keep_up(self._look, "looking for offices that are free")
        try:
            await told
        finally:
            waiting.discard(told)
            if not waiting and self._waiting.get(election) is waiting:
                del self._waiting[election]

    def hear(self, election: str) -> None:
        """Somebody has left this office."""
        _tell(self._waiting.get(election, ()))

    def hear_of_all(self) -> None:
        """News may have been missed: look now."""
        self._news.set()

    async def end(self, reason: StoreError) -> None:
        """Look no more. Whoever still waits is told why."""
        for waiting in self._waiting.values():
            _fail(waiting, reason)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        while self._waiting:
            self._news.clear()
            try:
                left = await self._left(list(self._waiting))
            except StoreError as error:
                for waiting in self._waiting.values():
                    _fail(waiting, error)
                left = {}
            for election, left_ns in left.items():
                if left_ns <= 0:
                    _tell(self._waiting.get(election, ()))
            await self._pause(pause_s(self._poll_s, left.values(), random.random()))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


def pause_s(poll_s: float, left_ns: Iterable[int], chance: float) -> float:
    """Return how long to wait until the next look. ``chance`` is drawn between 0 and 1.

    That is by chance up to half of ``poll_s`` sooner, so that nobody waits longer than was said; and no longer than until the
    first of these leases ends.
    """
    longest_s = poll_s * (1 + chance) / 2
    soonest_s = min((ns / 1e9 for ns in left_ns if ns > 0), default=longest_s)
    return max(_LEAST_S, min(longest_s, soonest_s))


def _tell(waiting: Iterable["asyncio.Future[None]"]) -> None:
    for told in waiting:
        if not told.done():
            told.set_result(None)


def _fail(waiting: Iterable["asyncio.Future[None]"], error: StoreError) -> None:
    for told in waiting:
        if not told.done():
            told.set_exception(error)
