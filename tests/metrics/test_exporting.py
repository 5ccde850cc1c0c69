"""Exporters in a program: a real office, a fork, an extra that is missing; and structlog over the log."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import tenure
from tenure.errors import ConfigError
from tenure.facts import publish
from tenure.facts.kinds import Elected, RefusedStale, Suspended, Waiting
from tenure.metrics import OpenTelemetry, Prometheus
from tenure.metrics.catalogue import METRICS
from tenure.model import Token
from tenure.testing.engines.binaries import tool
from tests.metrics.telling import Telling

FORKED = """
import os, sys
import tenure
from tenure.facts import publish
from tenure.facts.kinds import Elected
from tenure.metrics import Prometheus
from tenure.model import Holder, Token
metrics = Prometheus()
with tenure.subscribe(metrics) as subscription:
    publish(Elected(Token(7), 0), "memory://", "jobs", Holder("ada", 1, "0"))
    assert subscription.wait_until_told(20)
    child = os.fork()
    if child == 0:
        publish(Elected(Token(9), 0), "memory://", "others", Holder("ada", 1, "1"))
        assert subscription.wait_until_told(20)
        body = metrics.exposition()[0].decode()
        os._exit(0 if "jobs" not in body and 'tenure_leader{election="others",store="memory://"} 1.0' in body else 1)
    assert 'tenure_leader{election="jobs",store="memory://"} 1.0' in metrics.exposition()[0].decode()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_does_not_show_what_its_parent_leads() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], check=False, timeout=60).returncode == 0


def test_a_real_tenure_is_counted() -> None:
    metrics = Prometheus()

    def leader() -> float:
        assert subscription.wait_until_told(30)
        families = text_string_to_metric_families(metrics.exposition()[0].decode())
        samples = [sample for family in families for sample in family.samples if sample.name == "tenure_leader"]
        return sum(sample.value for sample in samples if sample.labels["election"] == "counted")

    async def body(_: tenure.Tenure) -> None:
        assert leader() == 1

    with tenure.subscribe(metrics) as subscription:
        anyio.run(tenure.Election(tenure.MemoryStore(), "counted").lead, body)
        assert leader() == 0
        assert subscription.wait_until_told(30)
        told = metrics.exposition()[0].decode()
    assert not subscription.failed
    assert 'election="counted",reason="resigned"' in told


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("prometheus_client", Prometheus, "metrics"), ("opentelemetry", OpenTelemetry, "otel")],
)
def test_a_missing_extra_is_named_with_its_command(
    module: str, make: Callable[[], object], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"must be installed: pip install 'tenure\[{extra}\]'"):
        make()


def test_structlog_writes_what_a_fact_says() -> None:
    """``record.fact`` is all that structlog needs to make an object of a line of ours."""

    def with_fact(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, **getattr(event["_record"], "fact", {})}

    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                with_fact,
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ]
        )
    )
    log = logging.getLogger("tenure")
    level, election = log.level, tenure.Election(tenure.MemoryStore(), "structured")

    async def body(_: tenure.Tenure) -> None:
        await anyio.lowlevel.checkpoint()

    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        anyio.run(election.lead, body)
        assert tenure.facts.log.LOG.wait_until_told(30)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    told = [line for line in lines if line.get("election") == "structured"]
    assert [line["fact"] for line in told] == ["elected", "left"]
    assert (told[0]["token"], told[1]["reason"], told[0]["holder"]) == (1, "resigned", str(election.holder))
    assert told[0]["event"] == "structured: elected: tenure 1 begins"


def test_a_failover_is_measured_by_who_waited() -> None:
    metrics = Prometheus()
    waiting = threading.Event()

    def hear(fact: tenure.Fact) -> None:
        if isinstance(fact.what, Waiting) and fact.election == "handed over":
            waiting.set()

    async def main() -> None:
        store = tenure.MemoryStore()

        async def until_somebody_waits(_: tenure.Tenure) -> None:
            async with anyio.create_task_group() as others:
                started.set()
                others.start_soon(anyio.to_thread.run_sync, waiting.wait, 30)

        async def nothing(_: tenure.Tenure) -> None:
            await anyio.lowlevel.checkpoint()

        started = anyio.Event()
        async with anyio.create_task_group() as both:
            both.start_soon(tenure.Election(store, "handed over").lead, until_somebody_waits)
            await started.wait()
            both.start_soon(tenure.Election(store, "handed over").lead, nothing)

    with tenure.subscribe(metrics) as subscription, tenure.subscribe(hear):
        anyio.run(main)
        assert subscription.wait_until_told(30)
        told = metrics.exposition()[0].decode().splitlines()
    counted = [line for line in told if "_count{" in line and 'store="memory://"' in line]
    counts = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in counted}
    assert counts["tenure_election_duration_seconds_count"] == 2
    assert counts["tenure_leaderless_seconds_count"] == 1
    assert counts["tenure_time_in_office_seconds_count"] == 2


