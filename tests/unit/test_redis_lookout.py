"""The one look that serves everybody who waits."""

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.jumping import in_no_time

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


async def looked_at(count: int, chance: random.Random | None) -> list[float]:
    """Return when a standby looked, of an office that somebody holds."""
    loop, moments_s, enough = asyncio.get_running_loop(), [], asyncio.Event()

    async def look(elections: Sequence[str]) -> dict[str, float]:
        moments_s.append(loop.time())
        if len(moments_s) == count:
            enough.set()
        return dict.fromkeys(elections, 1e6)

    lookout = Lookout(look, chance)
    waiting = asyncio.ensure_future(lookout.wait("held", 60.0))
    await enough.wait()
    await lookout.close()
    await waiting
    return moments_s[:count]


@pytest.mark.parametrize("seeds", [(1, 2), None], ids=["of two seeds", "as shipped"])
def test_no_two_standbys_look_at_the_same_moments_nor_one_in_a_steady_beat(seeds: tuple[int, int] | None) -> None:
    chances = [None, None] if seeds is None else [random.Random(seed) for seed in seeds]

    async def both() -> list[list[float]]:
        return await asyncio.gather(*(looked_at(21, chance) for chance in chances))

    one, other = in_no_time(both())
    for moments_s in (one, other):
        pauses_s = [round(later - sooner, 6) for sooner, later in pairwise(moments_s)]
        assert all(0.75 <= each_s <= 1 for each_s in pauses_s), pauses_s
        assert len(set(pauses_s)) > 10, pauses_s
    assert len({*one, *other}) > 30, (one, other)
