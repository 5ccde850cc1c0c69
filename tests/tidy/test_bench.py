"""The table of figures: what was not measured, or stands for nothing, is no success."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))  # last: some benches are called as packages are

from rows import Figure, NotMeasured, exactly, exit_code, figure_of, table, told

ROOT = Path(__file__).parents[2]
REACHED = figure_of(("quick", 1.0, 2.0, "s", False))


def test_a_bench_whose_engine_is_missing_says_so_in_the_table_and_fails(tmp_path: Path) -> None:
    nowhere = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "bench/run.py", "etcd", "consul"]
    answer = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False)
    assert answer.returncode == 1, answer.stderr
    for engine in ("etcd", "consul"):
        assert f"NOT MEASURED: {engine} is missing: " in answer.stdout
    assert "NOT MEASURED: the peer in tests/peers/go is missing: make engines" in answer.stdout


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [NotMeasured("slow", "the engine is missing")],
        [REACHED, NotMeasured("slow", "the engine is missing")],
        [REACHED, figure_of(("slow", 3.0, 2.0, "s", False))],
        [REACHED, figure_of(("rare", 1.0, 2.0, "/s", True))],
        [REACHED, exactly("keepalives per heartbeat", 0, 1)],
        [REACHED, exactly("keepalives per heartbeat", 2, 1)],
    ],
)
def test_a_run_fails_if_a_figure_is_missed_or_missing(rows: list[Figure | NotMeasured]) -> None:
    assert exit_code(rows) == 1


def test_a_run_succeeds_if_every_figure_reaches_its_goal_whatever_is_told_beside_it() -> None:
    assert exit_code([REACHED, exactly("watches", 1, 1), told("beside it", 99.0, "%")]) == 0


def test_a_note_stands_below_its_figure_and_a_reason_in_place_of_one() -> None:
    lines = list(table([Figure("lost", 1, 0, note="The engine did it."), NotMeasured("kept", "there is none")]))
    assert lines[1].endswith("MISSED")
    assert lines[2].strip() == "The engine did it."
    assert lines[3] == "kept  NOT MEASURED: there is none"
