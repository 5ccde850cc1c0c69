"""What waits to be written: little, however long the store is away; and not all at once when it is back."""

import pytest

from tenure.apps.history.backlog import RECORDS_MAX, Backlog, Pace
from tenure.apps.history.records import TENURES_MAX, Record
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


def test_who_is_lost_with_its_end_is_not_remembered_for_it() -> None:
    backlog = Backlog()
    for number in range(RECORDS_MAX + 10):  # Ends are lost last, so there is nothing else.
        backlog.wrote(f"e{number}", [record(number)])
        backlog.put(f"e{number}", record(number, ended_s=T0_S + 1, reason="resigned"))
    assert (backlog.count, len(backlog._open)) == (RECORDS_MAX, RECORDS_MAX)
    backlog.drop_all()
    assert len(backlog._open) == 0


def test_ten_thousand_writes_are_spread_over_minutes() -> None:
    pace, now_s = Pace(), 1000.0
    for _ in range(10_000):
        now_s += pace.wait_s(now_s)
        pace.answered(now_s)
    assert 480 < now_s - 1000 < 510


def test_the_first_few_are_written_at_once() -> None:
    pace = Pace()
    for _ in range(20):
        assert pace.wait_s(1000.0) == 0
        pace.answered(1000.0)
    assert pace.wait_s(1000.0) > 0


def test_a_store_that_does_not_answer_is_asked_ever_later() -> None:
    pace = Pace()
    waits_s = []
    for _ in range(14):
        pace.failed(1000.0)
        waits_s.append(pace.wait_s(1000.0))
    assert waits_s[0] <= 0.5
    assert 15.0 <= waits_s[-1] <= 30.0
    pace.answered(2000.0)
    assert pace.wait_s(2000.0) == 0


def test_an_election_whose_end_is_awaited_keeps_no_more_than_a_log_takes() -> None:
    backlog = Backlog()
    backlog.wrote("bad", [record(1)])
    for token in range(1, RECORDS_MAX + 1):
        backlog.put("bad", ended(token))
    backlog.put("good", record(1))
    assert backlog.dropped_count == 0
    records = taken(backlog)[1]
    assert [one.token for one in records] == [1, *range(RECORDS_MAX - TENURES_MAX + 2, RECORDS_MAX + 1)]
    assert taken(backlog)[0] == "good"


def test_of_more_than_there_is_room_for_an_election_keeps_the_end_that_is_awaited() -> None:
    backlog = Backlog()
    for number in range(200):
        backlog.wrote(f"e{number}", [record(1)])
        for token in range(1, TENURES_MAX + 1):
            backlog.put(f"e{number}", ended(token))
    assert backlog.dropped_count == 200 * TENURES_MAX - backlog.count
    assert all(taken(backlog)[1][0].key == ended(1).key for _ in range(200))


def ended(token: int) -> Record:
    return record(token, ended_s=T0_S + 1, reason="resigned")


def spent(backlog: Backlog) -> None:
    """Have an election written as often as it may be at once, the last time with token 10 in office."""
    for token in range(1, 11):
        backlog.put("jobs", record(token))
        backlog.wrote(*taken(backlog))


def test_who_was_written_as_in_office_says_at_once_how_that_ended_and_the_next_beginning_pays_for_it() -> None:
    backlog = Backlog()
    spent(backlog)
    backlog.put("jobs", ended(10))
    assert backlog.wait_s(1000.0) == 0
    backlog.wrote(*taken(backlog))
    backlog.put("jobs", record(11))
    assert backlog.wait_s(1000.0) == pytest.approx(120)
    backlog.put("jobs", ended(11))  # Nobody has read that it began.
    assert backlog.wait_s(1000.0) == pytest.approx(120)


def test_an_end_that_comes_while_its_beginning_is_written_does_not_wait_either() -> None:
    backlog = Backlog()
    for token in range(1, 10):
        backlog.put("jobs", record(token))
        backlog.wrote(*taken(backlog))
    backlog.put("jobs", record(10))
    under_way = taken(backlog)
    backlog.put("jobs", ended(10))
    backlog.wrote(*under_way)
    assert backlog.wait_s(1000.0) == 0


def test_an_end_that_comes_while_its_beginning_is_written_in_vain_waits_with_it() -> None:
    backlog = Backlog()
    spent(backlog)
    backlog.put("jobs", record(11))
    under_way = taken(backlog, 1060.0)
    backlog.put("jobs", ended(11))
    backlog.put_back(*under_way)
    assert backlog.wait_s(1060.0) == pytest.approx(60)


def test_an_end_is_not_left_out_for_what_came_while_its_beginning_was_written() -> None:
    backlog = Backlog()
    backlog.put("jobs", record(1))
    under_way = taken(backlog)
    for token in range(1, 2 * TENURES_MAX):
        backlog.put("jobs", ended(token))
    backlog.wrote(*under_way)
    assert ended(1) in taken(backlog)[1]
    assert backlog._open == {"jobs": {record(1).key}}


