"""The alert rules: each fires when it should and not when it should not, by promtool; and knows what it speaks of."""

import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tenure.cli.commands import tenure as everything
from tenure.errors import ConfigError
from tenure.metrics.alerts import rules
from tenure.metrics.catalogue import METRICS
from tenure.testing.engines.binaries import tool

CASES = Path(__file__).parent / "alerts"
RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
# What Prometheus itself puts on every series, and what a distribution has besides.
GIVEN = {"job", "instance", "le"}
SERIES = {series: {*metric.labels, *GIVEN} for metric in METRICS for series in metric.series}

# What somebody might make of a rule: the alert, what stands in it, and what stands there instead.
MUTATIONS = [
    ("FrequentElections", "> 3", "> 4"),
    ("FrequentElections", "> 3", "> 2"),
    ("FrequentElections", 'reason="resigned"', 'reason="lapsed"'),
    ("FrequentElections", "changes(", "resets("),
    ("LongElection", "10(", "30("),
    ("LongElection", "10(", "5("),
    ("LongElection", "> 0.5", "> 1.5"),
    ("LongElection", "increase(", "rate("),
    ("NoLeader", "for: 1m", "for: 10m"),
    ("NoLeader", "for: 1m", "for: 15s"),
    ("NoLeader", "(tenure_waiting) == 1", "(tenure_waiting) >= 0"),
    ("NoLeader", "(tenure_leaders_seen) > 0", "(tenure_leaders_seen) > 1"),
    ("NoLeader", "(tenure_standbys) > 0", "(tenure_standbys) >= 0"),
    ("NoLeader", "(tenure_standbys) > 0", "(tenure_standbys) > 2"),
    ("NoLeader", "[1h]", "[5m]"),
    ("NoLeader", "== max by", ">= 0 * max by"),
    ("TwoLeaders", "(sqlite|memory)", "(memory)"),
    ("TwoLeaders", "for: 2m", "for: 30s"),
    ("TwoLeaders", "for: 2m", "for: 10m"),
    ("TwoLeaders", '.*"}) > 1', '.*"}) > 2'),
    ("MarginShrinking", "> 0.05", "> 0.1"),
    ("MarginShrinking", "> 0.05", "> 0.03"),
    ("MarginShrinking", 'le="0.3"', 'le="0.2"'),
    ("MarginShrinking", 'le="0.3"', 'le="0.5"'),
    ("MarginShrinking", "for: 5m", "for: 0s"),
    ("StaleWriteRefused", "> 0\n", "> 1\n"),
    ("StaleWriteRefused", "offset 10m", "offset 30s"),
    ("StaleWriteRefused", "[10m]", "[1m]"),
    ("StaleWriteRefused", "[10m]", "[1h]"),
    ("StaleWriteRefused", "sink, fence,", "sink,"),
    ("Overstay", "> 0\n", "> 1\n"),
    ("Overstay", "offset 10m", "offset 30s"),
    ("Overstay", "[10m]", "[1m]"),
    ("Overstay", "[10m]", "[1h]"),
    ("QuorumAtRisk", ">= 0.5", ">= 0.2"),
    ("QuorumAtRisk", ">= 0.5", "> 0.5"),
    ("QuorumAtRisk", "> 0.1", "> 0.3"),
    ("QuorumAtRisk", "> 0.1", "> 0.05"),
    ("QuorumAtRisk", "unreachable|unknown", "refused"),
    ("QuorumAtRisk", 'subject="members", level!="good"', 'level!="good"'),
    ("QuorumAtRisk", "for: 1m", "for: 15s"),
]


def alerts(text: str) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


ALERTS = alerts(rules())


