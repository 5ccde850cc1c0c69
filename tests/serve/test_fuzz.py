"""Rubbish of every kind, made from the sidecar's own description of itself: no mistake of ours comes of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from tenure.serve.api import ROUTES
from tenure.serve.openapi import document_of
from tests.serve.outside import BEARER, TOKEN, staged

STREAMS = {route.name for route in ROUTES if route.kind == "text/event-stream"}  # They do not end.
# What may be answered with 5xx: that the store, or this sidecar, is not ready, and that a store cannot pass on a word.
NOT_NOW = {501, 503}


@pytest.mark.timeout(
    600
)  # Twenty seconds on a quiet machine. Making up requests is work for a processor, and others may have it.
def test_no_request_that_can_be_made_is_a_mistake_of_the_sidecar(tmp_path: Path) -> None:
    schema = schemathesis.openapi.from_dict(document_of(ROUTES))
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    operations = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]  # or it raises
    names = {operation.definition.raw["operationId"]: operation for operation in operations}
    assert set(names) >= {route.name for route in ROUTES}
    cases = st.one_of(
        [names[name].as_strategy() for name in sorted(names) if name.removesuffix("_head") not in STREAMS]
    )
    statuses: Counter[int] = Counter()

    with staged(tmp_path) as stage:
        sidecar = stage.start("--stand", "billing/close", "--drain", "0.1s")
        held = sidecar.lead("jobs", keep_s=300)

        @seed(20261117)
        @settings(
            max_examples=500,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, known=st.booleans(), authorised=st.integers(0, 7))
        def ask(case: Any, known: bool, authorised: int) -> None:
            if known:  # What is there, so that what lies behind is reached.
                there = {"election": "billing/close", "id": held["id"], "lock": held["id"]}
                case.path_parameters = {name: there.get(name, value) for name, value in case.path_parameters.items()}
            if isinstance(case.body, dict) and isinstance(case.body.get("wait_s"), int | float):
                case.body["wait_s"] = min(case.body["wait_s"], 0.01)
            if isinstance(case.query, dict):
                case.query.pop("wait_s", None)
            answer = case.call(base_url=sidecar.url, headers=BEARER if authorised else {}, timeout=30)
            statuses[answer.status_code] += 1
            text = answer.content.decode("utf-8", "replace")
            assert answer.status_code < 500 or answer.status_code in NOT_NOW, (answer.status_code, text)
            assert "Traceback" not in text
            assert TOKEN not in text
            if answer.status_code >= 400 and text and text.startswith("{"):
                told = answer.json()
                assert "error" not in told or told["detail"]

        ask()
        assert sidecar.status("/health") == 200
        said = sidecar.end()
    assert "Traceback" not in said
    assert {200, 401, 404, 422} <= set(statuses), statuses
