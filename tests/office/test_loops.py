"""Schedules of event loops that are blocked, closed or left in the middle: no office is held for those who do no work."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from tenure.election import Election
from tenure.errors import TenureOver, Unreachable
from tenure.model import Bid, Ended, Grant, Token, Wait
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryEngine, MemoryStore

On = Callable[[Callable[[], Awaitable[None]]], None]


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


async def until_free(engine: MemoryEngine, election: str = "x") -> None:
    while engine.read(election, now()) is not None:
        await anyio.sleep(0.01)


def test_a_standby_whose_loop_is_blocked_keeps_nobody_from_the_office(on: On) -> None:
    engine, blocked, over = MemoryEngine(), threading.Event(), threading.Event()

    async def stand_and_block() -> None:
        async def body(_: Tenure) -> None:
            pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Election(MemoryStore(engine), "x", ttl=1).lead, body)
            await anyio.sleep(0.5)  # It stands by the end of this, or is late and shows nothing.
            blocked.set()
            over.wait(60)

    async def test() -> None:
        stuck = threading.Thread(target=asyncio.run, args=(stand_and_block(),))
        async with Election(MemoryStore(engine), "x", ttl=4).once():
            stuck.start()
            await anyio.to_thread.run_sync(blocked.wait)
        # Whoever takes the office for the one that is blocked gives it up before its lease is over, every time.
        with anyio.fail_after(30):
            async with Election(MemoryStore(engine), "x", ttl=4).once() as term:
                assert term.valid
                assert not over.is_set()
        over.set()
        await anyio.to_thread.run_sync(stuck.join)

    on(test)


def test_an_office_that_was_taken_for_a_loop_that_is_blocked_since_is_given_up(on: On) -> None:
    engine, asked, blocked, over = MemoryEngine(), threading.Event(), threading.Event(), threading.Event()

    class GrantsTheBlocked(MemoryStore):
        """Its first answer comes when whoever asked can do nothing any more."""

        async def claim(self, bid: Bid) -> Grant | Wait:
            asked.set()
            await asyncio.to_thread(blocked.wait)
            return await super().claim(bid)

    async def stand_and_block() -> None:
        async def body(_: Tenure) -> None:
            pass

        standing = asyncio.ensure_future(Election(GrantsTheBlocked(engine), "x", ttl=1).lead(body))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        blocked.set()
        over.wait(60)
        await standing

    async def test() -> None:
        stuck = threading.Thread(target=lambda: asyncio.run(stand_and_block()))
        stuck.start()
        while engine.read("x", now()) is None:
            await anyio.sleep(0.001)
        with anyio.fail_after(30):
            async with Election(MemoryStore(engine), "x", ttl=4).once() as term:
                assert (term.token, over.is_set()) == (2, False)
        over.set()
        await anyio.to_thread.run_sync(stuck.join)

    on(test)


@pytest.mark.parametrize("way", ["lead", "once"])
def test_nothing_begins_in_a_tenure_that_ended_while_its_loop_was_blocked(way: str) -> None:
    engine, blocked, succeeded, begun = MemoryEngine(), threading.Event(), threading.Event(), list[int]()

    class Mute(MemoryStore):
        """Nobody can renew here, so that an office lasts as long as its first lease."""

        async def renew(self, grant: Grant) -> Grant | Ended:
            raise Unreachable(self.address, "renew", f"nobody hears of {grant.token}")

    class Blocking:
        """Once it is sealed, its loop comes to nothing more until somebody else is in office."""

        async def seal(self, fence: str, token: Token) -> None:  # noqa: ARG002
            if not blocked.is_set():
                asyncio.get_running_loop().call_soon(succeeded.wait, 60)
                blocked.set()

    async def late() -> None:
        async def body(term: Tenure) -> None:
            begun.append(term.token)

        election = Election(Mute(engine), "x", ttl=1)
        if way == "lead":
            await election.lead(body, sinks=[Blocking()])
        else:
            with pytest.raises(TenureOver):
                async with election.once([Blocking()]) as term:
                    begun.append(term.token)

    async def main() -> None:
        async with Election(MemoryStore(engine), "x", ttl=30).once() as term:
            begun.append(term.token)
            succeeded.set()

    stuck = threading.Thread(target=lambda: asyncio.run(late()))
    stuck.start()
    assert blocked.wait(60)
    asyncio.run(main())
    stuck.join(60)
    assert begun == ([2, 3] if way == "lead" else [2])


def test_a_generator_that_is_left_in_the_middle_of_its_block_gives_the_office_back() -> None:
    engine = MemoryEngine()

    async def leading() -> AsyncIterator[Tenure]:
        async with Election(MemoryStore(engine), "x", ttl=30).once() as term:  # A lapse would free it in time as well.
            yield term

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is closed in another task, and says so
        async for term in leading():
            assert term.valid
            break
        gc.collect()
        with anyio.fail_after(10):
            await until_free(engine)

    asyncio.run(main())


CLOSED_LOOP = """
import asyncio, os, time
from tenure.election import Election
from tenure.office import desk
from tenure.stores.memory import MemoryEngine, MemoryStore
engine = MemoryEngine()
loop, leading = asyncio.new_event_loop(), asyncio.Event()
async def body(term):
    leading.set()
    await asyncio.sleep(3600)
tasks = [loop.create_task(Election(MemoryStore(engine), "x", ttl=0.4).lead(body)) for _ in range(2)]
loop.run_until_complete(leading.wait())
loop.close()
while engine.read("x", time.clock_gettime_ns(time.CLOCK_BOOTTIME)) is not None or any(desk._TAKEN.values()):
    time.sleep(0.01)
os._exit(7)
"""


def test_who_leads_or_stands_by_on_an_event_loop_that_is_closed_gives_up() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSED_LOOP], check=False, timeout=30).returncode == 7