def slug(alert: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", alert.removeprefix("Tenure")).lower()


def tried(text: str, case: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "tenure.yml").write_text(text)
    copy = folder / case.name
    copy.write_text(case.read_text())
    return subprocess.run([tool("promtool"), "test", "rules", copy], capture_output=True, text=True, check=False)


def mutated(alert: str, old: str, new: str) -> str:
    """The rules with one of them changed."""
    before, mark, rest = rules().partition(f"- alert: Tenure{alert}\n")
    rule, end, after = rest.partition("runbook_url:")
    assert old in rule, (alert, old)
    return before + mark + rule.replace(old, new) + end + after


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    for name, text in {
        "shipped": rules(),
        "made to fit": rules("https://docs.example.org/runbooks/", ["cluster", "namespace"]),
    }.items():
        file = tmp_path / f"{name}.yml"
        file.write_text(text)
        command = [tool("promtool"), "check", "rules", "--lint-fatal", str(file)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_fires_when_it_should_and_not_when_it_should_not(alert: str, tmp_path: Path) -> None:
    case = CASES / f"{slug(alert)}.yml"
    answer = tried(rules(), case, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    told = yaml.safe_load(case.read_text())["tests"]
    checks = [check for test in told for check in test.get("alert_rule_test", [])]
    assert {bool(check.get("exp_alerts")) for check in checks if check["alertname"] == alert} == {True, False}


@pytest.mark.parametrize(("alert", "old", "new"), MUTATIONS)
def test_a_changed_rule_is_noticed(alert: str, old: str, new: str, tmp_path: Path) -> None:
    answer = tried(mutated(alert, old, new), CASES / f"{slug(f'Tenure{alert}')}.yml", tmp_path)
    assert answer.returncode == 1, answer.stdout
    assert "FAILED" in answer.stdout + answer.stderr
    assert "parse error" not in answer.stdout + answer.stderr  # It has to fail by what it says.


def test_every_alert_has_mutations() -> None:
    assert {f"Tenure{alert}" for alert, _, _ in MUTATIONS} == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"runbooks/{slug(alert)}.html"
    page = (RUNBOOKS / f"{slug(alert)}.md").read_text()
    assert alert in page
    for heading in ("## What it means", "## What to look at", "## What to do"):
        assert heading in page, heading


def test_runbooks_speak_of_metrics_and_commands_that_there_are() -> None:
    names = {metric.name for metric in METRICS} | set(SERIES)
    for page in RUNBOOKS.glob("*.md"):
        text = page.read_text()
        assert set(re.findall(r"\btenure_\w+", text)) <= names, page.name
        for line in re.findall(r"`(tenure [a-z][^`]*)`", text):
            command: click.Command = everything
            path = line.split()[1:]
            while path and isinstance(command, click.Group):
                found = command.get_command(click.Context(command), path.pop(0))
                assert found is not None, (page.name, line)
                command = found
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in path if word.startswith("--")} <= known, (page.name, line)


def test_the_playbook_goes_read_only_restores_and_keeps_tokens_from_going_back_for_every_store() -> None:
    text = (RUNBOOKS / "quorum-loss.md").read_text()
    steps = re.findall(r"^## (?:(\d)\. )?(.+)$", text, re.MULTILINE)
    assert [number for number, _ in steps if number] == ["1", "2", "3", "4", "5", "6"]
    assert [title for number, title in steps if number in {"2", "4", "5"}] == [
        "Go read-only",
        "Else restore",
        "See that tokens have not gone back",
    ]
    table = text.partition("How tokens are kept from going back")[2].partition("## 5")[0]
    stores = (RUNBOOKS.parent / "reference" / "stores.md").read_text()
    for store in ("etcd", "Kubernetes", "ZooKeeper", "Consul", "PostgreSQL", "MySQL", "SQLite"):
        assert store in stores
        assert re.search(rf"^\| {store}", table, re.MULTILINE), store
    assert "quorum-loss.md" in (RUNBOOKS / "quorum-at-risk.md").read_text()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_nothing_that_no_exporter_shows(alert: str) -> None:
    expression = ALERTS[alert]["expr"]
    named = re.findall(r"(tenure_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    for series, selector in named:
        assert set(re.findall(r"(\w+)\s*[=!]", re.sub(r'"[^"]*"', "", selector))) <= SERIES[series], series
    together = {label for labels in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for label in labels.split(", ")}
    used = {label for series, _ in named for label in SERIES[series]}
    assert together <= used
    templates = " ".join(ALERTS[alert]["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", templates)) <= together


def test_the_cases_speak_of_series_that_there_are() -> None:
    for case in CASES.glob("*.yml"):
        for test in yaml.safe_load(case.read_text())["tests"]:
            for given in test["input_series"]:
                name, _, labels = given["series"].partition("{")
                assert set(re.findall(r"(\w+)=", labels)) - {"le"} | {"job", "instance"} == SERIES[name] - {"le"}, given


def test_rules_are_made_to_fit() -> None:
    made = alerts(rules("https://docs.example.org/runbooks", ["cluster"]))
    assert made["TenureNoLeader"]["annotations"]["runbook_url"] == "https://docs.example.org/runbooks/no-leader.html"
    for rule in made.values():
        assert re.findall(r"(?:by|on) \((?!cluster, )", rule["expr"]) == []
    assert "(cluster, sink, fence, job, instance)" in made["TenureStaleWriteRefused"]["expr"]


@pytest.mark.parametrize(
    ("runbooks", "by", "refused"),
    [
        ("ftp://x", [], "runbooks = ftp://x: must be a URL that begins with http"),
        ("https://x\n  evil: 1", [], "must be a URL"),
        ("", ["a b"], "by = a b: must be the name of a label"),
    ],
)
def test_what_would_break_the_rules_is_refused(runbooks: str, by: list[str], refused: str) -> None:
    with pytest.raises(ConfigError, match=refused):
        rules(runbooks, by)
