"""From one event loop of asyncio to the office's and back: what is awaited here runs there.

``asyncio.run_coroutine_threadsafe`` does the same for any thread, by a future with locks that a second one is chained to, and it takes
half as long again (``bench/update.py``, where most of what is ours is the way there and back).
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import Context
from typing import Any, Generic, TypeVar

from tenure.errors import ConfigError
from tenure.office.thread import Office

T = TypeVar("T")


class Crossing(Generic[T]):
    """One coroutine on the office's loop, for one task of another loop. Made and awaited on that one."""

    __slots__ = ("_answer", "_coroutine", "_home", "_office", "_task")
    _task: "asyncio.Task[T]"

    def __init__(self, office: Office, coroutine: Coroutine[Any, Any, T]) -> None:
        self._office, self._coroutine = office, coroutine
        self._home = asyncio.get_running_loop()
        self._answer: asyncio.Future[T] = self._home.create_future()

    async def answer(self) -> T:
        """Return what the coroutine returns, or raise what it raises. If this is cancelled, so is the coroutine, and not awaited."""
        begun = False
        try:
            self._office.check_open()
            # In an empty context: the caller's would come along, and with it, for one, the word that this thread runs trio.
            self._office.loop.call_soon_threadsafe(self._begin, context=Context())
            begun = True
        finally:
            if not begun:
                self._coroutine.close()
        arrived = False
        try:
            result = await self._answer
            arrived = True
        finally:
            if not arrived:
                with suppress(ConfigError):  # The office has ended, and with it whatever ran there.
                    self._office.call(self._cancel)
        return result

    # On the office's loop

    def _begin(self) -> None:
        self._task = self._office.loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        self._task.cancel()  # does nothing to one that is done; it has begun, since that was called before this

    def _ended(self, task: "asyncio.Task[T]") -> None:
        with suppress(RuntimeError):  # The loop at home is closed, and nobody waits there any more.
            self._home.call_soon_threadsafe(self._arrived, task)

    # At home

    def _arrived(self, task: "asyncio.Task[T]") -> None:
        # Looked at in any case: what nobody has looked at is logged as an error that was never retrieved.
        error = CancelledError() if task.cancelled() else task.exception()
        if self._answer.done():
            return
        if error is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(task.result())
