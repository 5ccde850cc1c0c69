"""The examples do what they say."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_leader_serves_a_hundred_thousand_reads_without_asking_the_engine_and_none_after_its_validity() -> None:
    command = [sys.executable, str(EXAMPLES / "lease_reads.py"), "100000"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout.splitlines()
    served = re.fullmatch(r"(\d+) reads served in office; the engine was asked for (\d+) renewals", told[0])
    assert served is not None
    assert int(served[1]) == 100_000
    assert told[1] == "requests to the engine beyond renewals: 0"
    assert re.fullmatch(r"tenure 1 is over: store-gone; then 1000 of 1000 reads were refused", told[2])
