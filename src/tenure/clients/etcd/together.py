"""What several callers wait for together, each for as long as it likes: it goes on also if none of them waits any more."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from tenure.clients.etcd.stream import NotSent

T = TypeVar("T")


class Together(Generic[T]):
    """One piece of work at a time, which whoever comes meanwhile shares. It needs a deadline of its own."""

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    async def result(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for what is under way, or begin it. Raises ``NotSent`` if it was ended by ``end``."""
        task = self._task
        if task is None:
            task = self._task = asyncio.get_running_loop().create_task(begin())
            task.add_done_callback(self._ended)
        await asyncio.wait([task])  # Unlike a shield, this tells who was cancelled: the caller, or the work.
        if task.cancelled():
            raise NotSent("the client was closed meanwhile")
        return task.result()

    def _ended(self, task: "asyncio.Task[T]") -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # Whoever began it may be gone, and then nobody else will ask.

    async def end(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
