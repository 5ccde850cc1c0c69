"""A pool with one connection in it that was used just now."""

from types import SimpleNamespace
from typing import Any

from tenure.sinks.sql.on_loop import LoopSink


async def warm(sink: LoopSink[Any], term: SimpleNamespace) -> Any:
    """Have a connection in the pool on which the next transaction may begin late, and return it: not what a block is given of it."""
    async with sink.transaction(term):
        pass
    return sink._idle[-1].raw
