"""What peers written in Python on asyncio share: commands of stdin that run on their event loop."""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tests.peers.lines import obey

Act = Callable[[str], Coroutine[Any, Any, None]]


async def serve(acts: Mapping[str, Act]) -> None:
    """Obey commands until the end of stdin."""
    loop = asyncio.get_running_loop()

    def there(act: Act) -> Callable[[str], None]:
        return lambda argument: asyncio.run_coroutine_threadsafe(act(argument), loop).result()

    await asyncio.to_thread(obey, {command: there(act) for command, act in acts.items()})


def in_background(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Start a task that ends the program if it fails: its driver would wait for an event that cannot come."""

    def ended(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)
            os._exit(1)

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task
