"""Whose turn it is while the store will not have what some elections say: everybody else's."""

from tenure.apps.history.backlog import RECORDS_MAX, Backlog
from tenure.apps.history.records import Record
from tenure.apps.history.turns import REFUSED_BACKOFF_MAX_S, TRIES_MAX
from tests.history.making import T0_S, record


def taken(backlog: Backlog, now_s: float) -> tuple[str, list[Record]]:
    found = backlog.take(now_s)
    assert found is not None
    return found


def ended(token: int) -> Record:
    return record(token, ended_s=T0_S + 1, reason="resigned")


def refused_for_long(backlog: Backlog, now_s: float = 1000.0) -> float:
    """Have all that is there refused until it is tried once in a minute, and return when that is."""
    while (wait_s := backlog.wait_s(now_s) or 0.0) < REFUSED_BACKOFF_MAX_S / 2:
        now_s += wait_s
        backlog.refused(*taken(backlog, now_s), now_s)
    return now_s


def refusing(count: int) -> tuple[Backlog, float]:
    """A backlog of so many elections that the store will not have, and when it is."""
    backlog = Backlog()
    for number in range(count):
        backlog.put(f"bad{number}", record(1))
    return backlog, refused_for_long(backlog)


def test_what_a_store_will_not_have_is_tried_again_after_a_minute_however_much_that_is() -> None:
    backlog = Backlog()
    for name in "abc":
        backlog.put(name, record(1))
    now_s = refused_for_long(backlog)
    assert REFUSED_BACKOFF_MAX_S / 2 <= backlog.wait_s(now_s) <= REFUSED_BACKOFF_MAX_S  # type: ignore[operator]


def test_whom_the_store_refuses_nobody_else_waits_for() -> None:
    backlog = Backlog()
    backlog.wrote("jobs", [record(10)])
    backlog.put("bad", record(1))
    now_s = refused_for_long(backlog)
    backlog.put("jobs", ended(10))
    assert backlog.wait_s(now_s) == 0
    assert taken(backlog, now_s) == ("jobs", [ended(10)])


def test_once_the_store_has_one_that_it_refused_it_is_asked_for_all_of_them() -> None:
    backlog = Backlog()
    for name in "abc":
        backlog.put(name, record(1))
    now_s = refused_for_long(backlog)
    now_s += backlog.wait_s(now_s) or 0.0
    backlog.wrote(*taken(backlog, now_s))
    assert backlog.wait_s(now_s) == 0
    assert not backlog.has_refused


def test_elections_that_are_refused_take_no_place_from_others() -> None:
    """Their ends are awaited, and would be lost last if they could be written."""
    backlog = Backlog()
    for number in range(RECORDS_MAX):
        backlog.wrote(f"bad{number}", [record(1)])
        backlog.put(f"bad{number}", ended(1))
    for now_s in range(RECORDS_MAX):
        backlog.refused(*taken(backlog, now_s), now_s)
    for number in range(20):
        backlog.put(f"good{number}", record(1))
    assert backlog.dropped_count == 20
    late_s = RECORDS_MAX + REFUSED_BACKOFF_MAX_S
    assert {taken(backlog, late_s)[0] for _ in range(20)} == {f"good{number}" for number in range(20)}


def test_a_store_that_has_nothing_is_not_asked_for_each_new_name() -> None:
    backlog, now_s, count = Backlog(), 1000.0, 0
    for number in range(20 * 3600):  # locks of ever new names, for an hour
        now_s += 0.05
        backlog.put(f"lock{number}", ended(1))
        while (todo := backlog.take(now_s)) is not None:
            backlog.refused(*todo, now_s)
            count += 1
    assert 0 < count < 3600 / REFUSED_BACKOFF_MAX_S * 2 * TRIES_MAX + 50


def test_a_name_that_is_new_waits_a_minute_at_most_for_what_others_are_refused() -> None:
    backlog, now_s = refusing(100)
    backlog.put("new", record(1))
    now_s += backlog.wait_s(now_s) or 0.0
    assert taken(backlog, now_s)[0] == "new"
    backlog.wrote("new", [record(1)])
    assert backlog.has_refused, "that the store has another says nothing of those"
    backlog.put("new", ended(1))
    assert taken(backlog, now_s)[0] == "new", "and now it waits for nobody"


def test_one_that_was_refused_once_does_not_wait_for_hours_behind_those_that_are_for_good() -> None:
    backlog, now_s = refusing(40)
    backlog.put("once", record(1))
    now_s += backlog.wait_s(now_s) or 0.0
    backlog.refused(*taken(backlog, now_s), now_s)
    began_s = now_s
    while (todo := taken(backlog, now_s))[0] != "once":
        backlog.refused(*todo, now_s)
        now_s += backlog.wait_s(now_s) or 0.0
    assert now_s - began_s <= (40 / TRIES_MAX + 1) * REFUSED_BACKOFF_MAX_S
