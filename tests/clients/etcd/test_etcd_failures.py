"""Which outcome each error of etcd is, and that a person is told what to do."""

import asyncio

import pytest

from tenure.clients.etcd.failures import LeaseGone, failure, leaves_member, wants_other_member
from tenure.clients.etcd.stream import NOT_GRPC, PROXY, Said, Stream
from tenure.errors import OutcomeUnknown, Refused


@pytest.mark.parametrize(
    ("code", "text", "outcome", "told"),
    [
        (3, "etcdserver: too many operations in txn request", Refused, "too many operations"),
        (3, "etcdserver: request is too large", Refused, "too large"),
        (3, "etcdserver: authentication failed, invalid user ID or password", Refused, "password is wrong"),
        (3, "etcdserver: user name is empty", Refused, "put a user and a password"),
        (5, "etcdserver: requested lease not found", LeaseGone, "lease not found"),
        (7, "etcdserver: permission denied", Refused, "grant the user's role"),
        (8, "etcdserver: too many requests", Refused, "too many requests"),
        (8, "grpc: received message larger than max (9 vs. 8)", Refused, "larger than max"),
        (8, "etcdserver: mvcc: database space exceeded", OutcomeUnknown, "disarm the NOSPACE alarm"),
        (9, "etcdserver: not capable", Refused, "not capable"),
        (11, "etcdserver: mvcc: required revision has been compacted", Refused, "compacted"),
        (12, "unknown service etcdserverpb.KV", Refused, "unknown service"),
        (14, "etcdserver: request timed out", OutcomeUnknown, "quorum"),
        (14, "etcdserver: leader changed", OutcomeUnknown, "leader changed"),
        (14, "etcdserver: no leader", OutcomeUnknown, "quorum"),
        (14, "etcdserver: server stopped", OutcomeUnknown, "server stopped"),
        (15, "etcdserver: corrupt cluster", OutcomeUnknown, "CORRUPT alarm"),
        (2, "something new", OutcomeUnknown, "something new"),
        (16, "etcdserver: invalid auth token", Refused, "auth-token"),
        (NOT_GRPC, "HTTP status 404 and text/html", Refused, "no etcd"),
        (PROXY, "HTTP status 504 and text/html", OutcomeUnknown, "a proxy answered HTTP status 504"),
    ],
)
def test_each_error_has_one_outcome_and_says_what_to_do(code: int, text: str, outcome: type, told: str) -> None:
    error = failure(Said(code, text), "etcd://h", "claim")
    assert type(error) is outcome
    assert told in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("http_status", "outcome"),
    [
        (400, Refused),
        (404, Refused),
        (415, Refused),
        (408, OutcomeUnknown),
        (429, OutcomeUnknown),
        (200, OutcomeUnknown),
        (302, OutcomeUnknown),
        (500, OutcomeUnknown),
        (502, OutcomeUnknown),
        (503, OutcomeUnknown),
        (504, OutcomeUnknown),
    ],
)
def test_an_answer_without_grpc_is_a_refusal_only_if_nobody_can_have_passed_the_request_on(
    http_status: int, outcome: type
) -> None:
    async def story() -> None:
        stream = Stream(1, 0, lambda _: None)
        stream.heard_headers({b":status": b"%d" % http_status, b"content-type": b"text/html"})
        stream.heard_end()
        with pytest.raises(Said) as said:
            await stream.ended
        assert type(failure(said.value, "etcd://h", "claim")) is outcome
        assert str(http_status) in said.value.text

    asyncio.run(story())


@pytest.mark.parametrize("code", [9, 14])  # Which of the two it is depends on the version.
def test_a_request_that_a_learner_turned_away_may_go_to_another_member(code: int) -> None:
    assert wants_other_member(Said(code, "etcdserver: rpc not supported for learner"))


def test_a_request_that_may_be_in_the_log_goes_to_no_other_member() -> None:
    for text in ("etcdserver: leader changed", "etcdserver: no leader", "etcdserver: request timed out"):
        assert not wants_other_member(Said(14, text))
    assert not leaves_member(Said(14, "etcdserver: leader changed"))  # It has one, only not the one it had.
