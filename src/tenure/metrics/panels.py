"""What the dashboard shows, row by row: what is wrong on top, how close it was below. ``grafana`` makes it Grafana's."""

from dataclasses import dataclass
from typing import Any, Final

from tenure.metrics import catalogue as of
from tenure.metrics.catalogue import Kind, Metric

_GREEN, _ORANGE, _RED = "green", "orange", "red"
_CALM: Final = ((None, _GREEN),)


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel, and what its series are called."""

    expr: str
    legend: str = ""
    instant: bool = False
    format: str = "time_series"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: how wide of 24, how high, and what it asks."""

    kind: str
    title: str
    help: str
    width: int
    height: int
    queries: tuple[Query, ...]
    unit: str = "short"
    steps: tuple[tuple[float | None, str], ...] = _CALM
    options: tuple[tuple[str, Any], ...] = ()


def _of(metric: Metric, suffix: str = "", **labels: str) -> str:
    """Return a metric's series, of the stores and elections that were chosen above."""
    chosen = {name: f'{name}=~"${name}"' for name in ("store", "election") if name in metric.labels}
    matched = [*chosen.values(), *(f'{name}="{value}"' for name, value in labels.items())]
    series = f"{metric.name}_{suffix}" if suffix else metric.series[0]
    assert series in metric.series, series
    return series + (f"{{{', '.join(matched)}}}" if matched else "")


def _quantile(share: float, metric: Metric) -> Query:
    assert metric.kind is Kind.HISTOGRAM, metric.name
    rates = f"sum by (le, store) (rate({_of(metric, 'bucket')}[$__rate_interval]))"
    return Query(f"histogram_quantile({share}, {rates})", f"p{share * 100:g} {{{{store}}}}")


def _increase(metric: Metric, by: str, over: str = "$__rate_interval", legend: str = "") -> Query:
    return Query(f"sum by ({by}) (increase({_of(metric)}[{over}]))", legend)


_BAD_FROM_ONE: Final = ((None, _GREEN), (1, _RED))
_WARN_FROM_ONE: Final = ((None, _GREEN), (1, _ORANGE))
_STAT: Final = (
    ("colorMode", "background"),
    ("graphMode", "none"),
    ("reduceOptions", {"calcs": ["lastNotNull"], "fields": "", "values": False}),
)
_LEADER_BY: Final = f"max by (store, election) ({_of(of.LEADER)})"


def _stat(title: str, help_: str, expr: str, steps: tuple[tuple[float | None, str], ...]) -> Panel:
    return Panel("stat", title, help_, 4, 4, (Query(f"({expr}) or vector(0)", instant=True),), "short", steps, _STAT)


def _over_time(
    title: str,
    help_: str,
    *queries: Query,
    unit: str = "short",
    steps: tuple[tuple[float | None, str], ...] = _CALM,
    height: int = 8,
) -> Panel:
    """Return a third of a row, in which lines run."""
    return Panel("timeseries", title, help_, 8, height, queries, unit, steps)


_AT_A_GLANCE: Final = (
    _stat(
        "Without a leader",
        "Elections in which somebody stands and nobody leads. Runbook: no-leader.",
        f"count(({_LEADER_BY} == 0) and (max by (store, election) ({_of(of.WAITING)}) == 1))",
        _BAD_FROM_ONE,
    ),
    _stat(
        "With two leaders",
        "Elections that more than one process takes itself for the leader of. A hand-over may show here for one scrape. Runbook: two-leaders.",
        f"count(sum by (store, election) ({_of(of.LEADER)}) > 1 or max by (store, election) ({_of(of.LEADERS_SEEN)}) > 1)",
        _BAD_FROM_ONE,
    ),
    _stat("Led", "Elections that have a leader.", f"count({_LEADER_BY} == 1)", ((None, "blue"),)),
    _stat(
        "Stores lost",
        "How many processes get no answer from a store. Runbook: quorum-at-risk.",
        f"sum({_of(of.STORE_LOST)})",
        _BAD_FROM_ONE,
    ),
    _stat(
        "Overstays, 1 h",
        "Bodies that still ran when their tenure was over. Runbook: overstay.",
        f"round(sum(increase({_of(of.OVERSTAYS)}[1h])))",
        _BAD_FROM_ONE,
    ),
    _stat(
        "Stale writes refused, 1 h",
        "What sinks kept a leader that was succeeded from writing. Runbook: stale-write-refused.",
        f"round(sum(increase({_of(of.STALE)}[1h])))",
        _WARN_FROM_ONE,
    ),
)

