"""Jobs that are Python functions: awaited on the loop, or called in a thread."""

import asyncio
import traceback
from contextlib import suppress
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from threading import Event
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread

from tenure.apps.cron.jobs import Callback, Run
from tenure.apps.cron.outcome import Outcome
from tenure.errors import redact


class Calls:
    """Calls functions. Of its threads there are as many as runs at once: a ledger has others, and is not kept waiting."""

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)

    async def run(self, function: Callback, run: Run, timeout_s: float | None) -> Outcome:
        """Call a function to its end, and say how it ended. One that is async is cancelled when its time is up.

        Cancellation waits for the function: nothing can end a thread.
        """
        lost = Event()
        task = asyncio.ensure_future(self._call(function, run, lost))
        try:
            done, _ = await asyncio.wait([task], timeout=timeout_s)
            if not done:
                task.cancel()
                await asyncio.wait([task])
        except asyncio.CancelledError:
            lost.set()
            # Not if it is in a thread: that would only leave the thread behind, and the office would be handed on while it goes on.
            if iscoroutinefunction(function):
                task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            _pass_over(task)
            raise
        if not done:
            _pass_over(task)
            return Outcome(f"took longer than {timeout_s:g} s")
        if task.cancelled():
            return Outcome("cancelled itself")
        error = task.exception()
        return Outcome() if error is None else Outcome(_told(error), tail=_trace(error))

    async def _call(self, function: Callback, run: Run, lost: Event) -> None:
        def unless_lost() -> Any:
            return None if lost.is_set() else function(run)  # It may take a moment until there is a thread.

        try:
            if iscoroutinefunction(function):
                await function(run)
                return
            result: Any = await to_thread.run_sync(unless_lost, limiter=self._threads)
        except SystemExit as leaving:  # It would take the event loop with it.
            raise RuntimeError(f"it called sys.exit({leaving.code!r})") from None
        if isawaitable(result):  # Nobody has awaited it, so nothing was done.
            if iscoroutine(result):
                result.close()
            raise TypeError(f"it returned a {type(result).__name__}: a function that awaits must be declared async")


def _pass_over(task: "asyncio.Future[None]") -> None:
    with suppress(asyncio.CancelledError):
        task.exception()  # It was asked for, so that nobody complains that it was not.


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _trace(error: BaseException) -> str:
    return "\n".join(redact(line) for line in "".join(traceback.format_exception(error)).splitlines())
