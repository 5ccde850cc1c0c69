"""When jobs are due: the same times for every leader, each once, also when clocks are changed."""

from contextlib import suppress
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.cron.schedule import At, Every, Expression, Schedule, iso
from tenure.errors import ConfigError

DAY_MS = 86_400_000
# Both changes of clocks in 2026 are in there.
MOMENTS = st.integers(1_767_225_600_000, 1_798_761_600_000)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Africa/Cairo"]
EXPRESSIONS = [
    "30 1 * * *",
    "30 2 * * *",
    "0,30 2 * * *",
    "*/15 * * * *",
    "0 */6 * * *",
    "5 0 1,15 * *",
    "0 9 * * MON-FRI",
]
SCHEDULES = st.one_of(
    st.builds(Expression, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES)),
    st.builds(Every, st.integers(10, 3 * DAY_MS)),
    st.builds(At, MOMENTS),
)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def times(schedule: Schedule, after: str, count: int) -> list[str]:
    return [iso(at_ms) for at_ms in islice(schedule.after(ms(after)), count)]


def test_a_daily_job_runs_once_when_an_hour_comes_twice() -> None:
    # 01:30 in New York comes at 05:30 and again at 06:30.
    job = Expression("30 1 * * *", "America/New_York")
    assert times(job, "2026-11-01T04:00:00Z", 2) == ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]


def test_a_leader_that_comes_between_the_two_does_not_run_it_again() -> None:
    job = Expression("30 1 * * *", "America/New_York")
    assert times(job, "2026-11-01T05:30:00Z", 1) == ["2026-11-02T06:30:00Z"]
    assert times(job, "2026-11-01T06:10:00Z", 1) == ["2026-11-02T06:30:00Z"]  # 01:10 for the second time


def test_a_time_that_never_comes_is_the_first_moment_after_the_gap() -> None:
    # 02:00 to 03:00 is left out: 03:00 is 07:00 in UTC.
    job = Expression("30 2 * * *", "America/New_York")
    assert times(job, "2026-03-08T00:00:00Z", 2) == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]


def test_two_times_that_never_come_are_one_run() -> None:
    job = Expression("0,30 2 * * *", "America/New_York")
    assert times(job, "2026-03-08T00:00:00Z", 2) == ["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"]


def test_an_hourly_job_runs_in_both_hours_of_one_name_and_in_none_that_is_left_out() -> None:
    job = Expression("30 * * * *", "Europe/Berlin")
    assert times(job, "2026-10-24T23:59:00Z", 3) == [f"2026-10-25T0{hour}:30:00Z" for hour in range(3)]
    assert times(job, "2026-03-28T23:59:00Z", 3) == [f"2026-03-29T0{hour}:30:00Z" for hour in range(3)]


def test_an_interval_does_not_depend_on_when_a_leader_began() -> None:
    assert times(Every(300_000), "2026-01-01T00:02:17Z", 2) == ["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"]


def test_a_moment_comes_once() -> None:
    once = At(ms("2026-12-01T03:00:00Z"))
    assert times(once, "2026-12-01T02:59:59Z", 5) == ["2026-12-01T03:00:00Z"]
    assert times(once, "2026-12-01T03:00:00Z", 5) == []


@given(SCHEDULES, MOMENTS, st.integers(0, 40 * DAY_MS))
def test_what_is_due_does_not_depend_on_from_where_one_counts(schedule: Schedule, start_ms: int, later_ms: int) -> None:
    middle_ms, end_ms = start_ms + later_ms, start_ms + later_ms + 2 * DAY_MS

    def between(after_ms: int) -> list[int]:
        return [at_ms for at_ms in islice(_until(schedule, after_ms, end_ms), 20_000) if at_ms > middle_ms]

    if not isinstance(schedule, Every) or later_ms // schedule.every_ms < 10_000:
        assert between(start_ms)[:50] == between(middle_ms)[:50]


def _until(schedule: Schedule, after_ms: int, end_ms: int):  # type: ignore[no-untyped-def]
    for at_ms in schedule.after(after_ms):
        if at_ms > end_ms:
            return
        yield at_ms


@given(SCHEDULES, MOMENTS)
def test_times_rise_and_are_later_than_the_mark(schedule: Schedule, mark_ms: int) -> None:
    found = [mark_ms, *islice(schedule.after(mark_ms), 20)]
    assert found == sorted(set(found))


@given(st.sampled_from(["30 1 * * *", "15 3 * * *", "59 23 * * *"]), st.sampled_from(ZONES), MOMENTS)
def test_a_daily_job_runs_once_on_every_day_of_its_zone(expression: str, zone: str, start_ms: int) -> None:
    found = list(islice(Expression(expression, zone).after(start_ms), 30))
    days = [datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).date().toordinal() for at_ms in found]
    assert days == list(range(days[0], days[0] + 30))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("61 1 * * *", "minute '61' (field 1) must be made of 0-59"),
        ("0 24 * * *", "hour '24' (field 2) must be made of 0-23"),
        ("0 0 32 * *", "day-of-month '32' (field 3)"),
        ("0 0 30 2 *", "never comes: none of its months has such a day"),
        ("0 0 0 31 4,6 *", "never comes: none of its months has such a day"),
        ("0 0 * 13 *", "month '13' (field 4)"),
        ("0 0 * * MUN", "day-of-week 'MUN' (field 5)"),
        ("99 0 0 * * *", "second '99' (field 1)"),
        ("0 0 0 * * 8", "day-of-week '8' (field 6)"),
        ("*/0 * * * *", "minute '*/0' (field 1)"),
        ("0 0 * *", "and has 4"),
        ("@daily", "and has 1"),
        ("", "and has 0"),
        ("1 " * 200, "and has 200"),
    ],
)
def test_a_bad_expression_is_told_by_its_field(expression: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        Expression(expression)
    assert told in str(error.value)


@given(st.text(alphabet="0123456789*/-,#LW SUNMOJAB²\0", max_size=30))
def test_whatever_is_no_expression_is_a_config_error(text: str) -> None:
    schedule = None
    with suppress(ConfigError):
        schedule = Expression(text)
    assert schedule is None or next(schedule.after(0)) > 0


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "Europe", "x" * 5000, "A\0B"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ConfigError, match="must be a time zone that this machine knows"):
        Expression("0 0 * * *", zone)
