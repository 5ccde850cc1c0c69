"""Doing something else beside a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio


@asynccontextmanager
async def beside(*duties: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something else as long as the block runs. A task group would wrap the block's exceptions."""
    tasks = [asyncio.create_task(duty) for duty in duties]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
