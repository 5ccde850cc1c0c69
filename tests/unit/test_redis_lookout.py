"""The one look that serves everybody who waits."""

import asyncio
from collections.abc import Sequence

import pytest

from tenure.errors import Unreachable
from tenure.stores.redis.lookout import Lookout


class Engine:
    """Offices, and in how many seconds each may be free."""

    def __init__(self) -> None:
        self.left_s: dict[str, float] = {}
        self.looks: list[list[str]] = []
        self.looked = asyncio.Event()
        self.error: Unreachable | None = None

    async def look(self, elections: Sequence[str]) -> dict[str, float]:
        self.looks.append(list(elections))
        self.looked.set()
        if self.error is not None:
            raise self.error
        return {election: self.left_s.get(election, 0.0) for election in elections}


def test_a_free_office_wakes_at_once_and_all_are_looked_at_together() -> None:
    async def run() -> None:
        engine = Engine()
        lookout = Lookout(engine.look)
        engine.left_s = {"held": 60.0}
        waiting = [asyncio.create_task(lookout.wait(name, 60.0)) for name in ("free", "held", "held")]
        await waiting[0]
        assert engine.looks[0] == ["free", "held"]
        assert not any(task.done() for task in waiting[1:])
        lookout.left("held")
        await asyncio.gather(*waiting[1:])
        await lookout.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_an_office_that_ends_is_looked_at_when_it_ends_and_no_message_is_needed() -> None:
    async def run() -> int:
        engine = Engine()
        lookout = Lookout(engine.look)
        engine.left_s = {"held": 0.05}
        waiting = asyncio.create_task(lookout.wait("held", 600.0))
        await engine.looked.wait()
        engine.left_s = {}
        await waiting
        await lookout.close()
        return len(engine.looks)

    assert asyncio.run(asyncio.wait_for(run(), 30)) == 2


def test_an_engine_that_cannot_be_asked_is_told_to_whoever_waits_and_asked_again_for_the_next() -> None:
    async def run() -> None:
        engine = Engine()
        lookout = Lookout(engine.look)
        engine.error = Unreachable("redis://h", "changed", "gone")
        with pytest.raises(Unreachable):
            await lookout.wait("x", 60.0)
        engine.error = None
        await lookout.wait("x", 60.0)
        await lookout.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_closing_wakes_whoever_waits_and_nobody_waits_afterwards() -> None:
    async def run() -> bool:
        engine = Engine()
        lookout = Lookout(engine.look)
        engine.left_s = {"held": 60.0}
        waiting = asyncio.create_task(lookout.wait("held", 60.0))
        await engine.looked.wait()
        await lookout.close()
        await waiting
        await lookout.wait("held", 60.0)
        return waiting.done()

    assert asyncio.run(asyncio.wait_for(run(), 30))
