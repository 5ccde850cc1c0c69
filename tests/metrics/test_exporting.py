"""Exporters in a program: a real office, a fork, an extra that is missing; and structlog over the log."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable

import anyio
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

import tenure
from tenure.errors import ConfigError
from tenure.metrics import OpenTelemetry, Prometheus

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
