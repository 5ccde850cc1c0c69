"""What an answer of an API server means: refused, or not known; and what is said of it."""

import json

import pytest

from tenure.clients.http import Answer
from tenure.clients.kubernetes.failures import Conflict, Gone, NotThere, failure
from tenure.errors import OutcomeUnknown, Refused, StoreError


def answer(status: int, message: str | None = "no") -> Answer:
    body = "<html>" if message is None else json.dumps({"kind": "Status", "message": message, "code": status})
    return Answer(status, {}, body.encode())


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, Refused, ""),
        (401, Refused, "log in again"),
        (403, Refused, "tenure doctor --rbac"),
        (404, NotThere, ""),
        (405, Refused, ""),
        (409, Conflict, ""),
        (410, Gone, ""),
        (413, Refused, ""),
        (422, Refused, ""),
        (429, Refused, "too much to do"),
        (408, OutcomeUnknown, ""),
        (500, OutcomeUnknown, ""),
        (502, OutcomeUnknown, ""),
        (503, OutcomeUnknown, ""),
        (504, OutcomeUnknown, ""),
    ],
)
def test_each_status_has_its_outcome_and_its_advice(status: int, kind: type[StoreError], advice: str) -> None:
    error = failure(answer(status), "kubernetes://x", "claim")
    assert type(error) is kind
    assert advice in error.detail
    assert error.detail.startswith("no")
    assert "\n" not in str(error)


@pytest.mark.parametrize(("status", "kind"), [(200, Refused), (302, Refused), (404, Refused), (502, OutcomeUnknown)])
def test_whoever_is_no_api_server_is_told_so(status: int, kind: type[StoreError]) -> None:
    error = failure(answer(status, None), "kubernetes://x", "claim")
    assert type(error) is kind
    assert f"no Kubernetes API server answered, but something that said {status}" in str(error)


def test_a_namespace_that_is_not_there_is_said_to_be_created() -> None:
    error = failure(answer(404, 'namespaces "x" not found'), "kubernetes://x", "open")
    assert "create the namespace, or name another one in the URL" in str(error)
