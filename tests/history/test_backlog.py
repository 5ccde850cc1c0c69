"""What waits to be written: little, however long the store is away; and not all at once when it is back."""

import pytest

from tenure.apps.history.backlog import RECORDS_MAX, REFUSED_BACKOFF_MAX_S, Backlog, Pace
from tenure.apps.history.records import Record
from tests.history.making import BOB, T0_S, record


def taken(backlog: Backlog, now_s: float = 1000.0, *, in_turn: bool = True) -> tuple[str, list[Record]]:
    found = backlog.take(now_s, in_turn=in_turn)
    assert found is not None
    return found


def test_what_is_said_twice_of_a_tenure_is_written_once() -> None:
    backlog = Backlog()
    backlog.put("jobs", record(7))
    backlog.put("mail", record(1))
    backlog.put("jobs", record(7, ended_s=T0_S + 1, reason="resigned"))
    backlog.put("jobs", record(8, BOB))
    assert backlog.count == 3
    assert taken(backlog) == ("jobs", [record(7, ended_s=T0_S + 1, reason="resigned"), record(8, BOB)])
    assert taken(backlog) == ("mail", [record(1)])
    assert backlog.count == 0


def test_what_failed_waits_behind_the_others_and_is_joined_with_what_came_since() -> None:
    backlog = Backlog()
    backlog.put("jobs", record(7))
    backlog.put("mail", record(1))
    failed = taken(backlog)
    backlog.put("jobs", record(7, refused_count=2))
    backlog.put_back(*failed)
    assert taken(backlog)[0] == "mail"
    assert taken(backlog) == ("jobs", [record(7, refused_count=2)])


def test_beyond_its_bound_the_oldest_are_lost_and_counted() -> None:
    backlog = Backlog()
    for number in range(RECORDS_MAX + 10):
        backlog.put(f"e{number}", record(number))
    assert (backlog.count, backlog.dropped_count) == (RECORDS_MAX, 10)
    assert taken(backlog)[0] == "e10"
    backlog.drop_all()
    assert (backlog.count, backlog.dropped_count) == (0, 9 + RECORDS_MAX)


def test_ten_thousand_writes_are_spread_over_minutes() -> None:
    pace, now_s = Pace(), 1000.0
    for _ in range(10_000):
        now_s += pace.wait_s(now_s)
        pace.wrote(now_s)
    assert 480 < now_s - 1000 < 510


def test_the_first_few_are_written_at_once() -> None:
    pace = Pace()
    for _ in range(20):
        assert pace.wait_s(1000.0) == 0
        pace.wrote(1000.0)
    assert pace.wait_s(1000.0) > 0


@pytest.mark.parametrize(("refused", "most_s"), [(False, 30.0), (True, REFUSED_BACKOFF_MAX_S)])
def test_failures_are_tried_again_ever_later_and_refusals_in_minutes(refused: bool, most_s: float) -> None:
    pace = Pace()
    waits_s = []
    for _ in range(14):
        pace.failed(1000.0, refused=refused)
        waits_s.append(pace.wait_s(1000.0))
    assert waits_s[0] <= 0.5
    assert most_s / 2 <= waits_s[-1] <= most_s
    pace.wrote(2000.0)
    assert pace.wait_s(2000.0) == 0


def test_an_election_that_changes_hands_all_the_time_is_written_once_a_minute_and_others_do_not_wait_for_it() -> None:
    backlog, now_s, writes = Backlog(), 1000.0, 0
    for token in range(1, 3631):  # one each second
        backlog.put("flapping", record(token))
        if backlog.wait_s(now_s) == 0:
            assert taken(backlog, now_s)[0] == "flapping"
            writes += 1
        now_s += 1
    assert 60 <= writes <= 75
    backlog.put("calm", record(1))
    assert backlog.wait_s(now_s) == 0
    assert taken(backlog, now_s)[0] == "calm"
    assert backlog.wait_s(now_s) > 0  # type: ignore[operator]
    assert backlog.take(now_s) is None
    election, waiting = taken(backlog, now_s, in_turn=False)  # who leaves does not wait
    assert election == "flapping"
    assert 1 <= len(waiting) <= 61
    assert backlog.wait_s(now_s) is None
