"""What OpenTelemetry is told: the metrics that Prometheus has, and a span for each tenure and each try to take office."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tenure.clock import VirtualClock
from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact, What
from tenure.metrics import OpenTelemetry
from tenure.metrics.catalogue import ELECTION_TIME, METRICS, Kind
from tenure.model import Bid, Incumbent, Token
from tests.metrics.telling import ADA, BOB, SECOND_NS, STORE

WALL_S = 1_700_000_000


class Told:
    """Call it with what has happened; ask it what was exported."""

    def __init__(self) -> None:
        self._reader, self._exporter = InMemoryMetricReader(), InMemorySpanExporter()
        self.meters, self.tracers = MeterProvider([self._reader]), TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.clock = VirtualClock()
        self.telling = OpenTelemetry(self.meters, self.tracers, clock=self.clock)

    def __call__(self, what: What, at_s: float, *, wall_off_s: float = 0) -> None:
        at_ns = int(at_s * SECOND_NS)
        self.clock.advance(at_ns - self.clock.now())
        self.telling(Fact(what, at_ns, WALL_S + at_s + wall_off_s, STORE, "jobs", ADA))

    def metrics(self) -> dict[str, Metric]:
        self.clock.advance(SECOND_NS)  # Another moment.
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def value(self, name: str, **attributes: str) -> float:
        points = [point for point in self.metrics()[name].data.data_points if point.attributes == attributes]
        (point,) = points
        return float(point.value)  # type: ignore[union-attr]

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.meters.shutdown()
    made.tracers.shutdown()


def test_instruments_have_the_meaning_of_the_metrics(told: Told) -> None:
    told(what.Stood(10 * SECOND_NS), 0)
    told(what.Elected(Token(7), 0), 2)
    told(what.Overstayed(Token(7), SECOND_NS), 10)
    jobs = {"store": STORE, "election": "jobs"}
    assert told.value("tenure.leader", **jobs) == 1
    assert told.value("tenure.token", **jobs) == 7
    assert told.value("tenure.overstays", **jobs) == 1
    assert told.value("tenure.overstay", **jobs) > 1  # While the body runs on.
    told(what.Left(Token(7), Reason.LAPSED), 60)
    assert told.value("tenure.tenures", **jobs, reason="lapsed") == 1
    assert told.value("tenure.leader", **jobs) == 0
    (duration,) = told.metrics()["tenure.election_duration"].data.data_points
    assert (duration.count, duration.sum) == (1, 2)  # type: ignore[union-attr]
    assert duration.explicit_bounds == ELECTION_TIME.buckets  # type: ignore[union-attr]


def test_every_metric_is_offered_under_its_name_and_unit(told: Told) -> None:
    bid = Bid("jobs", ADA, 1, SECOND_NS)
    story: tuple[What, ...] = (
        what.Stood(SECOND_NS),
        what.Waiting(Incumbent("jobs", BOB, Token(1))),
        what.Woken(),
        what.SealFailed(Token(2), "Marks", "no", True),
        what.Elected(Token(2), 0),
        what.Renewed((bid,), SECOND_NS, 1),
        what.Overstayed(Token(2), 1),
        what.RefusedStale("Marks", 1, 2),
        what.RefusedUnverified("Marks", 3, 2),
        what.Suspended(SECOND_NS),
        what.StoreFailed("renew", what.Outcome.UNKNOWN, ""),
        what.Left(Token(2), Reason.LAPSED),
        what.Elected(Token(3), 0),
        what.Renewed((bid,), SECOND_NS, 1),
    )
    for number, happened in enumerate(story):
        told(happened, number)
    units = {name: metric.unit for name, metric in told.metrics().items()}
    from_a_store = {"tenure.leaders_seen", "tenure.standbys", "tenure.queue_position", "tenure.store_findings"}
    assert units == {metric.otel_name: metric.otel_unit for metric in METRICS if metric.otel_name not in from_a_store}


def test_names_become_those_of_prometheus_again() -> None:
    """By the rules of OpenTelemetry's own exporters: dots are underscores, then the unit, then _total on what only rises."""
    for metric in METRICS:
        unit = {"s": "_seconds", "": ""}[metric.otel_unit]
        total = "_total" if metric.kind is Kind.COUNTER else ""
        assert metric.otel_name.replace(".", "_") + unit + total in {metric.series[0], metric.name}


def test_a_tenure_and_what_led_to_it_are_spans(told: Told) -> None:
    told(what.Stood(10 * SECOND_NS), 0)
    told(what.Waiting(Incumbent("jobs", BOB, Token(6))), 1)
    told(what.Woken(), 20)
    told(what.Elected(Token(7), 0), 21.5)
    told(what.Renewed((Bid("jobs", ADA, 1, 10 * SECOND_NS),), 3 * SECOND_NS, 1), 25)
    told(what.Ending(Token(7), Reason.LAPSED), 40)
    told(what.Overstayed(Token(7), SECOND_NS // 2), 41)
    told(what.Left(Token(7), Reason.LAPSED), 43)
    lost, won, led = told.spans()
    assert _dated(lost) == (0, 1)
    assert (lost.attributes or {})["tenure.outcome"] == "waiting"
    assert _dated(won) == (20, 21.5)
    assert won.attributes == {
        "tenure.store": STORE,
        "tenure.election": "jobs",
        "tenure.holder": str(ADA),
        "tenure.outcome": "elected",
        "tenure.token": 7,
    }
    assert (led.name, _dated(led), led.parent) == ("tenure.tenure", (21.5, 43), None)
    assert [link.context for link in led.links] == [won.get_span_context()]
    assert led.status.status_code is StatusCode.ERROR
    attributes = dict(led.attributes or {})
    assert (attributes["tenure.token"], attributes["tenure.reason"]) == (7, "lapsed")
    assert attributes["tenure.renewal_margin_least_s"] == 3
    assert [(event.name, dict(event.attributes or {})) for event in led.events] == [
        ("ending", {"tenure.reason": "lapsed"}),
        ("overstayed", {"tenure.late_by_s": 0.5}),
    ]


def test_a_tenure_that_was_resigned_is_no_error(told: Told) -> None:
    told(what.Stood(SECOND_NS), 0)
    told(what.Elected(Token(1), 0), 1)
    told(what.Left(Token(1), Reason.RESIGNED), 2)
    told(what.Withdrew(), 3)
    assert [(span.name, span.status.status_code) for span in told.spans()] == [
        ("tenure.election", StatusCode.UNSET),
        ("tenure.tenure", StatusCode.UNSET),
    ]


def test_a_clock_that_was_set_back_makes_no_span_that_ends_before_it_begins(told: Told) -> None:
    told(what.Elected(Token(1), 0), 0)
    told(what.Left(Token(1), Reason.RESIGNED), 10, wall_off_s=-3600)
    (led,) = told.spans()
    began, ended = _dated(led)
    assert ended - began == 10


def _dated(span: ReadableSpan) -> tuple[float, float]:
    return (span.start_time or 0) / 1e9 - WALL_S, (span.end_time or 0) / 1e9 - WALL_S