def test_of_two_tenures_of_one_process_that_overlap_each_says_at_once_how_it_ended() -> None:
    """The first overstays while the second, on another thread, leads already."""
    backlog = Backlog()
    spent(backlog)
    backlog.put("jobs", record(11))
    backlog.wrote(*taken(backlog, 1060.0))
    for token in (10, 11):
        backlog.put("jobs", ended(token))
        assert backlog.wait_s(1060.0) == 0
        assert taken(backlog, 1060.0) == ("jobs", [ended(token)])
        backlog.wrote("jobs", [ended(token)])


def test_ends_that_never_come_are_not_awaited_beyond_what_a_log_has() -> None:
    backlog = Backlog()
    for token in range(1, 1000):
        backlog.wrote("jobs", [record(token)])
    assert len(backlog._open["jobs"]) == TENURES_MAX


def test_an_end_that_will_not_be_written_is_not_waited_for() -> None:
    backlog = Backlog()
    backlog.wrote("jobs", [record(1)])
    backlog.put("jobs", ended(1))
    backlog.drop(*taken(backlog))
    assert (backlog.dropped_count, backlog._open) == (1, {})


def test_an_end_goes_before_what_waits_for_longer_and_behind_it_once_it_has_failed() -> None:
    backlog = Backlog()
    spent(backlog)
    backlog.put("mail", record(1))
    backlog.put("jobs", ended(10))
    failed = taken(backlog)
    assert failed[0] == "jobs"
    backlog.put_back(*failed)
    assert backlog.wait_s(1000.0) == 0
    assert [taken(backlog)[0], taken(backlog)[0]] == ["mail", "jobs"]


def test_an_end_is_lost_for_the_bound_only_after_all_beginnings() -> None:
    backlog = Backlog()
    spent(backlog)
    for number in range(RECORDS_MAX - 1):
        backlog.put(f"e{number}", record(1))
    backlog.put("jobs", ended(10))  # It has waited for the shortest time, and goes first.
    for number in range(10):
        backlog.put(f"f{number}", record(1))
    assert backlog.dropped_count == 10
    assert taken(backlog) == ("jobs", [ended(10)])


def test_an_end_that_is_lost_for_its_bound_is_not_waited_for() -> None:
    backlog = Backlog()
    for number in range(RECORDS_MAX + 1):
        backlog.wrote(f"e{number}", [record(1)])
        backlog.put(f"e{number}", ended(1))
    assert (backlog.count, backlog.dropped_count) == (RECORDS_MAX, 1)
    backlog.put("e0", record(2))
    backlog.drop_all()
    assert (backlog.wait_s(1000.0), backlog.take(1000.0)) == (None, None)


def test_an_end_that_is_tried_again_and_again_owes_one_write_and_not_all_of_them() -> None:
    backlog, now_s = Backlog(), 1000.0
    spent(backlog)
    backlog.put("jobs", ended(10))
    for _ in range(100):  # The store is away for an hour.
        backlog.put_back(*taken(backlog, now_s))
        now_s += 30
    backlog.wrote(*taken(backlog, now_s))
    backlog.put("jobs", record(11))
    assert backlog.wait_s(now_s) == pytest.approx(120)


def test_a_beginning_is_not_written_on_account_with_the_end_before_it() -> None:
    backlog = Backlog()
    spent(backlog)
    backlog.put("jobs", ended(10))
    backlog.put("jobs", record(11))
    assert taken(backlog) == ("jobs", [ended(10)])
    backlog.wrote("jobs", [ended(10)])
    assert backlog.wait_s(1000.0) == pytest.approx(120)
    assert taken(backlog, 1120.0) == ("jobs", [record(11)])


def test_an_election_that_is_taken_again_while_its_end_waits_grows_no_faster() -> None:
    backlog, now_s, writes = Backlog(), 1000.0, 0
    backlog.put("flapping", record(1))
    for token in range(1, 3631):
        if backlog.wait_s(now_s) == 0:
            backlog.wrote(*taken(backlog, now_s))
            writes += 1
        backlog.put("flapping", ended(token))
        backlog.put("flapping", record(token + 1))
        now_s += 1
    assert 60 <= writes <= 75


def test_an_election_that_is_led_for_a_moment_again_and_again_grows_no_faster() -> None:
    backlog, now_s, writes = Backlog(), 1000.0, 0
    for token in range(1, 1801):
        for said in (record(token), ended(token)):
            backlog.put("flapping", said)
            if backlog.wait_s(now_s) == 0:
                backlog.wrote(*taken(backlog, now_s))
                writes += 1
            now_s += 1
    assert 60 <= writes <= 75


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
