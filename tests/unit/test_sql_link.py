"""One connection: one thing at a time goes over it, to its end, and it is closed when nothing more is to come."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tenure.errors import OutcomeUnknown, Unreachable
from tenure.stores.sql.link import Connector, Fault, Link

PATIENCE_S = 10.0


class Heard:
    """A session that is answered when the test says so."""

    def __init__(self, said: list[str]) -> None:
        self.said, self.broken = said, False
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, what: str) -> str:
        self.said.append(what)
        await self.answer
        return what

    def abort(self) -> None:
        self.broken = True
        self.said.append("abort")

    async def close(self) -> None:
        self.broken = True
        self.said.append("close")


class Line(Connector[Heard]):
    product, faults = "a database", (TimeoutError, ConnectionError)

    def __init__(self) -> None:
        self.said: list[str] = []
        self.sessions: list[Heard] = []

    async def connect(self, endpoint: str) -> Heard:
        self.said.append(f"connect {endpoint}")
        self.sessions.append(Heard(self.said))
        return self.sessions[-1]

    def fault_of(self, error: Exception, *, sent: bool) -> Fault:
        return Fault(OutcomeUnknown if sent else Unreachable, str(error), ends_session=True)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE_S))


def link_to(line: Line) -> Link[Heard]:
    return Link("db://h", ["h:1"], line)


async def ask(link: Link[Heard], what: str, within_s: float = 60.0) -> str:
    return await link.run(what, lambda session: session.ask(what), within_s)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_one_thing_at_a_time_in_the_order_in_which_it_was_asked() -> None:
    async def story() -> None:
        line = Line()
        link = link_to(line)
        asked = [asyncio.create_task(ask(link, what)) for what in "abc"]
        await turns(5)
        assert line.said == ["connect h:1", "a"]
        line.sessions[0].answer.set_result(None)
        assert await asyncio.gather(*asked) == ["a", "b", "c"]
        assert line.said == ["connect h:1", "a", "b", "c"]

    play(story())


def test_who_waits_for_its_turn_is_told_in_time_that_nothing_was_sent() -> None:
    async def story() -> None:
        line = Line()
        link = link_to(line)
        first = asyncio.create_task(ask(link, "a"))
        await turns(3)
        with pytest.raises(Unreachable, match="requests before it"):
            await ask(link, "b", 0.01)
        line.sessions[0].answer.set_result(None)
        assert await first == "a"
        assert await ask(link, "c", 0.01) == "c"  # It waits for nobody any more.
        assert line.said == ["connect h:1", "a", "c"]

    play(story())


def test_who_is_cancelled_leaves_its_question_to_its_end_and_the_next_one_waits_for_that() -> None:
    async def story() -> None:
        line = Line()
        link = link_to(line)
        first = asyncio.create_task(ask(link, "a"))
        await turns(3)
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(ask(link, "b"))
        await turns(3)
        assert line.said == ["connect h:1", "a"]
        line.sessions[0].answer.set_result(None)
        assert await second == "b"
        assert not line.sessions[0].broken

    play(story())


def test_who_is_answered_and_asks_again_at_once_is_not_cut_off_by_the_close() -> None:
    # A claim of an observer's looks first: its second question was sent, and the connection closed under it.
    async def story() -> None:
        line = Line()
        link = link_to(line)

        async def look_and_claim() -> str:
            await ask(link, "look")
            return await ask(link, "claim")

        claim = asyncio.create_task(look_and_claim())
        await turns(3)
        closing = asyncio.create_task(link.close())
        await turns(3)
        line.sessions[0].answer.set_result(None)
        assert await claim == "claim"
        await closing
        assert line.said == ["connect h:1", "look", "claim", "close"]

    play(story())


def test_a_link_that_was_closed_opens_no_connection_that_nobody_would_end() -> None:
    async def story() -> None:
        line = Line()
        link = link_to(line)
        assert await link.endpoint("look", 60) == "h:1"
        await link.close()
        with pytest.raises(Unreachable, match="closed"):
            await ask(link, "claim")
        await link.close()
        assert line.said == ["connect h:1", "close"]

    play(story())


def test_what_is_not_answered_in_time_ends_the_connection() -> None:
    async def story() -> None:
        line = Line()
        link = link_to(line)
        with pytest.raises(OutcomeUnknown, match="no answer"):
            await ask(link, "a", 0.01)
        again = asyncio.create_task(ask(link, "b"))
        await turns(3)
        line.sessions[1].answer.set_result(None)
        assert await again == "b"
        assert line.said == ["connect h:1", "a", "abort", "connect h:1", "b"]

    play(story())
