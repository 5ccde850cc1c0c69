"""Which run begins next: as many at once as may be, in the order of their times, and a bounded number waits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.cron.jobs import Job, Key
from tenure.apps.cron.queue import Begin, GiveUp, Queue, Waiting
from tenure.apps.cron.schedule import Every


def queue(room: int = 10, **of_each: Any) -> Queue:
    names = ("a", "b")
    return Queue({name: Job(name, Every(1000), ("true",), **of_each) for name in names}, room)


def waiting(
    job: str, at_ms: int, not_before_ms: int | None = None, attempt: int = 0, *, by_hand: bool = False
) -> Waiting:
    not_before_ms = at_ms if not_before_ms is None else not_before_ms
    return Waiting(Key(job, at_ms), not_before_ms, "retry", attempt, by_hand=by_hand)


def add(queue: Queue, *keys: tuple[str, int]) -> None:
    for job, at_ms in keys:
        queue.add(waiting(job, at_ms))


def begun(queue: Queue, now_ms: int) -> list[tuple[str, int]]:
    decisions = list(queue.ready(now_ms))
    assert all(isinstance(decision, Begin) for decision in decisions), decisions
    return [(decision.run.key.job, decision.run.key.scheduled_ms) for decision in decisions]


def test_a_run_begins_when_its_time_has_come_and_there_is_room() -> None:
    runs = queue(room=1)
    add(runs, ("b", 2), ("a", 1))
    assert begun(runs, 0) == []
    assert begun(runs, 5) == [("a", 1)]
    assert runs.wake_at_ms is None
    runs.released(Key("a", 1))
    assert begun(runs, 5) == [("b", 2)]


def test_a_run_that_is_known_is_not_added_again_and_that_of_an_unknown_job_never() -> None:
    runs = queue(overlap="allow")
    add(runs, ("a", 1), ("a", 1), ("stranger", 1))
    assert begun(runs, 5) == [("a", 1)]
    add(runs, ("a", 1))
    assert begun(runs, 5) == []


def test_runs_of_one_job_wait_for_each_other() -> None:
    runs = queue(overlap="wait")
    add(runs, ("a", 1), ("a", 2), ("b", 3))
    assert begun(runs, 5) == [("a", 1), ("b", 3)]
    runs.released(Key("a", 1))
    assert begun(runs, 5) == [("a", 2)]


def test_runs_of_one_job_run_beside_each_other_up_to_its_own_limit() -> None:
    runs = queue(overlap="allow", max_parallel=2)
    add(runs, ("a", 1), ("a", 2), ("a", 3), ("b", 4))
    assert begun(runs, 5) == [("a", 1), ("a", 2), ("b", 4)]
    runs.released(Key("a", 2))
    assert begun(runs, 5) == [("a", 3)]


def test_a_run_is_skipped_while_another_of_its_job_is_under_way() -> None:
    runs = queue(overlap="skip")
    add(runs, ("a", 1), ("a", 2))
    first, second = runs.ready(5)
    assert isinstance(first, Begin)
    assert isinstance(second, GiveUp)
    assert second.run.key == Key("a", 2)


def test_of_those_that_wait_the_oldest_is_given_up_when_there_are_too_many() -> None:
    runs = queue(overlap="wait", catch_up_limit=2)
    add(runs, *(("a", at_ms) for at_ms in range(1, 5)))
    decisions = list(runs.ready(9))
    assert [type(decision) for decision in decisions] == [Begin, GiveUp]
    assert decisions[1].run.key == Key("a", 2)
    runs.released(Key("a", 1))
    assert begun(runs, 9) == [("a", 3)]


def test_a_run_that_is_begun_again_waits_for_its_pause() -> None:
    runs = queue()
    add(runs, ("a", 1))
    assert begun(runs, 1) == [("a", 1)]
    runs.released(Key("a", 1), waiting("a", 1, 50, attempt=1))
    assert begun(runs, 49) == []
    assert runs.wake_at_ms == 50
    assert begun(runs, 50) == [("a", 1)]


@pytest.mark.parametrize("overlap", ["wait", "skip"])
def test_a_run_that_was_begun_is_not_skipped_while_another_is_under_way_but_comes_next(overlap: str) -> None:
    runs = queue(overlap=overlap)
    add(runs, ("a", 2))
    assert begun(runs, 5) == [("a", 2)]
    runs.add(waiting("a", 1, attempt=1))  # It was found late.
    assert begun(runs, 5) == []
    runs.released(Key("a", 2))
    assert begun(runs, 5) == [("a", 1)]


def test_a_run_that_was_begun_goes_before_those_of_its_job_that_were_not() -> None:
    runs = queue(overlap="wait")
    add(runs, ("a", 1), ("a", 2), ("b", 3))
    runs.add(waiting("a", 3, attempt=1))
    assert begun(runs, 5) == [("a", 3), ("b", 3)]
    runs.add(waiting("a", 4, attempt=2))
    assert begun(runs, 5) == []
    ran = []
    for last in (3, 4, 1):
        runs.released(Key("a", last))
        ran += begun(runs, 5)
    assert ran == [("a", 4), ("a", 1), ("a", 2)]


def test_others_of_a_job_stay_behind_a_run_that_is_in_its_pause() -> None:
    runs = queue(overlap="wait")
    add(runs, ("a", 1), ("a", 2))
    assert begun(runs, 5) == [("a", 1)]
    runs.released(Key("a", 1), waiting("a", 1, 50, attempt=1))
    add(runs, ("a", 10), ("b", 10))
    assert begun(runs, 49) == [("b", 10)]
    assert begun(runs, 50) == [("a", 1)]
    runs.released(Key("a", 1))
    assert begun(runs, 50) == [("a", 2)]


def test_others_of_a_job_are_skipped_while_a_run_is_in_its_pause_and_it_is_not() -> None:
    runs = queue(overlap="skip")
    add(runs, ("a", 1))
    assert begun(runs, 1) == [("a", 1)]
    runs.released(Key("a", 1), waiting("a", 1, 50, attempt=1))
    add(runs, ("a", 10))
    [skipped] = runs.ready(10)
    assert isinstance(skipped, GiveUp)
    assert skipped.run.key == Key("a", 10)
    assert begun(runs, 50) == [("a", 1)]


def test_runs_that_may_overlap_run_beside_one_that_is_in_its_pause() -> None:
    runs = queue(overlap="allow")
    runs.add(waiting("a", 1, 50, attempt=1))
    add(runs, ("a", 2))
    assert begun(runs, 5) == [("a", 2)]


def test_a_run_that_is_begun_again_stands_where_its_time_is_and_not_behind_all_that_was_due_meanwhile() -> None:
    runs = queue(room=1)
    add(runs, ("a", 1), *(("b", at_ms) for at_ms in range(2, 40)))
    assert begun(runs, 50) == [("a", 1)]
    runs.released(Key("a", 1), waiting("a", 1, 55, attempt=1))
    assert begun(runs, 50) == [("b", 2)]
    runs.released(Key("b", 2))
    assert begun(runs, 60) == [("a", 1)]  # Of b there are 37, each of which was due before this pause had ended.


def test_a_job_whose_runs_fail_first_keeps_pace_with_the_others_on_a_machine_that_has_fallen_behind() -> None:
    runs = queue(room=1)
    add(runs, *((job, at_ms) for at_ms in range(20) for job in "ab"))
    ended: list[str] = []
    failed: set[tuple[str, int]] = set()
    for now_ms in range(100, 200):  # Each attempt takes a millisecond.
        for job, at_ms in runs.under_way:
            again = job == "a" and (job, at_ms) not in failed
            failed |= {(job, at_ms)} if again else set()
            runs.released(Key(job, at_ms), waiting(job, at_ms, now_ms + 1, attempt=1) if again else None)
            ended += [] if again else [job]
        begun(runs, now_ms)
    assert (ended.count("a"), ended.count("b")) == (20, 20)
    ahead = [ended[:count].count("b") - ended[:count].count("a") for count in range(len(ended))]
    assert max(ahead) <= 2


@pytest.mark.parametrize("overlap", ["wait", "skip"])
def test_what_people_ask_for_waits_for_what_is_under_way_and_is_not_skipped(overlap: str) -> None:
    runs = queue(overlap=overlap, catch_up_limit=1)
    add(runs, ("a", 1))
    assert begun(runs, 1) == [("a", 1)]
    runs.add(waiting("a", 2, 0, by_hand=True))
    runs.add(waiting("a", 3, 0, by_hand=True))
    assert begun(runs, 3) == []
    for last in (1, 2):
        runs.released(Key("a", last))
        assert begun(runs, 5) == [("a", last + 1)]


@pytest.mark.parametrize("overlap", ["wait", "skip"])
def test_what_people_ask_for_does_not_wait_for_a_run_that_is_in_its_pause_which_goes_on_afterwards(
    overlap: str,
) -> None:
    runs = queue(overlap=overlap)
    add(runs, ("a", 1))
    assert begun(runs, 1) == [("a", 1)]
    runs.released(Key("a", 1), waiting("a", 1, 50, attempt=1))
    runs.add(waiting("a", 10, 0, by_hand=True))
    assert begun(runs, 10) == [("a", 10)]
    assert begun(runs, 50) == []
    runs.released(Key("a", 10))
    assert begun(runs, 50) == [("a", 1)]


def test_what_people_ask_for_goes_before_what_is_due() -> None:
    runs = queue(room=1)
    add(runs, ("a", 1), ("a", 2), ("b", 3))
    runs.add(waiting("b", 4, 0, by_hand=True))
    assert begun(runs, 5) == [("b", 4)]


def test_a_run_that_was_begun_counts_towards_no_limit_and_is_not_dropped_by_one() -> None:
    runs = queue(overlap="wait", catch_up_limit=2)
    add(runs, ("a", 9))
    assert begun(runs, 9) == [("a", 9)]
    runs.add(waiting("a", 1, attempt=1))
    runs.add(waiting("a", 2, attempt=1))
    add(runs, ("a", 3), ("a", 4), ("a", 5))
    [dropped] = runs.ready(9)
    assert isinstance(dropped, GiveUp)
    assert dropped.run.key == Key("a", 3)
    ran = []
    for last in (9, 1, 2, 4):
        runs.released(Key("a", last))
        ran += begun(runs, 9)
    assert ran == [("a", 1), ("a", 2), ("a", 4), ("a", 5)]


@given(
    st.sampled_from(["wait", "skip", "allow"]),
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 40), st.integers(0, 2), st.booleans()),
        max_size=30,
    ),
    st.data(),
)
def test_whatever_waits_is_begun_or_skipped_in_the_end_and_what_was_begun_is_begun_again(
    overlap: str, room: int, wanted: list[tuple[str, int, int, int, bool]], data: st.DataObject
) -> None:
    runs = queue(room, overlap=overlap, catch_up_limit=2)
    first = {
        Key(job, at_ms): waiting(job, at_ms, *more, by_hand=by_hand) for job, at_ms, *more, by_hand in reversed(wanted)
    }
    left = list(first)
    began: list[Key] = []
    given_up: set[Key] = set()
    for now_ms in range(200):
        for key in left[: data.draw(st.integers(0, 3))] if now_ms < 40 else left:
            left.remove(key)
            runs.add(first[key])
        for decision in runs.ready(now_ms):
            if isinstance(decision, Begin):
                began.append(decision.run.key)
                assert decision.run.not_before_ms <= now_ms
            else:
                assert not decision.run.is_owed
                given_up.add(decision.run.key)
        under_way = sorted(runs.under_way)
        assert len(under_way) <= room
        assert overlap == "allow" or len({key.job for key in under_way}) == len(under_way)
        if under_way and data.draw(st.booleans()) | (now_ms > 40):
            key = under_way[0]
            again = began.count(key) == 1 and key.scheduled_ms % 3 == 0
            runs.released(key, waiting(*key, now_ms + 5, attempt=first[key].attempt + 1) if again else None)
    assert not runs.under_way
    assert not given_up & set(began)
    assert given_up | set(began) == set(first)
    assert all(began.count(key) == 2 for key in began if key.scheduled_ms % 3 == 0)
