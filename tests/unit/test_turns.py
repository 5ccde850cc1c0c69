"""One thing at a time for each place, begun at once and brought to its end, whoever waits for it."""

import asyncio
import gc
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from tenure.stores.turns import Turns

# Patience, not a measure: what is right comes in a turn of the loop, and what is wrong never comes.
PATIENCE_S = 10.0
LETTER: ContextVar[str] = ContextVar("LETTER", default="")


class Here:
    """A place, and what is done to it."""

    def __init__(self) -> None:
        self.busy: asyncio.Future[Any] | None = None
        self.done: list[str] = []
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ask(self, what: str) -> str:
        """Do something that an engine has to answer."""
        self.done.append(f"{what} begins")
        said = await self.answer
        self.done.append(f"{what} ends")
        return said

    async def say(self, what: str) -> str:
        """Do something that nobody has to be asked for."""
        self.done.append(what)
        return what


def play(story: Coroutine[Any, Any, None]) -> list[dict[str, Any]]:
    """Run a story, and return what the event loop complained of."""
    complaints: list[dict[str, Any]] = []

    async def heard() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        await story
        gc.collect()

    asyncio.run(heard())
    return complaints


def test_work_begins_in_the_turn_in_which_it_is_asked_for() -> None:
    async def story() -> None:
        here = Here()
        waiting = Turns().alone(here, here.ask("put"))
        waiting.send(None)
        assert here.done == ["put begins"]
        here.answer.set_result("yes")
        waiting.close()

    assert play(story()) == []


def test_who_is_cancelled_stops_waiting_and_the_work_goes_on_before_anything_else() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        claim = asyncio.create_task(turns.alone(here, here.ask("put")))
        await asyncio.sleep(0)
        claim.cancel()
        await asyncio.wait([claim])
        assert claim.cancelled()
        assert here.done == ["put begins"]
        release = asyncio.create_task(turns.alone(here, here.say("delete")))
        await asyncio.sleep(0)
        here.answer.set_result("yes")
        assert await release == "delete"
        assert here.done == ["put begins", "put ends", "delete"]

    assert play(story()) == []


def test_all_have_ended_only_when_work_has_that_nobody_waits_for() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        claim = asyncio.create_task(turns.alone(here, here.ask("put")))
        await asyncio.sleep(0)
        claim.cancel()
        ended = asyncio.create_task(turns.all_ended())
        await asyncio.wait([claim])
        assert not ended.done()
        here.answer.set_result("yes")
        await ended
        assert here.done == ["put begins", "put ends"]

    assert play(story()) == []


def test_all_have_ended_only_when_whoever_was_answered_asks_for_nothing_more() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()

        async def twice() -> str:
            await turns.through(here.ask("look"))
            here.answer = asyncio.get_running_loop().create_future()
            return await turns.through(here.ask("claim"))

        claim = asyncio.create_task(twice())
        await asyncio.sleep(0)
        ended = asyncio.create_task(turns.all_ended())
        await asyncio.sleep(0)
        here.answer.set_result("yes")
        for _ in range(9):
            await asyncio.sleep(0)
        assert here.done == ["look begins", "look ends", "claim begins"]
        assert not ended.done()
        here.answer.set_result("yes")
        assert await claim == "yes"
        await ended

    assert play(story()) == []


def test_what_work_waits_for_is_cancelled_with_it_also_in_the_turn_in_which_it_has_begun() -> None:
    # Or a driver would believe for ever that its question is under way.
    async def story() -> None:
        turns, here = Turns(), Here()
        caller = asyncio.create_task(turns.through(here.ask("put")))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait([caller])
        await turns.all_ended()
        assert here.answer.cancelled()
        assert here.done == ["put begins"]

    assert play(story()) == []


def test_a_deadline_in_the_work_is_the_works_and_never_its_callers() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        loop, own = asyncio.get_running_loop(), asyncio.current_task()
        bounds: list[asyncio.Timeout] = []

        async def bounded() -> str:
            assert asyncio.current_task() is not own
            try:
                async with asyncio.timeout(None) as bound:
                    bounds.append(bound)
                    return await here.ask("put")
            except TimeoutError:
                return "late"

        waiting = asyncio.create_task(turns.alone(here, bounded()))
        await asyncio.sleep(0)
        assert asyncio.current_task() is own
        bounds[0].reschedule(loop.time())
        assert await waiting == "late"
        assert not waiting.cancelling()

    assert play(story()) == []


