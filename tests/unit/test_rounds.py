"""Renewals that fall due together go out together."""

import asyncio
from typing import Any

import pytest

from tenure.clock import VirtualClock
from tenure.core.candidate import Candidate
from tenure.core.effects import Renew
from tenure.errors import Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Token
from tenure.office.crews import Crew, Renewal
from tenure.office.rounds import Rounds
from tenure.office.timetable import Timetable
from tenure.stores.base import CanRenewTogether, No, Unknown
from tenure.stores.memory import MemoryStore
from tenure.timing import Timing

HOLDER = Holder("host", 1, "nonce")
WITHIN_NS = 10**9


def timing(within_ns: int = WITHIN_NS) -> Timing:
    return Timing(
        ttl_ns=100 * WITHIN_NS, renew_every_ns=10 * WITHIN_NS, attempt_timeout_ns=within_ns, grace_ns=WITHIN_NS
    )


def grant(number: int) -> Grant:
    return Grant(Bid(f"election/{number}", HOLDER, 1, 10**9), Token(number))


class Together(MemoryStore):
    """A store that answers, fails, is broken or hangs."""

    def __init__(self, answer: Any = list) -> None:
        super().__init__()
        self.answer = answer
        self.rounds: list[list[Grant]] = []
        self.asked = asyncio.Event()

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        self.rounds.append(grants)
        self.asked.set()
        if self.answer == "hang":
            await asyncio.Event().wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        answers: list[Grant | Ended] = list(self.answer(grants))
        return answers


class Member:
    """A seat that has nothing to do but to renew."""

    def __init__(self, number: int, *, busy: bool = False) -> None:
        self.effect, self.busy = Renew(number, grant(number)), busy
        self.renews_at: int | None = None
        self.crew: Crew | None = None
        self.candidate = Candidate(self.effect.grant.bid, timing())  # It leads nowhere, and so no cohort takes it.
        self.asked_at: list[int] = []
        self.outcomes: list[Renewal] = []
        self.heard = asyncio.Event()
        self.worried = asyncio.Event()

    def renewal(self, now: int) -> Renew | None:
        self.asked_at.append(now)
        return None if self.busy else self.effect

    def renewed(self, effect: Renew, outcome: Renewal, asked_at: int) -> None:
        assert effect is self.effect
        assert asked_at >= 0
        self.outcomes.append(outcome)
        self.heard.set()

    def look_after_time(self) -> None:
        self.worried.set()

    def look_after_tenant(self) -> None:
        raise AssertionError("who is in no cohort is looked after by its own steps")

    asked_to_resign = look_after_tenant


