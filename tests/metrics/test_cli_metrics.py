"""``tenure metrics``: what it prints is what it writes, and what cannot be is one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.metrics.alerts import rules
from tenure.metrics.catalogue import METRICS
from tenure.metrics.grafana import dashboard
from tests.user import at_home


def tenure(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tenure", *words],
        cwd=folder,
        env=at_home(folder, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_rules_are_printed_and_written(tmp_path: Path) -> None:
    printed = tenure(tmp_path, "metrics", "rules")
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, rules(), "")
    written = tenure(tmp_path, "metrics", "rules", "--output", "tenure.yml", "--by", "cluster")
    assert (written.returncode, written.stdout) == (0, "")
    assert (tmp_path / "tenure.yml").read_text() == rules(by=["cluster"])


def test_the_dashboard_is_printed_and_written(tmp_path: Path) -> None:
    assert json.loads(tenure(tmp_path, "metrics", "grafana").stdout) == json.loads(json.dumps(dashboard()))
    assert tenure(tmp_path, "metrics", "grafana", "-o", "elections.json").returncode == 0
    assert json.loads((tmp_path / "elections.json").read_text())["uid"] == "tenure-elections"


def test_metrics_are_listed(tmp_path: Path) -> None:
    listed = tenure(tmp_path, "metrics", "list").stdout.splitlines()
    assert len(listed) == len(METRICS) + 1
    told = json.loads(tenure(tmp_path, "metrics", "list", "--json").stdout)["metrics"]
    assert {one["name"] for one in told} >= {"tenure_leader", "tenure_tenures_total", "tenure_renewal_margin_seconds"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("metrics", "rules", "--runbooks", "wiki"),
            "runbooks = wiki: must be a URL that begins with http:// or https://",
        ),
        (("metrics", "rules", "--by", "1a"), "by = 1a: must be the name of a label: letters, digits and underscores"),
        (
            ("metrics", "grafana", "-o", "no/such/x"),
            "--output = no/such/x: cannot be written: No such file or directory",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    answer = tenure(tmp_path, *words)
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", f"tenure: {line}\n")


def test_what_there_is_can_be_completed(tmp_path: Path) -> None:
    asked = {"_TENURE_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    found = tenure(tmp_path, **asked, COMP_WORDS="tenure metrics ").stdout
    assert [line.partition(",")[2] for line in found.splitlines()] == ["grafana", "list", "rules"]
