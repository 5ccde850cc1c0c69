"""Records that are lost before they are written: whoever reads is told so, and never that nobody led meanwhile."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tenure.apps.history.backlog import RECORDS_MAX, Backlog
from tenure.apps.history.records import TENURES_MAX, Dropped, Log, Record, dumped, loaded, merged
from tenure.apps.history.rto import Verdict, report
from tenure.apps.history.told import Clocks, Span, TenureRecord, told
from tests.history.making import ADA, BOB, T0_S, TRAITS, record


def ended(token: int) -> Record:
    """A tenure that lasted for almost a second, a second after the one before it."""
    return record(token, began_s=T0_S + token, ended_s=T0_S + token + 0.9, reason="resigned")


class Desk:
    """One process that records, and the log that it writes to."""

    def __init__(self) -> None:
        self.backlog, self.log, self.now_s = Backlog(), (), 1000.0  # type: Backlog, Log, float

    def write(self, *, in_turn: bool = True) -> None:
        """Write whatever may be written now."""
        while (todo := self.backlog.take(self.now_s, in_turn=in_turn)) is not None:
            self.log = loaded("jobs", dumped(merged(self.log, todo[1])))
            self.backlog.wrote(*todo)

    def take(self) -> list[Record]:
        todo = self.backlog.take(self.now_s)
        assert todo is not None
        return todo[1]

    def tell(self) -> list[TenureRecord]:
        return told("jobs", self.log, TRAITS, None, T0_S + 10**6)


def for_the_bound(desk: Desk) -> None:
    for number in range(RECORDS_MAX):
        desk.backlog.put(f"e{number}", record(1))
    assert desk.backlog.dropped_count == 3
    desk.backlog.drop_all()


def for_good(desk: Desk) -> None:
    todo = desk.backlog.take(desk.now_s)
    assert todo is not None
    desk.backlog.drop(*todo)


def with_many_others(desk: Desk) -> None:
    for_good(desk)
    for number in range(2000):
        desk.backlog.drop(f"e{number}", [record(3)])


@pytest.mark.parametrize("lose", [for_the_bound, for_good, with_many_others])
def test_between_two_tenures_of_which_others_were_lost_no_gap_is_told(lose: Callable[[Desk], None]) -> None:
    desk = Desk()
    desk.backlog.put("jobs", ended(1))
    desk.write()
    for token in (2, 3, 4):
        desk.backlog.put("jobs", ended(token))
    lose(desk)
    for token in (5, 6):
        desk.backlog.put("jobs", ended(token))
        desk.write()
    first, second, third = desk.tell()
    assert (second.unrecorded, second.gap, third.unrecorded) == (True, None, False)
    assert third.gap_s == pytest.approx(0.1)
    changes = report([first, second, third], TRAITS).changes
    assert [change.in_rto for change in changes] == [Verdict.UNKNOWN, Verdict.KEPT]
    assert "whose record was lost" in changes[0].unmeasured


def test_an_election_that_has_lost_nothing_tells_its_gaps_whatever_others_have_lost() -> None:
    desk = Desk()
    desk.backlog.put("jobs", record(1))
    desk.write()
    for number in range(12_000):
        desk.backlog.drop(f"e{number}", [record(2 + number)])
    desk.backlog.put("jobs", record(1, seen_s=T0_S + 1))  # That it goes on is said again, and once in vain.
    todo = desk.backlog.take(desk.now_s)
    assert todo is not None
    desk.backlog.drop(*todo)
    desk.backlog.put("jobs", record(1, ended_s=T0_S + 590, reason="lapsed"))
    desk.backlog.put("jobs", record(20_000, began_s=T0_S + 630))
    desk.write()
    _, second = desk.tell()
    assert (second.gap_s, second.unrecorded) == (40.0, False)


def test_after_a_tenure_whose_end_was_lost_no_gap_is_told() -> None:
    desk = Desk()
    desk.backlog.put("jobs", record(5))
    desk.write()
    desk.backlog.put("jobs", record(5, ended_s=T0_S + 1000, reason="resigned"))
    todo = desk.backlog.take(desk.now_s)
    assert todo is not None
    desk.backlog.drop(*todo)
    desk.backlog.put("jobs", record(200, began_s=T0_S + 1001))
    desk.write()
    first, second = desk.tell()
    assert (first.reason, first.ended_s, second.gap, second.unrecorded) == ("unknown", None, None, True)
    assert first.ended_between == Span(T0_S, T0_S + 1001, Clocks.ONE)


def test_a_tenure_whose_beginning_was_lost_is_complete_once_it_is_written_and_the_gap_after_it_is_told() -> None:
    desk = Desk()
    for said in (record(4, ended_s=T0_S + 1, reason="resigned"), record(5, began_s=T0_S + 2)):
        desk.backlog.put("jobs", said)
    first, second = desk.take()
    desk.backlog.drop("jobs", [second])
    desk.backlog.put_back("jobs", [first])
    desk.backlog.put("jobs", record(5, began_s=T0_S + 2, seen_s=T0_S + 62))
    desk.write()
    desk.log = merged(desk.log, [record(9, replace(BOB, host=ADA.host), T0_S + 90)])
    _, second_told, third = desk.tell()
    assert (second_told.reason, second_told.gap_s, second_told.unrecorded) == ("vanished", 1.0, False)
    assert (third.gap, third.unrecorded) == (Span(0.0, 28.0, Clocks.ONE), False)


def test_an_end_that_was_lost_while_its_beginning_was_written_again_is_not_forgotten() -> None:
    desk = Desk()
    desk.backlog.put("jobs", record(5))
    (begun,) = desk.take()
    desk.backlog.put("jobs", record(5, ended_s=T0_S + 10, reason="resigned"))
    desk.backlog.drop_all()
    desk.backlog.put_back("jobs", [begun])
    desk.write()
    desk.log = merged(desk.log, [record(6, BOB, T0_S + 20)])
    first, second = desk.tell()
    assert (first.reason, second.gap, second.unrecorded) == ("unknown", None, True)


def test_a_lock_that_is_taken_a_hundred_times_a_second_was_free_for_no_longer_than_that() -> None:
    """The burst of ten writes is over after the first moments, and the next is a minute later."""
    desk = Desk()
    for token in range(1, RECORDS_MAX + 41):
        begun = record(token, began_s=T0_S + token / 100)
        for said in (begun, replace(begun, ended_s=T0_S + token / 100 + 0.009, reason="resigned")):
            desk.backlog.put("jobs", said)
            if desk.backlog.wait_s(desk.now_s) == 0:
                desk.write()
                assert all(one.gap is None or one.gap.most_s < 0.5 for one in desk.tell())
            desk.now_s += 0.005
    desk.write(in_turn=False)
    assert [one.token for one in desk.log] == list(range(RECORDS_MAX + 41 - TENURES_MAX, RECORDS_MAX + 41))
    assert all(one.gap_s == pytest.approx(0.001, abs=1e-6) for one in desk.tell()[1:])
    assert desk.backlog.dropped_count == 0


def test_what_was_lost_is_said_with_an_end_and_again_with_what_follows() -> None:
    """The log forgets the end before it forgets what another process has recorded in between."""
    backlog = Backlog()
    backlog.wrote("jobs", [record(1)])
    backlog.drop("jobs", [ended(2), ended(4)])
    for token in (1, 5):
        backlog.put("jobs", ended(token))
        assert backlog.take(1000.0) == ("jobs", [replace(ended(token), dropped=Dropped(2, 4))])
    backlog.put("jobs", ended(6))
    assert backlog.take(1000.0) == ("jobs", [ended(6)])


def test_what_says_that_others_were_lost_and_is_lost_itself_is_not_forgotten() -> None:
    backlog = Backlog()
    backlog.drop("jobs", [ended(2)])
    backlog.put("jobs", ended(5))
    assert backlog.take(1000.0) == ("jobs", [replace(ended(5), dropped=Dropped(2, 2))])
    backlog.drop("jobs", [replace(ended(5), dropped=Dropped(2, 2))])
    backlog.put("jobs", ended(7))
    assert backlog.take(1000.0) == ("jobs", [replace(ended(7), dropped=Dropped(2, 5))])


class Fleet:
    """Two processes that hold one lock in turn, and one log that both write to: late, in vain, or never."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.backlogs, self.holders = (Backlog(), Backlog()), (ADA, replace(BOB, host=ADA.host))
        self.log: Log = ()
        self.now_s, self.token = 1000.0, 0
        self.fails = True

    def lead(self, number: int) -> None:
        self.token += self.random.choice((1, 1, 3))
        said = replace(ended(self.token), holder=str(self.holders[number]))
        for one in (replace(said, ended_s=None, reason=None), said):
            self.backlogs[number].put("jobs", one)
            if self.random.random() < 0.3:
                self.write(number)

    def write(self, number: int, *, in_turn: bool = True) -> None:
        backlog = self.backlogs[number]
        todo = backlog.take(self.now_s, in_turn=in_turn)
        if todo is None:
            return
        chance = self.random.random() if self.fails else 1.0
        if chance < 0.2:
            backlog.drop(*todo)
        elif chance < 0.4:
            backlog.put_back(*todo)
        elif chance < 0.5:
            backlog.refused(*todo, self.now_s)
        else:
            self.log = loaded("jobs", dumped(merged(self.log, todo[1])))
            backlog.wrote(*todo)


@pytest.mark.parametrize("seed", range(60))
def test_once_all_have_written_no_gap_is_told_in_which_somebody_led(seed: int) -> None:
    fleet, led = Fleet(seed), set()
    for _ in range(fleet.random.choice((5, 40, 400))):
        fleet.lead(fleet.random.choice((0, 0, 0, 1)))
        led.add(fleet.token)
        fleet.now_s += fleet.random.choice((0, 1, 60))
    fleet.fails = False
    for number in (0, 1):  # Each leads once more, and says all that it has to say.
        fleet.lead(number)
        led.add(fleet.token)
        for _ in range(3):
            fleet.write(number, in_turn=False)
    tenures = told("jobs", fleet.log, TRAITS, None, T0_S + 10**6)
    for before, after in pairwise(tenures):
        between = led & set(range(before.token + 1, after.token))
        assert after.unrecorded or not between, (before.token, after.token)
        assert after.gap is None or not between
