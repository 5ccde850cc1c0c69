"""The way from the office's thread to where the user called: an event loop (asyncio or trio), or a plain thread."""

import sys
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

import anyio

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Mailbox(Protocol[T_contra]):
    """Where the office leaves its letters."""

    def put(self, letter: T_contra, /) -> None:
        """Leave a letter; from any thread, at once."""
        ...


class LoopMailbox(Generic[T]):
    """Letters for a task of the event loop on which this was made. One reader; letters come in the order they were put."""

    def __init__(self) -> None:
        self._letters: list[T] = []  # never more than a few
        self._news: anyio.Event | None = None  # what the reader waits for, while it does
        self._call_soon = _call_soon_of_this_loop()

    def put(self, letter: T, /) -> None:
        """Leave a letter. If the reader's loop has ended, nobody reads it."""
        self._letters.append(letter)
        self.call(self._tell)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the reader's loop, soon, whether or not it reads its letters."""
        with suppress(RuntimeError):  # the loop is closed
            self._call_soon(function)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()

    async def get(self) -> T:
        """Return the next letter. A call that is cancelled takes none."""
        while not self._letters:
            self._news = anyio.Event()
            await self._news.wait()
        self._news = None
        return self._letters.pop(0)


class ThreadMailbox(Generic[T]):
    """Letters for the thread that calls ``get``."""

    def __init__(self) -> None:
        self._letters: SimpleQueue[T] = SimpleQueue()
        self.put = self._letters.put

    def get(self, within_s: float | None = None) -> T | None:
        """Return the next letter, or None if none came ``within_s``."""
        try:
            return self._letters.get(timeout=within_s)
        except Empty:
            return None


def _call_soon_of_this_loop() -> Callable[[Callable[[], object]], object]:
    # Without importing trio: a program that runs on it has done so.
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        call_soon: Callable[[Callable[[], object]], object] = trio.lowlevel.current_trio_token().run_sync_soon
        return call_soon
    import asyncio  # noqa: PLC0415  (not before it is used)

    return asyncio.get_running_loop().call_soon_threadsafe
