"""The examples do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.testing.engines.binaries import newest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_leader_serves_a_hundred_thousand_reads_without_asking_the_engine_and_none_after_its_validity() -> None:
    command = [sys.executable, str(EXAMPLES / "lease_reads.py"), "100000"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout.splitlines()
    served = re.fullmatch(r"(\d+) reads served in office; the engine was asked for (\d+) renewals", told[0])
    assert served is not None
    assert int(served[1]) == 100_000
    assert told[1] == "requests to the engine beyond renewals: 0"
    assert re.fullmatch(r"tenure 1 is over: store-gone; then 1000 of 1000 reads were refused", told[2])


def test_of_a_hundred_kinds_of_operation_97_go_on_while_nobody_leads_and_3_wait() -> None:
    command = [sys.executable, str(EXAMPLES / "three_of_a_hundred.py")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout
    anybodys = (
        r"97 kinds: (\d+) done, (\d+) of them while nobody led, of each kind (\d+) or more; the longest took \S+ s"
    )
    leaders = r"3 kinds: (\d+) done, (\d+) of them while nobody led; each stood still for (\S+) s or more"
    seen = re.fullmatch(
        rf"nobody led for (\S+) s\n{anybodys}\n{leaders}\nchanges lost or made twice: (\d+)\n", told, re.ASCII
    )
    assert seen is not None, told
    gap_s, standstill_s = float(seen[1]), float(seen[7])
    done, meanwhile, least, leaders_done, leaders_meanwhile, wrong = (int(seen[group]) for group in (2, 3, 4, 5, 6, 8))
    assert least >= 1  # Each of the 97 went on, with no process there that could have led.
    assert done > meanwhile >= 97 * least
    assert leaders_done >= 2 * 3  # Each of the three was done before and after,
    assert leaders_meanwhile == 0
    assert standstill_s >= gap_s > 0  # and none of them in between.
    assert wrong == 0


def played(mode: str) -> list[str]:
    """What the example with real PostgreSQL servers says."""
    newest("postgresql")  # or the test is skipped, and the end of the run says so
    command = [sys.executable, str(EXAMPLES / "postgresql_primary" / "show.py"), mode]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=230).stdout.splitlines()


@pytest.mark.timeout(240)  # It copies a whole database five times, which takes a while where others are at work.
def test_the_most_advanced_replica_succeeds_and_no_acknowledged_commit_is_lost_nor_accepted_by_an_old_primary() -> None:
    told = iter(played("synchronous"))
    assert next(told).startswith("-- the primary stalls")
    ahead = next(told).split()[0]
    failover = re.fullmatch(
        r"(n\d) was the primary, now (n\d) is; first commit acknowledged after [\d.]+ s", next(told)
    )
    assert failover is not None
    old, new = failover.groups()
    assert new == ahead
    assert re.fullmatch(r"acknowledged \d{2,}, of these lost 0", next(told))
    assert re.fullmatch(rf"a write to {new} under the old token: refused: token \d+ is stale: .*", next(told))
    assert next(told) == f"a write to {old}, started as it was: not acknowledged"
    assert next(told) == f"a write to {old}, back with its agent: refused: it is read-only"
    assert next(told).startswith("-- the primary's agent freezes")
    assert next(told).startswith(f"{new} was the primary, now ")
    assert next(told) == f"a write to {new}, which still runs: not acknowledged"
    assert next(told) == f"a write to {new}, whose agent woke: refused: it is read-only"
    assert re.fullmatch(r"acknowledged \d{2,}, of these lost 0", next(told))
    assert next(told) == "-- the primary's agent is told to hand over"
    handover = re.fullmatch(r"(n\d) was the primary, now (n\d) is; .*", next(told))
    assert handover is not None
    old, new = handover.groups()
    assert old != new
    # Demoted before promoted. A minus sign would be another order, and does not match.
    stopped = rf"{old} was stopped \d+\.\d+ s before {new} was promoted, and its agent ended with 0"
    assert re.fullmatch(stopped, next(told))
    assert re.fullmatch(rf"{old} was asked and served \d+\.\d+ s before that for the last time", next(told))
    assert re.fullmatch(r"acknowledged \d{2,}, of these lost 0", next(told))
    assert not list(told)


@pytest.mark.timeout(240)
def test_without_waiting_for_replicas_the_same_failover_loses_acknowledged_commits() -> None:
    told = played("asynchronous")
    [(acknowledged, lost)] = re.findall(r"acknowledged (\d+), of these lost (\d+)", "\n".join(told))
    assert 20 <= int(lost) < int(acknowledged)
