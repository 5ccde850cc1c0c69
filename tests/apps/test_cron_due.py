"""What is due follows from the marks and the time: nothing twice, and nothing left out that is not told."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.cron.due import Due, due, jitter_ms, newest
from tenure.apps.cron.jobs import Job, Key
from tenure.apps.cron.schedule import At, Every, Expression

MINUTE_MS = 60_000
WEEK_MS = 7 * 86_400_000


def job(**settings: Any) -> Job:
    return Job("j", settings.pop("schedule", Every(MINUTE_MS)), ("true",), **settings)


def times(found: Due) -> list[int]:
    return [key.scheduled_ms // MINUTE_MS for key in found.runs]


def test_the_time_of_the_mark_is_not_due_again() -> None:
    assert due([job()], {"j": 5 * MINUTE_MS}, 5 * MINUTE_MS + 59_999) == Due((), (), {})


def test_a_clock_that_went_back_makes_nothing_due() -> None:
    assert due([job(catch_up="all")], {"j": 5 * MINUTE_MS}, 3 * MINUTE_MS) == Due((), (), {})


def test_a_job_without_a_mark_is_not_looked_at() -> None:
    assert due([job()], {}, WEEK_MS) == Due((), (), {})


@pytest.mark.parametrize(
    ("settings", "run", "missed"),
    [
        ({"catch_up": "all"}, [6, 7, 8, 9], None),
        ({"catch_up": "all", "catch_up_limit": 2}, [8, 9], 7),
        ({"catch_up": "all", "catch_up_within_s": 130.0}, [8, 9], 7),
        ({"catch_up": "latest"}, [9], 8),
        ({"catch_up": "latest", "catch_up_within_s": 10.0}, [], 9),
        ({"catch_up": "skip"}, [9], 8),
        ({"catch_up": "skip", "catch_up_within_s": 10.0}, [], 9),
    ],
)
def test_what_was_missed_is_caught_up_with_as_the_job_says(settings: Any, run: list[int], missed: int | None) -> None:
    found = due([job(**settings)], {"j": 5 * MINUTE_MS}, 9 * MINUTE_MS + 30_000)
    assert times(found) == run
    assert [gap.key.scheduled_ms // MINUTE_MS for gap in found.gaps] == ([] if missed is None else [missed])
    assert found.marks == {"j": 9 * MINUTE_MS}


@given(
    st.sampled_from(["skip", "latest", "all"]),
    st.integers(1, 20),
    st.lists(st.integers(0, 10 * MINUTE_MS), min_size=1, max_size=12),
    st.integers(1000, 3 * MINUTE_MS),
)
def test_no_time_is_due_twice_and_none_is_left_out_untold(
    catch_up: Any, limit: int, naps_ms: list[int], every_ms: int
) -> None:
    one = job(schedule=Every(every_ms), catch_up=catch_up, catch_up_limit=limit)
    marks, now_ms = {"j": 0}, 0
    run: list[int] = []
    told: list[tuple[int, int]] = []
    for nap_ms in naps_ms:
        now_ms += nap_ms
        found = due([one], marks, now_ms)
        run += [key.scheduled_ms for key in found.runs]
        told += [(gap.after_ms, gap.key.scheduled_ms) for gap in found.gaps]
        marks = {**marks, **found.marks}
    assert run == sorted(set(run))
    for at_ms in range(every_ms, now_ms + 1, every_ms):
        missed = any(after_ms < at_ms <= until_ms for after_ms, until_ms in told)
        assert (at_ms in run) != missed, at_ms


def test_a_week_of_missed_seconds_costs_no_more_than_what_is_wanted() -> None:
    for schedule in (Every(1000), Expression("* * * * * *", "Europe/Berlin")):
        one = job(schedule=schedule, catch_up="all", catch_up_limit=100)
        began_s = time.process_time()
        found = due([one], {"j": 0}, WEEK_MS)
        assert time.process_time() - began_s < 1
        assert len(found.runs) == 100
        assert found.marks == {"j": WEEK_MS}
        assert len(found.gaps) == 1


def test_the_newest_times_of_a_rare_schedule_are_found_however_long_ago() -> None:
    yearly = Expression("0 0 1 1 *")
    assert len(newest(yearly, 0, 40 * 366 * 86_400_000, 5)) == 5
    assert newest(At(5), 0, WEEK_MS, 3) == [5]


def test_runs_of_many_jobs_are_in_the_order_of_their_times() -> None:
    jobs = [Job("slow", Every(7000), ("true",), catch_up="all"), Job("fast", Every(2000), ("true",), catch_up="all")]
    found = due(jobs, {"slow": 0, "fast": 0}, 20_000)
    assert [key.scheduled_ms for key in found.runs] == sorted(key.scheduled_ms for key in found.runs)
    assert len(found.runs) == 12


@given(st.integers(0, WEEK_MS), st.integers(1, 60_000))
def test_jitter_follows_from_the_key_and_stays_within_its_bound(at_ms: int, most_ms: int) -> None:
    assert 0 <= jitter_ms(Key("j", at_ms), most_ms) <= most_ms
    assert jitter_ms(Key("j", at_ms), most_ms) == jitter_ms(Key("j", at_ms), most_ms)
    assert jitter_ms(Key("j", at_ms), 0) == 0


def test_jitter_spreads_the_runs_of_one_job_and_those_of_one_time() -> None:
    most_ms = 60_000
    for keys in (
        [Key("j", number * MINUTE_MS) for number in range(100)],
        [Key(f"j{number}", MINUTE_MS) for number in range(100)],
    ):
        drawn = [jitter_ms(key, most_ms) for key in keys]
        assert len(set(drawn)) > 90
        assert {at_ms * 4 // (most_ms + 1) for at_ms in drawn} == {0, 1, 2, 3}  # in every quarter
    assert {jitter_ms(Key("j", number), 1) for number in range(100)} == {0, 1}  # Both bounds are reached.
