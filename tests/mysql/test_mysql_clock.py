"""The wall clock of a candidate leaps, and nothing comes of it."""

from tenure.testing.engines import MariaDbCluster
from tests.leaping_wall import OUTLIVED, leapt


def test_a_wall_clock_that_leaps_by_hours_ends_no_tenure(cluster: MariaDbCluster) -> None:
    told = leapt(cluster.url)
    assert told.stdout.splitlines() == OUTLIVED, told.stderr
    assert told.returncode == 0
