"""Which versions of etcd the doctor warns of."""

import pytest

from tenure.stores.etcd.examine import BROKEN
from tenure.stores.examining import Level
from tenure.stores.judging import judge_versions


@pytest.mark.parametrize(
    ("version", "level", "told"),
    [
        ("3.4.0", Level.WARNING, "upgrade to 3.4.31"),
        ("3.4.23", Level.WARNING, "upgrade to 3.4.31"),
        ("3.4.30", Level.WARNING, "upgrade to 3.4.31"),
        ("3.4.31", Level.GOOD, ""),
        ("3.5.0", Level.WARNING, "upgrade to 3.5.3"),
        ("3.5.2", Level.WARNING, "upgrade to 3.5.3"),
        ("3.5.3", Level.WARNING, "3.5.13 or newer"),
        ("3.5.12", Level.WARNING, "3.5.13 or newer"),
        ("3.5.13", Level.GOOD, ""),
        ("3.6.0", Level.GOOD, ""),
        ("3.7.3", Level.GOOD, ""),
    ],
)
def test_versions_that_lose_writes_or_end_living_leases_are_warned_of(version: str, level: Level, told: str) -> None:
    finding = judge_versions({"h1": version}, BROKEN)
    assert finding.level is level
    assert told in str(finding)
