"""What is awaited on the user's loop and runs on the office's: its result, its failure, and its end if nobody waits any more."""

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from tenure.errors import ConfigError
from tenure.office.crossing import Crossing
from tenure.office.thread import Office


def test_it_runs_on_the_offices_thread_and_its_result_comes_back() -> None:
    async def main() -> None:
        async def where() -> str:
            return threading.current_thread().name

        assert await Crossing(Office.of_this_process(), where()).answer() == "tenure-office"

    asyncio.run(main())


def test_what_it_raises_is_raised_here() -> None:
    async def main() -> None:
        async def fail() -> None:
            raise ConfigError("x", 1, "must not be")

        with pytest.raises(ConfigError, match="must not be"):
            await Crossing(Office.of_this_process(), fail()).answer()

    asyncio.run(main())


def test_whoever_stops_waiting_ends_it() -> None:
    async def main() -> None:
        begun, ended = threading.Event(), threading.Event()

        async def last() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.create_task(Crossing(Office.of_this_process(), last()).answer())
        assert await asyncio.to_thread(begun.wait, 30)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.to_thread(ended.wait, 30)

    asyncio.run(main())


def test_one_that_is_cancelled_over_there_does_not_cancel_who_waits() -> None:
    async def main() -> None:
        async def cancelled() -> None:
            raise asyncio.CancelledError

        with pytest.raises(CancelledError):
            await Crossing(Office.of_this_process(), cancelled()).answer()

    asyncio.run(main())


def test_a_loop_that_is_closed_meanwhile_is_told_nothing() -> None:
    office, go_on, troubles = Office.of_this_process(), threading.Event(), list[dict[str, object]]()
    office.loop.set_exception_handler(lambda _, context: troubles.append(context))

    async def last() -> None:
        while not go_on.is_set():
            await asyncio.sleep(0)

    async def leave() -> None:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
        await Crossing(office, last()).answer()

    loop = asyncio.new_event_loop()
    try:
        waiting = loop.create_task(leave())
        loop.run_forever()
        waiting.cancel()
        loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    finally:
        loop.close()
    go_on.set()
    office.submit(asyncio.sleep(0)).result(30)
    office.loop.set_exception_handler(None)
    assert troubles == []
