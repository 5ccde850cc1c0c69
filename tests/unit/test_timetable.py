"""The timers of all seats, as one timer of the event loop."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tenure.clock import VirtualClock
from tenure.office.timetable import Timetable


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Bell:
    """An alarm that does as it is told."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.due: int | None = None
        self.ring = ring


class Desk:
    """A timetable on a virtual clock, and a list of who rang."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = VirtualClock()
        self.table = Timetable(loop, self.clock)
        self.rang: list[str] = []

    def alarm(self, name: str, then: Callable[[], None] = lambda: None) -> Bell:
        def ring() -> None:
            self.rang.append(name)
            then()

        return Bell(ring)

    def at(self, instant: int) -> list[str]:
        self.clock.advance(instant - self.clock.now())
        self.table.ring()
        rang, self.rang = self.rang, []
        return rang


def test_alarms_ring_in_the_order_in_which_they_are_due_and_once(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    first, second, third = (desk.alarm(name) for name in "abc")
    for alarm, due in ((third, 30), (first, 10), (second, 20)):
        desk.table.set(alarm, due)
    assert desk.at(9) == []
    assert desk.at(20) == ["a", "b"]
    assert desk.at(29) == []
    assert desk.at(1000) == ["c"]
    assert desk.at(2000) == []


def test_only_the_last_setting_of_an_alarm_counts(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    alarm = desk.alarm("a")
    for due in (10, 30, 20):
        desk.table.set(alarm, due)
    assert desk.at(10) == []
    assert desk.at(20) == ["a"]
    assert desk.at(30) == []
    desk.table.set(alarm, 40)
    desk.table.set(alarm, None)
    assert desk.at(50) == []


def test_an_alarm_that_is_set_back_to_an_earlier_wish_rings_once(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    alarm = desk.alarm("a")
    for due in (10, 20, 10):
        desk.table.set(alarm, due)
    assert desk.at(15) == ["a"]
    assert desk.at(25) == []


def test_an_alarm_may_set_itself_and_others_while_it_rings(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    other = desk.alarm("other")

    def set_both() -> None:
        desk.table.set(other, 15)
        desk.table.set(alarm, 20)

    alarm = desk.alarm("a", set_both)
    desk.table.set(alarm, 10)
    assert desk.at(10) == ["a"]
    assert desk.at(15) == ["other"]
    # From here on it is due again as soon as it has rung. The loop gets its turn in between all the same.
    assert desk.at(20) == ["a"]
    assert desk.at(20) == ["other", "a"]


def test_one_that_fails_does_not_stop_the_clock_for_the_others(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)

    def fail() -> None:
        raise ZeroDivisionError

    broken, beside, other = desk.alarm("broken", fail), desk.alarm("beside"), desk.alarm("other")
    for alarm, due in ((broken, 10), (beside, 10), (other, 20)):
        desk.table.set(alarm, due)
    with pytest.raises(ZeroDivisionError):
        desk.at(10)
    desk.rang.clear()
    assert desk.at(10) == ["beside"]
    assert desk.at(20) == ["other"]


def test_times_that_nobody_waits_for_any_more_wake_nobody_and_are_forgotten(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    alarm = desk.alarm("a")
    for due in range(10, 1000):
        desk.table.set(alarm, due)
    desk.table.set(alarm, 5000)
    desk.at(9)
    assert (desk.table._instants, list(desk.table._alarms)) == ([5000], [5000])
    assert desk.table._armed_for == 5000


def test_those_who_wait_for_one_instant_ring_in_the_order_in_which_they_asked(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(loop)
    alarms = [desk.alarm(name) for name in "abcd"]
    for alarm in alarms:
        desk.table.set(alarm, 10)
    assert len(desk.table._instants) == 1
    desk.table.set(alarms[1], None)
    desk.table.set(alarms[2], 20)
    assert desk.at(10) == ["a", "d"]
    assert desk.at(20) == ["c"]