_WHO: Final = (
    Panel(
        "state-timeline",
        "Who led when",
        "One line for each process of each election: filled while it led. A time at which no line of an election is filled is a time without a leader.",
        16,
        10,
        (Query(f"max by (election, instance) ({_of(of.LEADER)})", "{{election}} on {{instance}}"),),
        "short",
        ((None, "transparent"), (1, _GREEN)),
        (("mergeValues", True), ("showValue", "never"), ("rowHeight", 0.8)),
    ),
    Panel(
        "table",
        "Leaders now",
        "Who leads, since when, with which token.",
        8,
        10,
        (
            Query(f"{_of(of.TOKEN)} and {_of(of.LEADER)} == 1", instant=True, format="table"),
            Query(f"time() - {_of(of.ELECTED_AT)}", instant=True, format="table"),
        ),
    ),
)

_FAILOVERS: Final = (
    _over_time(
        "Election duration",
        "From standing, or from hearing that the office may be free, to taking it. Runbook: long-election.",
        _quantile(0.5, of.ELECTION_TIME),
        _quantile(0.99, of.ELECTION_TIME),
        unit="s",
        steps=((None, _GREEN), (10, _RED)),
    ),
    _over_time(
        "Without a leader, as candidates saw it",
        "From hearing that the office may be free until somebody was known to be in it. What came before, the rest of the lease of a leader that died, is not in it.",
        _quantile(0.5, of.LEADERLESS),
        _quantile(0.99, of.LEADERLESS),
        unit="s",
    ),
    _over_time(
        "Tenures that ended, by reason",
        "Resigned is by choice; everything else was lost. Runbook: frequent-elections.",
        _increase(of.ENDED, "reason", legend="{{reason}}"),
    ),
)

_MARGINS: Final = (
    Panel(
        "heatmap",
        "What was left of the lease at each renewal",
        "As a share of the ttl. By default a renewal in time leaves 0.75, and at 0.125 the body is told to stop. Runbook: margin-shrinking.",
        8,
        8,
        (
            Query(
                f"sum by (le) (increase({_of(of.MARGIN_RATIO, 'bucket')}[$__rate_interval]))",
                "{{le}}",
                format="heatmap",
            ),
        ),
        "percentunit",
    ),
    _over_time(
        "The ten that came closest",
        "The least that was left of the validity in the running tenure.",
        Query(f"bottomk(10, {_of(of.MARGIN_LEAST)})", "{{election}} on {{instance}}"),
        unit="s",
    ),
    _over_time(
        "How long renewals take",
        "From asking to the answer.",
        _quantile(0.5, of.RENEWAL_TIME),
        _quantile(0.99, of.RENEWAL_TIME),
        unit="s",
    ),
)

_STORES: Final = (
    _over_time(
        "Requests without a good answer",
        "By what is known of them. Runbook: quorum-at-risk.",
        _increase(of.STORE_ERRORS, "store, operation, outcome", legend="{{operation}} {{outcome}} {{store}}"),
    ),
    _over_time(
        "Refused by sinks",
        "Stale: by a larger token. Unverified: nobody confirmed the token. Not sealed: an office was granted, and not taken.",
        _increase(of.STALE, "sink, fence", legend="stale {{sink}} {{fence}}"),
        _increase(of.UNVERIFIED, "sink, fence", legend="unverified {{sink}} {{fence}}"),
        _increase(of.SEAL_FAILURES, "sink", legend="not sealed {{sink}}"),
    ),
    _over_time(
        "Time that was lost",
        "Seconds in which stores did not answer, bodies overstayed, machines slept.",
        _increase(of.STORE_LOST_TIME, "store", legend="lost {{store}}"),
        _increase(of.OVERSTAY, "election", legend="overstay {{election}}"),
        _increase(of.SUSPENDED, "instance", legend="slept {{instance}}"),
        unit="s",
    ),
)

_REST: Final = (
    _over_time(
        "Standbys",
        "How many wait, and in which place, where somebody looks at the store.",
        Query(f"max by (election) ({_of(of.STANDBYS)})", "waiting for {{election}}"),
        Query(f"max by (election, instance) ({_of(of.QUEUE_POSITION)})", "place of {{instance}} in {{election}}"),
        height=7,
    ),
    _over_time(
        "Elections by process",
        "How many each process leads, and waits in.",
        Query(f"sum by (instance, state) ({_of(of.ELECTIONS)})", "{{instance}} {{state}}"),
        height=7,
    ),
    _over_time(
        "What is missing here",
        "Facts that a subscriber was too slow for, or failed with; and elections beyond those that have series of their own.",
        _increase(of.DROPPED, "instance, subscriber", legend="dropped {{subscriber}} on {{instance}}"),
        _increase(of.FAILED, "instance, subscriber", legend="failed {{subscriber}} on {{instance}}"),
        Query(f"{_of(of.FOLDED)} > 0", "folded on {{instance}}"),
        height=7,
    ),
)

ROWS: Final = (_AT_A_GLANCE, _WHO, _FAILOVERS, _MARGINS, _STORES, _REST)
