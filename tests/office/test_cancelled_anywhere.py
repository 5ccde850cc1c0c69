"""Cancellation at any moment, by asyncio's own means, which know no shield."""

import asyncio
import random

from tenure.election import Election
from tenure.errors import OutcomeUnknown, TenureOver
from tenure.lock import Lock
from tenure.model import Bid, Grant, Token, Wait
from tenure.office import desk
from tenure.stores.memory import MemoryStore


class Slow(MemoryStore):
    """Takes its time, and loses an answer now and then; by one seed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._random = chance

    async def _take_time(self) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.004, 0.01]))
        if self._random.random() < 0.05:
            raise OutcomeUnknown(self.address, "request")

    async def claim(self, bid: Bid) -> Grant | Wait:
        await self._take_time()
        answer = await super().claim(bid)
        await self._take_time()
        return answer

    async def release(self, bid: Bid) -> None:
        await self._take_time()
        await super().release(bid)
        await self._take_time()


class Sink:
    async def seal(self, fence: str, token: Token) -> None:
        del fence, token
        await asyncio.sleep(0.001)


async def use(store: Slow, election: str, chance: random.Random) -> None:
    lock = Lock(store, election, ttl=0.4)
    match chance.choice(["lead", "once", "block", "acquire"]):
        case "lead":
            await Election(store, election, ttl=0.4).lead(lambda _: asyncio.sleep(0.005), sinks=[Sink()])
        case "once":
            async with Election(store, election, ttl=0.4).once([Sink()]):
                await asyncio.sleep(0.005)
        case "block":
            async with lock:
                await asyncio.sleep(0.005)
        case _:
            if await lock.acquire(timeout=chance.choice([0, 0.005, 0.02])):
                await lock.release()


async def use_and_cancel(store: Slow, chance: random.Random) -> None:
    tasks = [asyncio.create_task(use(store, f"fuzz/{number % 7}", chance)) for number in range(30)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.003)
        chance.choice(tasks).cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert outcome is None or isinstance(outcome, asyncio.CancelledError | OutcomeUnknown | TenureOver)


def test_tasks_that_are_cancelled_at_any_moment_leave_nothing_behind() -> None:
    chance = random.Random(7)
    store = Slow(chance)

    async def main() -> None:
        for _ in range(10):
            await use_and_cancel(store, chance)
        async with asyncio.timeout(10):
            for number in range(7):
                while await Election(store, f"fuzz/{number}").incumbent() is not None:
                    await asyncio.sleep(0.01)

    asyncio.run(main())
    assert not [bid for bids in desk._TAKEN.values() for bid in bids if bid.election.startswith("fuzz/")]
