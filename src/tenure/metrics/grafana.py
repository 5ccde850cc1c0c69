"""A dashboard for Grafana, as JSON. What it shows stands in ``panels``.

It is the classic form of a dashboard, which every Grafana since 9 imports and provisions.
"""

from typing import Any, Final

from tenure.metrics.catalogue import LEADER, STORE_LOST
from tenure.metrics.panels import ROWS, Panel, Query

Json = dict[str, Any]

_SCHEMA_VERSION: Final = 39
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> Json:
    """Return the dashboard, as Grafana imports it."""
    panels, top = list[Json](), 0
    for row in ROWS:
        left = 0
        for panel in row:
            panels.append(_panel(panel, len(panels) + 1, left, top))
            left += panel.width
        top += max(panel.height for panel in row)
    return {
        "uid": "tenure-elections",
        "title": "Elections",
        "description": "Elections of tenure: who leads, how close it was, what went wrong.",
        "tags": ["tenure"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, left: int, top: int) -> Json:
    steps = [{"value": value, "color": colour} for value, colour in panel.steps]
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "targets": [_target(query, letter) for query, letter in zip(panel.queries, "ABC", strict=False)],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": dict(panel.options),
    }
    if panel.kind in ("stat", "state-timeline"):
        made["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}
    if panel.kind == "table":
        renamed = {"Value #A": "token", "Value #B": "in office"}
        hidden = dict.fromkeys(("Time", "__name__", "job"), True)
        made["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": renamed}},
        ]
        lasting = {"matcher": {"id": "byName", "options": "in office"}, "properties": [{"id": "unit", "value": "s"}]}
        made["fieldConfig"]["overrides"] = [lasting]
    return made


def _target(query: Query, letter: str) -> Json:
    return {
        "refId": letter,
        "datasource": _SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": query.instant,
        "range": not query.instant,
        "format": query.format,
    }


def _variables() -> list[Json]:
    def of_label(label: str, query: str) -> Json:
        return {
            "name": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": label},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }

    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
        of_label("store", f"label_values({STORE_LOST.name}, store)"),
        of_label("election", f'label_values({LEADER.name}{{store=~"$store"}}, election)'),
    ]
