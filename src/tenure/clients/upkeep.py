"""Tasks that others live by: whatever ends one unforeseen, it is begun anew, and somebody hears why.

Who waits for what such a task finds out does not notice that it has ended, and would wait for ever. Renewals need no such care: each is
asked for by itself, and one that is not answered costs the office. Nobody asks again for being woken.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from tenure.errors import redact

_LOG: Final = logging.getLogger("tenure")
_AGAIN_S: Final = (0.5, 5.0)  # how soon it is begun anew, at first and at most
_LASTED_S: Final = 60.0  # What has run for this long is begun anew as soon as at first.

Work = Callable[[], Coroutine[Any, Any, None]]


def keep_up(work: Work, name: str) -> "asyncio.Task[None]":
    """Run ``work`` until it returns or its task is cancelled, and again after whatever else it does. ``name`` is for the log."""
    return asyncio.get_running_loop().create_task(_kept_up(work, name), name=name)


async def failure_of(call: Awaitable[object]) -> Exception | None:
    """Return what it raised, whatever that is; None: nothing. Not if it, or who awaits it, is cancelled: that goes on.

    What users have written may raise what it likes. So does a system that has no thread left, or no file, and has some again a moment later.
    """
    try:
        await call
    except Exception as error:  # noqa: BLE001
        return error
    return None


async def _kept_up(work: Work, name: str) -> None:
    # The work is awaited here and not in a task of its own: who finds this one not ended may rely on it that the work is not either.
    loop, task, (shortest_s, longest_s) = asyncio.get_running_loop(), asyncio.current_task(), _AGAIN_S
    again_s, said = shortest_s, ""
    while True:
        began_s = loop.time()
        try:
            failure: BaseException | None = await failure_of(work())
        except asyncio.CancelledError as error:  # Of something that was cancelled elsewhere, if we are not.
            failure = error
        if failure is None or (task is not None and task.cancelling()):  # Whatever it raised as it was cancelled.
            return
        if loop.time() - began_s > _LASTED_S:
            again_s, said = shortest_s, ""
        if said != repr(failure):  # Once: one that fails for good would fill the log.
            said = repr(failure)
            _LOG.error("%s has failed%s, and is begun anew: %s", name, _place_of(failure), redact(said))
        await asyncio.sleep(again_s)
        again_s = min(again_s * 2, longest_s)


def _place_of(failure: BaseException) -> str:
    """Say where it was raised. The whole way there would show what others have written, and what of that is secret nobody knows."""
    frames = traceback.extract_tb(failure.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
