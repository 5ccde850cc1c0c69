"""A crew keeps the store's list in step with the cohort: nobody else is renewed, and nobody is forgotten."""

import random
from collections import Counter

import pytest
from tests.unit.test_cohort import TIMING, Member, S
from tests.unit.test_rounds import Together

from tenure.core import events as on
from tenure.core.effects import Renew
from tenure.errors import OutcomeUnknown
from tenure.model import Bid, Grant
from tenure.office.crews import Crew, Renewal
from tenure.stores.base import Roll, Unknown
from tenure.stores.groups import ListedGroup


class Seat(Member):
    """A member that hears what comes of its renewals."""

    renews_at: int | None = None
    crew: Crew | None = None
    looked_after = 0
    asked = 0
    deaf = False

    def renewal(self, now: int) -> Renew | None:
        return self.asks(now)

    def renewed(self, effect: Renew, outcome: Renewal, _: int) -> None:
        if self.deaf:
            raise ZeroDivisionError
        if isinstance(outcome, Grant):
            self.candidate.step(on.Granted(effect.attempt, outcome), NOW[0])
        elif isinstance(outcome, Unknown):
            self.candidate.step(on.Failed(effect.attempt, definite=False), NOW[0])
        else:
            self.candidate.step(on.Deposed(effect.grant.token), NOW[0])

    def asked_to_resign(self) -> None:
        self.asked += 1

    def look_after_time(self) -> None:
        pass

    def look_after_tenant(self) -> None:
        self.looked_after += 1


NOW = [0]


def listed(crew: Crew) -> set[Bid]:
    assert isinstance(crew.group, ListedGroup)
    return set(crew.group._grants)


def play_round(crew: Crew, at: int, newcomers: list[Seat], outcome: Roll | Unknown) -> None:
    NOW[0] = at
    assert crew.cohort.begin(at) == []
    for seat in newcomers:
        crew.cohort.ask(seat.asks(at), seat)
    assert crew.enlist() == bool(crew.cohort.members or newcomers)
    assert listed(crew) == set(crew.cohort.members) | {seat.grant.bid for seat in newcomers}
    NOW[0] = at + 1
    waiting = crew.heard(outcome, at + 1)
    for one in waiting:
        crew.tell(one, outcome, at)
    crew.strike_off(waiting)
    crew.look_after(outcome)


@pytest.mark.parametrize("seed", range(30))
def test_the_list_is_that_of_who_renews_whoever_comes_goes_or_fails(seed: int) -> None:
    lots = random.Random(seed)
    crew, seats = Crew(Together(), TIMING), [Seat(number) for number in range(1, 9)]
    for turn in range(2, 9):
        newcomers, members = seats if turn == 2 else [], list(crew.cohort.members)
        if lots.random() < 0.1:
            play_round(crew, turn * S, newcomers, Unknown(OutcomeUnknown("x", "renew", "lost")))
            assert listed(crew) == set(crew.cohort.members) == set()
            return
        ended = frozenset(lots.sample(members, 1) if members and lots.random() < 0.3 else [])
        play_round(crew, turn * S, newcomers, Roll(ended, ()))
        assert listed(crew) == set(crew.cohort.members)
        assert not ended & set(crew.cohort.members)
        for bid, seat in list(crew.cohort.members.items()):
            if lots.random() < 0.2:
                seat.candidate.step(on.Resign(), turn * S + 2)
                assert bid not in crew.cohort.members


def test_who_was_missed_by_a_round_hears_it_alone_and_the_others_go_on() -> None:
    crew, seats = Crew(Together(), TIMING), [Seat(number) for number in range(1, 4)]
    missed = {seats[1].grant.bid: Unknown(OutcomeUnknown("x", "renew", "lost"))}
    play_round(crew, 2 * S, seats, Roll(frozenset(), (), missed))
    assert set(crew.cohort.members) == {seats[0].grant.bid, seats[2].grant.bid} == listed(crew)
    missed = {seats[2].grant.bid: missed.popitem()[1]}
    before = seats[2].candidate.held
    play_round(crew, 3 * S, [], Roll(frozenset(), (), missed))
    assert set(crew.cohort.members) == {seats[0].grant.bid} == listed(crew)
    # It is where it would be if it had asked alone: in office by its last renewal, and about to ask again.
    assert seats[2].candidate.held is before
    assert before is not None
    assert before.valid_until == TIMING.valid_until(2 * S)
    assert seats[2].candidate.wake_at is not None


def test_one_that_cannot_hear_is_not_renewed_for_ever() -> None:
    crew, (well, deaf) = Crew(Together(), TIMING), (Seat(1), Seat(2))
    deaf.deaf = True
    crew.cohort.begin(2 * S)
    for seat in (deaf, well):
        crew.cohort.ask(seat.asks(2 * S), seat)
    crew.enlist()
    waiting = crew.heard(Roll(frozenset(), ()), 2 * S + 1)
    with pytest.raises(ZeroDivisionError):
        crew.tell(waiting[0], Roll(frozenset(), ()), 2 * S)
    crew.strike_off(waiting)
    assert listed(crew) == set(crew.cohort.members) == set()


def test_everybody_is_looked_after_in_a_bounded_number_of_rounds_and_who_is_asked_hears_of_it() -> None:
    crew, seats = Crew(Together(), TIMING), [Seat(number) for number in range(1, 41)]
    play_round(crew, 2 * S, seats, Roll(frozenset(), ()))
    assert len(crew.cohort.members) == len(seats)
    for turn in range(17):
        crew.look_after(Roll(frozenset(), [seats[turn].grant]))
    assert Counter(seat.looked_after > 0 for seat in seats) == {True: 40}
    assert [seat.asked for seat in seats[:18]] == [1] * 17 + [0]


def test_who_is_in_it_is_one_and_the_same_until_somebody_comes_or_goes() -> None:
    """Ten thousand facts may wait for who is slow to hear them, each of ten thousand elections."""
    crew, seats = Crew(Together(), TIMING), [Seat(number) for number in range(1, 4)]
    calm = Roll(frozenset(), ())
    play_round(crew, 2 * S, seats[:2], calm)
    play_round(crew, 3 * S, [], calm)
    first = crew.bids()
    play_round(crew, 4 * S, [], calm)
    assert crew.bids() is first
    seats[0].candidate.leave()
    assert crew.bids() == (seats[1].grant.bid,)
