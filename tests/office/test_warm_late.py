"""A warm standby that is slow to end when office comes: its tenure may be over first, and then has no body."""

import threading
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.hearing import Hearing

from tenure import Standby, sync
from tenure.election import Election
from tenure.errors import Reason, TenureOver
from tenure.facts import subscribe
from tenure.facts.kinds import Fact, Left, Overstayed, What
from tenure.model import Token
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryStore

TTL = 2.0
LEFT = Left(Token(1), Reason.STALLED)
On = Callable[[Callable[[], Awaitable[None]]], None]


def is_overstay(fact: What) -> bool:
    """Whether it says so of the first tenure, whose body never began."""
    return isinstance(fact, Overstayed) and fact.token == 1


def leads_later(term: Tenure) -> bool:
    """Whether a body is in a tenure after the first, and need not stop."""
    return term.token > 1 and term.reason is None


def test_a_standby_that_will_not_end_loses_an_office_that_nobody_fills(on: On) -> None:
    async def test() -> None:
        store, may_end = MemoryStore(), anyio.Event()
        election = Election(store, "x", ttl=TTL)

        async def stubborn(standby: Standby) -> None:
            standby.ready()
            with anyio.CancelScope(shield=True), anyio.move_on_after(20):
                await may_end.wait()

        async def body(_: Tenure) -> None:
            pytest.fail("it began")

        async def stand() -> None:
            with pytest.raises(TenureOver, match="stalled"):
                await election.lead(body, prepare=stubborn, once=True)
            assert may_end.is_set()

        with Hearing(election) as heard:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stand)
                while not heard.tokens:
                    await anyio.sleep(0.01)
                async with Election(store, "x", ttl=TTL).once():  # Gets it, although the stubborn one still sits there.
                    may_end.set()
            assert LEFT in heard.left
            assert not any(map(is_overstay, heard.all)), "a body that never began stays nowhere"

    on(test)


@pytest.mark.parametrize("raises", [False, True])
def test_a_tenure_that_ends_before_its_standby_has_is_lost_and_gets_no_body(on: On, raises: bool) -> None:
    async def test() -> None:
        prepared = list[Standby]()
        election = Election(MemoryStore(), "x", ttl=TTL)
        heard = Hearing(election)

        async def slow_at_first(standby: Standby) -> None:
            prepared.append(standby)
            standby.ready()
            with anyio.CancelScope(shield=True), anyio.move_on_after(20):
                while LEFT not in heard.left:
                    await anyio.sleep(0.01)
            if raises:  # about a tenure of its own, which has the same token
                raise TenureOver(1, Reason.LAPSED)

        async def body(term: Tenure) -> bool:
            return leads_later(term)

        with heard:
            if raises:
                with pytest.raises(TenureOver, match="lapsed"):
                    await election.lead(body, prepare=slow_at_first)
                assert len(prepared) == 1, "it ended the standing"
            else:
                assert await election.lead(body, prepare=slow_at_first)
            assert LEFT in heard.left
            assert not any(map(is_overstay, heard.all))

    on(test)


def test_a_standby_that_blocks_its_loop_past_the_tenure_leaves_it_without_a_body(on: On) -> None:
    async def test() -> None:
        blocks_s = [2 * TTL]

        async def blocking(standby: Standby) -> None:
            standby.ready()
            try:
                await anyio.sleep_forever()
            finally:
                time.sleep(blocks_s.pop() if blocks_s else 0)  # That is its fault: its loop hears nothing.

        async def body(term: Tenure) -> bool:
            return leads_later(term)

        assert await Election(MemoryStore(), "x", ttl=TTL).lead(body, prepare=blocking)

    on(test)


@pytest.mark.parametrize("raises", [False, True])
def test_in_threads_a_tenure_that_ends_before_its_standby_has_is_lost_and_gets_no_body(raises: bool) -> None:
    facts, prepared, has_left = list[What](), list[sync.Standby](), threading.Event()

    def hear(fact: Fact) -> None:
        facts.append(fact.what)
        if fact.what == LEFT:
            has_left.set()

    def slow_at_first(standby: sync.Standby) -> None:
        prepared.append(standby)
        standby.ready()
        while standby.sleep(60):
            pass
        has_left.wait(20)
        if raises:  # about a tenure of its own, which has the same token
            raise TenureOver(1, Reason.LAPSED)

    def body(term: sync.Tenure) -> bool:
        return leads_later(term)

    election = sync.Election(MemoryStore(), "x", ttl=TTL)
    with subscribe(hear) as subscription:
        if raises:
            with pytest.raises(TenureOver, match="lapsed"):
                election.lead(body, prepare=slow_at_first)
            assert len(prepared) == 1, "it ended the standing"
        else:
            assert election.lead(body, prepare=slow_at_first)
        assert subscription.wait_until_told(20)
    assert LEFT in facts
    assert not any(map(is_overstay, facts))
