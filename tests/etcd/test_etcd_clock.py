"""The wall clock of a candidate leaps, and nothing comes of it."""

from tenure.testing.engines import EtcdCluster
from tests.leaping_wall import OUTLIVED, leapt


def test_a_wall_clock_that_leaps_by_hours_ends_no_tenure(newest: EtcdCluster) -> None:
    told = leapt(newest.url)
    assert told.stdout.splitlines() == OUTLIVED, told.stderr
    assert told.returncode == 0


def test_a_tenure_that_was_dated_by_the_wall_clock_would_not_outlast_the_first_leap(newest: EtcdCluster) -> None:
    told = leapt(newest.url, "wall")
    assert "is over: lapsed" in told.stderr  # What is logged on a thread of its own may come before it or after it.
    assert "renewed" not in told.stdout