def test_work_that_waits_for_nothing_is_over_at_once() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        with pytest.raises(StopIteration, match="word"):
            turns.alone(here, here.say("word")).send(None)
        assert here.busy is None
        await turns.all_ended()

    assert play(story()) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_an_error_is_its_callers_and_leaves_the_place_free(at_once: bool) -> None:
    async def story() -> None:
        turns, here = Turns(), Here()

        async def fail() -> None:
            if not at_once:
                await here.answer
            raise LookupError("gone")

        asyncio.get_running_loop().call_soon(here.answer.set_result, "yes")
        with pytest.raises(LookupError, match="gone"):
            await turns.alone(here, fail())
        assert here.busy is None

    assert play(story()) == []


def test_an_error_that_nobody_waits_for_any_more_is_no_news() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        claim = asyncio.create_task(turns.alone(here, here.ask("put")))
        await asyncio.sleep(0)
        claim.cancel()
        await asyncio.wait([claim])
        here.answer.set_exception(LookupError("gone"))
        await turns.all_ended()
        assert here.busy is None

    assert play(story()) == []


def test_an_error_that_comes_together_with_the_cancellation_of_its_caller_is_no_news() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        claim = asyncio.create_task(turns.alone(here, here.ask("put")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        here.answer.set_exception(LookupError("gone"))
        # After the work has failed, and before its caller hears of it.
        asyncio.get_running_loop().call_soon(claim.cancel)
        await asyncio.wait([claim])
        assert claim.cancelled()
        assert here.busy is None

    assert play(story()) == []


def test_a_factory_that_begins_tasks_at_once_takes_no_step_of_the_work() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()

        def begin_at_once(*_: Any, **__: Any) -> Any:
            pytest.fail("the place is not taken yet")

        loop = asyncio.get_running_loop()
        loop.set_task_factory(begin_at_once)
        try:
            assert await turns.alone(here, here.say("word")) == "word"
        finally:
            loop.set_task_factory(None)
        assert here.busy is None

    assert play(story()) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_work_that_ends_with_the_loop_leaves_the_place_free(at_once: bool) -> None:
    """Also if its task has not taken a step yet, and the work itself has."""

    async def story() -> None:
        turns, here = Turns(), Here()
        claim = asyncio.create_task(turns.alone(here, here.ask("put")))
        await asyncio.sleep(0)
        work = here.busy
        assert work is not None
        if not at_once:
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([claim])
        assert claim.cancelled()
        assert here.busy is None
        await turns.all_ended()

    assert play(story()) == []


def test_work_that_is_cancelled_before_its_task_took_a_step_may_still_do_what_it_has_to() -> None:
    async def story() -> None:
        turns, here = Turns(), Here()
        deleted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def tidy() -> str:
            try:
                return await here.ask("put")
            except asyncio.CancelledError:
                return await deleted

        claim = asyncio.create_task(turns.alone(here, tidy()))
        await asyncio.sleep(0)
        assert here.busy is not None
        here.busy.cancel()
        await asyncio.sleep(0)
        deleted.set_result("deleted")
        # It waits for this and no more for what it waited for at first, which never comes.
        async with asyncio.timeout(PATIENCE_S):
            assert await claim == "deleted"

    assert play(story()) == []


def test_what_work_notes_for_itself_is_there_in_each_of_its_steps_and_not_its_callers() -> None:
    async def story() -> None:
        here = Here()

        async def noting() -> str:
            noted = LETTER.set("mine")
            await here.answer
            said = LETTER.get()
            LETTER.reset(noted)  # Raises if this step has another context than the first.
            return said

        asyncio.get_running_loop().call_soon(here.answer.set_result, "yes")
        assert await Turns().alone(here, noting()) == "mine"
        assert LETTER.get() == ""

    assert play(story()) == []
