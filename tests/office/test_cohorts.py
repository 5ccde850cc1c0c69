"""Leaders of one process that renew alike are one cohort; whatever happens to one of them happens to that one alone."""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import anyio
import pytest

from tenure import Election, Tenure
from tenure.core.candidate import Candidate
from tenure.errors import Reason, TenureOver, Unreachable
from tenure.model import Ended, Grant
from tenure.office.thread import Office
from tenure.stores.memory import MemoryEngine, MemoryStore

TTL_S = 4.0
SLOW_S = 60


class Together(MemoryStore):
    """Renews many with one request; can be held up, and can fail."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        super().__init__(self.engine)
        self.sizes: list[int] = []
        self.fails = False
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        self.sizes.append(len(grants))
        answers = [await self.renew(grant) for grant in grants]
        self.asked.set()
        while not self.may_answer.is_set():
            await anyio.sleep(0.01)
        if self.fails:
            raise Unreachable(self.address, "renew", "as the test wants it")
        return answers


@contextmanager
def steps() -> Iterator[list[str]]:
    """Count what machines do, by the names of events."""
    seen: list[str] = []
    step = Candidate.step

    def counted(self: Candidate, event: Any, *rest: Any) -> Any:
        seen.append(type(event).__name__)
        return step(self, event, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Candidate, "step", counted)
        yield seen


async def until(seen: Callable[[], bool]) -> None:
    with anyio.fail_after(SLOW_S):
        while not seen():
            await anyio.sleep(0.02)


async def rounds_of(store: Together) -> None:
    """Wait until the store was asked twice more: the first of them has been answered then."""
    count = len(store.sizes)
    await until(lambda: len(store.sizes) >= count + 2)


def members() -> int:
    crews = Office.of_this_process().rounds._crews
    return sum(len(crew.cohort.members) for crew in list(crews.values()))


def leading(count: int, then: Callable[[Together, list[Tenure]], Awaitable[None]]) -> None:
    """Lead so many elections on one store, as one cohort."""

    async def main() -> None:
        store = Together()
        async with AsyncExitStack() as stack:
            terms = [
                await stack.enter_async_context(Election(store, f"x/{number}", ttl=TTL_S).once())
                for number in range(count)
            ]
            await until(lambda: members() == count)
            await then(store, terms)

    anyio.run(main)


def test_while_nothing_happens_no_machine_takes_a_step_and_all_are_renewed() -> None:
    async def then(store: Together, terms: list[Tenure]) -> None:
        quiet = 0
        until_s = time.monotonic() + SLOW_S
        while quiet < 2:  # A round that was late on a busy machine makes noise.
            assert time.monotonic() < until_s
            with steps() as seen:
                before = [term._term.valid_until for term in terms]
                await rounds_of(store)
                quiet += not seen
            assert all(term._term.valid_until > instant for term, instant in zip(terms, before, strict=True))
        assert len({term._term.valid_until for term in terms}) == 1
        assert all(term.valid and term.margin is not None and 0 < term.margin < TTL_S for term in terms)
        assert store.sizes[-1] == len(terms)

    leading(20, then)


def test_one_whose_record_was_deleted_is_deposed_and_the_others_go_on() -> None:
    async def then(store: Together, terms: list[Tenure]) -> None:
        store.engine.delete("x/1")
        with anyio.CancelScope():  # Its body is this task, which is told so.
            await until(lambda: terms[1].reason is not None)
        assert terms[1].reason is Reason.DEPOSED
        ended = terms[1]._term.valid_until
        with anyio.CancelScope(shield=True):
            await rounds_of(store)
        assert terms[1]._term.valid_until <= ended
        assert not terms[1].valid
        assert terms[0].valid
        assert terms[2].valid

    with pytest.raises(TenureOver):
        leading(3, then)


def test_who_resigns_while_the_round_is_under_way_is_not_prolonged_by_its_answer() -> None:
    async def then(store: Together, terms: list[Tenure]) -> None:
        store.may_answer.clear()
        store.asked.clear()
        await until(store.asked.is_set)
        before = terms[0]._term.valid_until
        terms[0].resign()
        with anyio.CancelScope(shield=True):
            await until(lambda: terms[0].reason is Reason.RESIGNED)
            store.may_answer.set()
            await until(lambda: terms[1]._term.valid_until > before)
        assert terms[0]._term.valid_until <= before

    leading(2, then)


def test_after_a_failure_all_try_again_by_themselves_and_become_a_cohort_again() -> None:
    async def then(store: Together, terms: list[Tenure]) -> None:
        store.fails = True
        await until(lambda: members() == 0)
        store.fails = False
        await until(lambda: members() == len(terms))
        assert all(term.valid for term in terms)

    leading(5, then)


def test_a_store_that_stays_away_ends_them_all_and_is_the_reason() -> None:
    reasons: list[Reason | None] = []

    async def then(store: Together, terms: list[Tenure]) -> None:
        store.fails = True
        with anyio.CancelScope(shield=True):
            await until(lambda: all(term.reason is not None for term in terms))
            reasons.extend(term.reason for term in terms)
            await until(lambda: not any(term.valid for term in terms))

    with pytest.raises(TenureOver):
        leading(3, then)
    assert reasons == [Reason.STORE_GONE] * 3


def test_nothing_is_kept_of_a_cohort_that_everybody_has_left() -> None:
    async def then(_: Together, terms: list[Tenure]) -> None:
        assert len(terms) == members()

    leading(4, then)
    rounds = Office.of_this_process().rounds
    assert (rounds._crews, rounds._timed) == ({}, {})
