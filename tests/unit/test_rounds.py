"""Renewals that fall due together go out together."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tenure.errors import Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Token
from tenure.office.rounds import Asked, Renewal, Rounds
from tenure.stores.base import CanRenewTogether, No, Ok, Unknown
from tenure.stores.memory import MemoryStore

HOLDER = Holder("host", 1, "nonce")


def grant(number: int) -> Grant:
    return Grant(Bid(f"election/{number}", HOLDER, 1, 10**9), Token(number))


class Together(MemoryStore):
    """A store that answers, fails, is broken or hangs."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.rounds: list[list[Grant]] = []

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        self.rounds.append(grants)
        if self.answer == "hang":
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        answers: list[Grant | Ended] = list(self.answer(grants))
        return answers


async def renew(store: Together, *numbers: int, within_ns: int = 10**9) -> list[Renewal]:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    rounds, done = Rounds(loop), asyncio.Event()
    outcomes: dict[int, Renewal] = {}

    def reply(number: int, outcome: Renewal) -> None:
        outcomes[number] = outcome
        if len(outcomes) == len(numbers):
            done.set()

    assert isinstance(store, CanRenewTogether)
    for number in numbers:
        rounds.add(store, within_ns, Asked(grant(number), partial(reply, number)))
    async with asyncio.timeout(10):
        await done.wait()
    return [outcomes[number] for number in numbers]


def test_what_is_asked_in_one_turn_of_the_loop_is_one_request_and_each_gets_its_own_answer() -> None:
    store = Together(lambda grants: [Ended(one.bid, one.token) if one.token == 2 else one for one in grants])
    assert asyncio.run(renew(store, 1, 2, 3)) == [Ok(grant(1)), Ok(Ended(grant(2).bid, Token(2))), Ok(grant(3))]
    assert store.rounds == [[grant(1), grant(2), grant(3)]]


def test_a_failure_is_the_outcome_of_all() -> None:
    error = Unreachable("memory://", "renew")
    assert asyncio.run(renew(Together(error), 1, 2)) == [No(error), No(error)]


@pytest.mark.parametrize("answer", [ZeroDivisionError(), lambda grants: grants[1:]])
def test_after_a_store_that_broke_its_contract_nothing_is_known(answer: object) -> None:
    outcomes = asyncio.run(renew(Together(answer), 1, 2))
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


def test_one_that_does_not_answer_in_time_has_no_known_outcome() -> None:
    outcomes = asyncio.run(renew(Together("hang"), 1, 2, within_ns=1_000_000))
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


def test_stores_and_patience_are_not_mixed() -> None:
    async def both() -> None:
        first, second = Together(list), Together(list)
        rounds, done = Rounds(asyncio.get_running_loop()), asyncio.Event()
        for store, within_ns, number in ((first, 10**9, 1), (second, 10**9, 2), (first, 2 * 10**9, 3)):
            reply = (lambda _: done.set()) if number == 3 else (lambda _: None)
            rounds.add(store, within_ns, Asked(grant(number), reply))
        async with asyncio.timeout(10):
            await done.wait()
        assert (first.rounds, second.rounds) == ([[grant(1)], [grant(3)]], [[grant(2)]])

    asyncio.run(both())
