"""The dashboard: Grafana's form is kept, and every query asks for what there is."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from tenure.metrics.catalogue import METRICS
from tenure.metrics.grafana import dashboard
from tenure.testing.engines.binaries import tool

SCHEMA = json.loads((Path(__file__).parent / "dashboard.schema.json").read_text())
SERIES = {series: {*metric.labels, "job", "instance", "le"} for metric in METRICS for series in metric.series}
MADE = dashboard()


def queries(made: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in made["panels"] for target in panel["targets"]]


def test_the_dashboard_has_the_form_of_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(json.dumps(MADE)), SCHEMA)
    assert len({panel["id"] for panel in MADE["panels"]}) == len(MADE["panels"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made["panels"][0].update(kind="stat"),
        lambda made: made["panels"][0]["gridPos"].update(w=25),
        lambda made: made["panels"][0]["targets"][0].update(expr=""),
        lambda made: made["panels"][0]["fieldConfig"]["defaults"]["thresholds"]["steps"][0].update(value=0),
        lambda made: made["templating"]["list"][1].pop("query"),
        lambda made: made.pop("uid"),
    ],
)
def test_a_dashboard_out_of_form_is_noticed(spoil: Any) -> None:
    made = json.loads(json.dumps(MADE))
    spoil(made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_panels_lie_beside_each_other_and_not_on_top() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        return {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}

    for one, other in combinations(MADE["panels"], 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in MADE["panels"])


def test_every_query_asks_for_a_series_that_there_is() -> None:
    asked = [*queries(MADE), *(str(variable["query"]) for variable in MADE["templating"]["list"])]
    named = [found for query in asked for found in re.findall(r"(tenure_\w+)(?:\{([^}]*)\})?", query)]
    assert named
    for series, selector in named:
        assert set(re.findall(r"(\w+)=", re.sub(r'"[^"]*"', "", selector))) <= SERIES[series], series


def test_every_metric_of_the_issue_can_be_seen() -> None:
    asked = " ".join(queries(MADE))
    unseen = [metric.name for metric in METRICS if not any(series in asked for series in metric.series)]
    # Of a share and its seconds one is shown; what a doctor found is an alert; the rest is told by who led when.
    assert unseen == [
        "tenure_elected",
        "tenure_time_in_office_seconds",
        "tenure_renewal_margin_seconds",
        "tenure_store_findings",
    ]


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    given = [query.replace("$__rate_interval", "5m").replace("$store", ".*") for query in queries(MADE)]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(given)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    command = [tool("promtool"), "check", "rules", "--lint=none", str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
