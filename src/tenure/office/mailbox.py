"""The way from the office's thread to where the user called: an event loop (asyncio or trio), or a plain thread."""

import sys
from collections.abc import Callable
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import anyio

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_SLOTS_OF_SUBCLASSES: Final[tuple[str, ...]] = ()


class Letters(Generic[T]):
    """Letters for a task of an event loop. One reader; letters come in the order they were put, from any thread.

    The loop is the one on which they were first expected, or the last one on which somebody read: a lock may be acquired
    under one ``asyncio.run`` and released under the next. Who gets letters has these slots among its own: ten thousand
    leaders would otherwise have a mailbox each, and nothing in it.
    """

    __slots__ = _SLOTS_OF_SUBCLASSES
    letters: list[T]  # never more than a few
    _news: "anyio.Event | asyncio.Future[None] | None"  # what the reader waits for, while it does
    _loop: "_Loop"

    def expect_letters(self) -> None:
        """From now on letters may come; to be called on the reader's loop."""
        self.letters, self._news, self._loop = [], None, _this_loop()

    def abandoned(self) -> None:
        """The loop is closed: nobody will read any more."""

    def put(self, letter: T, /) -> None:
        """Leave a letter."""
        self.letters.append(letter)
        self.call(self._tell)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the reader's loop, soon, whether or not it reads its letters."""
        try:
            self._loop.call_soon(function)
        except RuntimeError:  # the loop is closed
            self.abandoned()

    def look_after(self) -> None:
        """Say so if the loop has been closed meanwhile."""
        if self._loop.is_closed():
            self.abandoned()

    def _tell(self) -> None:
        news = self._news
        if isinstance(news, anyio.Event):
            news.set()
        elif news is not None and not news.done():
            news.set_result(None)

    async def get(self) -> T:
        """Return the next letter. A call that is cancelled takes none."""
        self._loop = _this_loop()  # before the look: who puts a letter from now on tells this loop
        while not self.letters:
            if self._loop.future is None:
                self._news = anyio.Event()
                await self._news.wait()
            else:  # A third of what anyio's event takes, and a lock waits for three letters.
                self._news = self._loop.future()
                await self._news
        self._news = None
        return self.letters.pop(0)


class LoopMailbox(Letters[T]):
    """A place for letters, and no more."""

    __slots__ = ("_loop", "_news", "letters")

    def __init__(self) -> None:
        self.expect_letters()


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


class _Loop(NamedTuple):
    call_soon: Callable[[Callable[[], object]], object]
    is_closed: Callable[[], bool]
    future: "Callable[[], asyncio.Future[None]] | None" = None  # of asyncio


def on_trio() -> bool:
    """Say whether the caller runs on trio, and not on asyncio."""
    # Without importing it: a program that runs on it has done so.
    trio = sys.modules.get("trio")
    return trio is not None and trio.lowlevel.in_trio_run()


def _this_loop() -> _Loop:
    if on_trio():
        trio = sys.modules["trio"]
        return _trio_loop(trio, trio.lowlevel.current_trio_token())
    import asyncio  # noqa: PLC0415  (not before it is used)

    return _asyncio_loop(asyncio.get_running_loop())


# Ten thousand elections on one loop share one of these. The last one used is kept, and with it a loop that may be closed.
@lru_cache(maxsize=1)
def _asyncio_loop(loop: "asyncio.AbstractEventLoop") -> _Loop:
    return _Loop(loop.call_soon_threadsafe, loop.is_closed, loop.create_future)


@lru_cache(maxsize=1)
def _trio_loop(trio: Any, token: Any) -> _Loop:
    call_soon = token.run_sync_soon

    def is_over() -> bool:
        try:
            call_soon(_nothing, idempotent=True)
        except trio.RunFinishedError:
            return True
        return False

    return _Loop(call_soon, is_over)


def _nothing() -> None:
    pass
