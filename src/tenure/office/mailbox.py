"""The way from the office's thread to where the user called: an event loop (asyncio or trio), or a plain thread."""

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class LoopMailbox(Generic[T]):
    """Letters for a task of the event loop on which this was made. One reader; letters come in the order they were put."""

    def __init__(self) -> None:
        self._letters: deque[T] = deque()
        self._news = anyio.Event()
        self._call_soon = _call_soon_of_this_loop()

    def put(self, letter: T) -> None:
        """Leave a letter; from any thread, at once. If the reader's loop has ended, nobody reads it."""
        self._letters.append(letter)
        with suppress(RuntimeError):
            self._call_soon(self._tell)

    def _tell(self) -> None:
        self._news.set()

    async def get(self) -> T:
        """Return the next letter. A call that is cancelled takes none."""
        while not self._letters:
            self._news = anyio.Event()
            await self._news.wait()
        return self._letters.popleft()


class ThreadMailbox(Generic[T]):
    """Letters for the thread that calls ``get``."""

    def __init__(self) -> None:
        self._letters: SimpleQueue[T] = SimpleQueue()
        self.put = self._letters.put
        self.get = self._letters.get


def _call_soon_of_this_loop() -> Callable[[Callable[[], None]], object]:
    # Without importing trio: a program that runs on it has done so.
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        call_soon: Callable[[Callable[[], None]], object] = trio.lowlevel.current_trio_token().run_sync_soon
        return call_soon
    import asyncio  # noqa: PLC0415  (not before it is used)

    return asyncio.get_running_loop().call_soon_threadsafe