def test_what_a_subscriber_missed_is_shown_under_its_name() -> None:
    def too_slow(_: tenure.Fact) -> None:
        assert go_on.wait(30)

    metrics, go_on = Prometheus(), threading.Event()
    with tenure.subscribe(too_slow, kinds=(Suspended,), queue_max=1) as slow:
        for _ in range(4):  # One is being told, one waits.
            publish(Suspended(0))
        shown = f'tenure_facts_dropped_total{{subscriber="{too_slow.__qualname__}"}} {float(slow.dropped)}'
        assert slow.dropped
        assert shown in metrics.exposition()[0].decode()
        go_on.set()


def test_promtool_finds_no_fault_with_a_scrape() -> None:
    """It knows the conventions of names, units and types."""
    told = Telling()
    told.everything()
    families = {family.name: family.samples for family in text_string_to_metric_families(told.text())}
    # Of what stands there without a value it would say nothing; and of those who miss facts there is always the log.
    assert [metric.name for metric in METRICS if not families[metric.name]] == []
    command = [tool("promtool"), "check", "metrics"]
    answer = subprocess.run(command, input=told.text(), capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


HOSTILE = 'x"} 1\n# TYPE evil counter\nevil{a="\\'


def test_no_name_can_add_a_line_or_a_label_to_a_scrape() -> None:
    """Names of elections are checked where they are stood in; addresses, sinks and fences are others' to choose."""
    told = Telling()
    told(Elected(Token(1), 0), election=HOSTILE, at_store=HOSTILE)
    told(RefusedStale(HOSTILE, 1, 2, HOSTILE), of_store=True)
    assert told.value("leader", store=HOSTILE, election=HOSTILE) == 1
    assert told.value("stale_writes_refused_total", sink=HOSTILE, fence=HOSTILE) == 1
    assert {family.name for family in text_string_to_metric_families(told.text())} == {one.name for one in METRICS}
    assert told.metrics.exposition()[0] == generate_latest(told.metrics.registry)


def test_a_real_tenure_is_a_span_and_instruments_of_opentelemetry(tmp_path: Path) -> None:
    reader, spans, tracers = InMemoryMetricReader(), InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider([reader])

    def seen() -> bool:
        assert subscription.wait_until_told(30)
        data = reader.get_metrics_data()
        found = {
            one.name
            for every in (data.resource_metrics if data else ())
            for scope in every.scope_metrics
            for one in scope.metrics
        }
        return {"tenure.leader", "tenure.renewal_margin"} <= found

    with (
        tenure.subscribe(OpenTelemetry(meters, tracers)) as subscription,
        tenure.sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store,
        tenure.sync.Election(store, "traced", ttl=1).once() as term,
    ):
        while not seen():
            term.sleep(0.05)
        token = term.token
    assert subscription.wait_until_told(30)
    assert not subscription.failed
    tried, led = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    assert (tried["tenure.outcome"], tried["tenure.token"], tried["tenure.election"]) == ("elected", token, "traced")
    assert (led["tenure.reason"], led["tenure.token"]) == ("resigned", token)
    margin_s = led["tenure.renewal_margin_least_s"]
    assert isinstance(margin_s, float)
    assert 0 < margin_s < 1
    meters.shutdown()
    tracers.shutdown()


def test_the_reference_has_every_metric_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text().splitlines()
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        name = metric.series[0] if len(metric.series) == 1 else metric.name
        assert f"| `{name}` | {metric.kind.value} | {labels} | {metric.help} |" in page
        if metric.buckets:
            assert f"| `{name}` | {', '.join(f'{bound:g}' for bound in metric.buckets)} |" in page
        for label in metric.labels:
            assert any(line.startswith("| ") and f"`{label}`" in line.split(" | ")[0] for line in page), label
