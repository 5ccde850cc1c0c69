"""The wall clock of a candidate leaps, and nothing comes of it."""

import subprocess
import sys
from pathlib import Path

from tenure.testing.engines import EtcdCluster

ROOT = Path(__file__).parents[2]


def leap(cluster: EtcdCluster, *control: str) -> subprocess.CompletedProcess[str]:
    """Have a candidate lead while its wall clock leaps."""
    command = [sys.executable, "-m", "tests.etcd.leaping_wall", cluster.url, *control]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_a_wall_clock_that_leaps_by_hours_ends_no_tenure(newest: EtcdCluster) -> None:
    told = leap(newest)
    assert told.stdout.splitlines() == [
        "renewed 3600 {3600.0}",
        "renewed -3600 {-3600.0}",
        "renewed 100000000 {100000000.0}",
        "Elected Left",
    ], told.stderr
    assert told.returncode == 0


def test_a_tenure_that_was_dated_by_the_wall_clock_would_not_outlast_the_first_leap(newest: EtcdCluster) -> None:
    told = leap(newest, "wall")
    assert "is over: lapsed" in told.stderr  # What is logged on a thread of its own may come before it or after it.
    assert "renewed" not in told.stdout