class Office:
    """Rounds on a virtual clock, in a loop that lives."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        self.clock = VirtualClock()
        self.timetable = Timetable(loop, self.clock)
        self.rounds = Rounds(loop, self.clock, self.timetable, lambda _: None)

    def join(self, member: Member, store: Together, instant: int) -> None:
        assert isinstance(store, CanRenewTogether)
        self.rounds.join(member, store, timing(), instant)

    def leave(self, member: Member, store: Together) -> None:
        assert isinstance(store, CanRenewTogether)
        self.rounds.leave(member, store, timing())

    def add(self, member: Member, store: Together, within_ns: int = WITHIN_NS) -> None:
        assert isinstance(store, CanRenewTogether)
        self.rounds.add(store, timing(within_ns), member.effect, member)

    def ring_at(self, instant: int) -> None:
        self.clock.advance(instant - self.clock.now())
        self.timetable.ring()


async def heard(*members: Member) -> list[Renewal]:
    async with asyncio.timeout(10):
        for member in members:
            await member.heard.wait()
    return [member.outcomes[-1] for member in members]


async def renew(store: Together, *numbers: int, within_ns: int = WITHIN_NS) -> list[Renewal]:
    office, members = Office(), [Member(number) for number in numbers]
    for member in members:
        office.add(member, store, within_ns)
    return await heard(*members)


def test_what_is_asked_in_one_turn_of_the_loop_is_one_request_and_each_gets_its_own_answer() -> None:
    store = Together(lambda grants: [Ended(one.bid, one.token) if one.token == 2 else one for one in grants])
    assert asyncio.run(renew(store, 1, 2, 3)) == [grant(1), Ended(grant(2).bid, Token(2)), grant(3)]
    assert store.rounds == [[grant(1), grant(2), grant(3)]]


def test_a_failure_is_the_outcome_of_all() -> None:
    error = Unreachable("memory://", "renew")
    assert asyncio.run(renew(Together(error), 1, 2)) == [No(error), No(error)]


@pytest.mark.parametrize("answer", [ZeroDivisionError(), asyncio.CancelledError(), lambda grants: grants[1:]])
def test_after_a_store_that_broke_its_contract_nothing_is_known_and_nobody_hears_anything_else(answer: object) -> None:
    async def run() -> None:
        office, store, members = Office(), Together(answer), [Member(1), Member(2)]
        for member in members:
            office.add(member, store)
        await heard(*members)
        assert [[type(outcome) for outcome in member.outcomes] for member in members] == [[Unknown], [Unknown]]

    asyncio.run(run())


def test_one_that_does_not_answer_in_time_has_no_known_outcome() -> None:
    outcomes = asyncio.run(renew(Together("hang"), 1, 2, within_ns=1_000_000))
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


def test_stores_and_patience_are_not_mixed() -> None:
    async def run() -> None:
        office, first, second, members = Office(), Together(), Together(), [Member(number) for number in (1, 2, 3)]
        for member, store, within_ns in zip(members, (first, second, first), (1, 1, 2), strict=True):
            office.add(member, store, within_ns * WITHIN_NS)
        await heard(*members)
        assert (first.rounds, second.rounds) == ([[grant(1)], [grant(3)]], [[grant(2)]])

    asyncio.run(run())


def test_those_who_renew_at_one_instant_have_one_alarm_and_one_request() -> None:
    async def run() -> None:
        office, store, members = Office(), Together(), [Member(number) for number in (1, 2, 3)]
        for member in members:
            office.join(member, store, 100)
        office.ring_at(99)
        assert store.rounds == []
        office.ring_at(150)
        assert await heard(*members) == [grant(1), grant(2), grant(3)]
        assert store.rounds == [[grant(1), grant(2), grant(3)]]
        # Each has been stepped once, at the instant that dates its request, before that was sent.
        assert [member.asked_at for member in members] == [[150]] * 3

    asyncio.run(run())


def test_who_has_left_a_round_is_not_renewed_by_it_and_who_came_back_is_renewed_once() -> None:
    async def run() -> None:
        office, store, members = Office(), Together(), [Member(number) for number in (1, 2, 3)]
        for member in members:
            office.join(member, store, 100)
        left, back, there = members
        office.leave(left, store)
        office.leave(back, store)
        office.join(back, store, 100)
        office.ring_at(100)
        await heard(back, there)
        assert (left.asked_at, left.outcomes) == ([], [])
        assert store.rounds == [[grant(2), grant(3)]]

    asyncio.run(run())


def test_who_had_something_else_to_do_is_not_renewed() -> None:
    async def run() -> None:
        office, store, members = Office(), Together(), [Member(1, busy=True), Member(2)]
        for member in members:
            office.join(member, store, 100)
        office.ring_at(100)
        await heard(members[1])
        assert (store.rounds, members[0].outcomes) == ([[grant(2)]], [])

    asyncio.run(run())


def test_everybody_looks_after_itself_once_the_answer_takes_long() -> None:
    async def run() -> None:
        office, store, members = Office(), Together("hang"), [Member(1), Member(2)]
        for member in members:
            office.join(member, store, 100)
        office.ring_at(100)
        await store.asked.wait()
        office.ring_at(100 + WITHIN_NS * 3 // 4 - 1)
        assert not any(member.worried.is_set() for member in members)
        # Also if that is because the machine has slept: the office then rings whatever is due.
        office.ring_at(100 + 3600 * 10**9)
        assert all(member.worried.is_set() for member in members)

    asyncio.run(run())


def test_nobody_worries_once_it_was_answered() -> None:
    async def run() -> None:
        office, store, member = Office(), Together(), Member(1)
        office.join(member, store, 100)
        office.ring_at(100)
        await heard(member)
        await asyncio.sleep(0)  # for the round to be over
        office.ring_at(10**12)
        assert not member.worried.is_set()
        assert (office.timetable._instants, office.rounds._timed, office.rounds._crews) == ([], {}, {})

    asyncio.run(run())


def test_one_that_fails_does_not_keep_the_others_from_renewing_nor_is_it_forgotten() -> None:
    class Broken(Member):
        def renewal(self, now: int) -> Renew | None:
            raise ZeroDivisionError(now)

    async def run() -> None:
        office, store, members = Office(), Together(), [Member(1), Broken(2), Member(3)]
        for member in members:
            office.join(member, store, 100)
        with pytest.raises(ZeroDivisionError):
            office.ring_at(100)
        await heard(members[0])
        assert [member.worried.is_set() for member in members] == [False, True, True]

    asyncio.run(run())


def test_one_that_cannot_hear_of_a_broken_store_does_not_keep_the_others_from_looking_after_themselves() -> None:
    class Deaf(Member):
        def renewed(self, effect: Renew, outcome: Renewal, asked_at: int) -> None:
            super().renewed(effect, outcome, asked_at)
            raise ZeroDivisionError

    async def run() -> None:
        office, store, members = Office(), Together(ZeroDivisionError()), [Deaf(1), Member(2)]
        for member in members:
            office.join(member, store, 100)
        office.ring_at(100)
        await heard(members[0])
        office.ring_at(10**12)
        assert members[1].worried.is_set()

    asyncio.run(run())


def test_the_answer_takes_long_if_the_process_stood_still_before_the_request_was_sent() -> None:
    class Slow(Member):
        def __init__(self, number: int, clock: VirtualClock) -> None:
            super().__init__(number)
            self.clock = clock

        def renewal(self, now: int) -> Renew | None:
            self.clock.advance(3600 * 10**9)  # The process is stopped here, for an hour.
            return super().renewal(now)

    async def run() -> None:
        office, store = Office(), Together("hang")
        members = [Slow(1, office.clock), Member(2)]
        for member in members:
            office.join(member, store, 100)
        office.ring_at(100)
        await store.asked.wait()
        office.timetable.ring()
        assert all(member.worried.is_set() for member in members)

    asyncio.run(run())


def test_a_round_that_is_far_off_keeps_nobody_who_has_left_it() -> None:
    async def run() -> None:
        office, store = Office(), Together()
        stays = [Member(number) for number in range(1, 11)]
        for member in stays:
            office.join(member, store, 10**15)
        passing = [Member(100 + number) for number in range(1000)]
        for member in passing:
            office.join(member, store, 10**15)
        for member in passing:
            office.leave(member, store)
        (coming,) = office.rounds._timed.values()
        assert len(coming.seats) < 100
        assert coming.seats[:10] == stays
        for member in stays:
            office.leave(member, store)
        # Nor does it keep itself, and with it a store that is closed.
        assert office.rounds._timed == {}
        assert coming.due is None

    asyncio.run(run())
