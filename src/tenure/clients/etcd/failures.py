"""Which of three outcomes a failed request had, and one line that says what to do about it.

The table follows etcd's ``rpctypes`` and where its server returns each error. What is not in it is ``OutcomeUnknown``:
an error that we do not know may have come after the request was carried out.

| status | etcd's text | outcome, and why |
|---|---|---|
| INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, ALREADY_EXISTS | whatever is wrong with the request | Refused: checked before anything is applied |
| NOT_FOUND | requested lease not found | LeaseGone: the operations of a transaction are checked before the first is applied |
| PERMISSION_DENIED, UNAUTHENTICATED | permission denied, invalid auth token | Refused: checked before, or at the beginning of, applying |
| UNIMPLEMENTED | unknown service or method | Refused: no such call |
| RESOURCE_EXHAUSTED | too many requests, or larger than max | Refused: turned away at the door |
| RESOURCE_EXHAUSTED | mvcc: database space exceeded | **OutcomeUnknown**: the request that crosses the quota is applied and then answered with this error |
| UNAVAILABLE | request timed out, leader changed, no leader, server stopped | OutcomeUnknown: it may be in the log already, and be applied by the next leader |
| no gRPC, HTTP 4xx but 408 and 429 | | Refused: nobody who says so has passed it on |
| no gRPC, any other HTTP status | | **OutcomeUnknown**: a proxy that gives up (504) may have passed it on before |
| DATA_LOSS, INTERNAL, UNKNOWN, CANCELLED, DEADLINE_EXCEEDED, ABORTED | | OutcomeUnknown |
"""

from tenure.clients.etcd.stream import NOT_GRPC, PROXY, Said
from tenure.errors import OutcomeUnknown, Refused, StoreError

INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = 3, 5, 6, 7
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE = 8, 9, 11
UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = 12, 14, 16

_DEFINITE = frozenset(
    (
        INVALID_ARGUMENT,
        NOT_FOUND,
        ALREADY_EXISTS,
        PERMISSION_DENIED,
        RESOURCE_EXHAUSTED,
        FAILED_PRECONDITION,
        OUT_OF_RANGE,
        UNIMPLEMENTED,
        UNAUTHENTICATED,
    )
)
_NO_SPACE = "database space exceeded"
_LEASE_NOT_FOUND = "requested lease not found"
# A token is checked before anything is applied, so the request may be repeated with a fresh one. The third is what a
# server says to a request without a token, if its authentication was switched on after we came.
_TOKEN_REFUSED = ("invalid auth token", "revision of auth store is old", "user name is empty")
_LEARNER = "rpc not supported for learner"
_ADVICE = (
    (_NO_SPACE, "its database is full: compact and defragment it, or raise its quota, then disarm the NOSPACE alarm"),
    ("authentication failed", "user name or password is wrong"),
    ("permission denied", "grant the user's role readwrite on the keys of its elections"),
    ("user name is empty", "put a user and a password into the URL, or give a client certificate"),
    ("invalid auth token", "it refuses a token that it has just given: do its members share one auth-token setting?"),
    ("corrupt cluster", "its members disagree on their data: see its CORRUPT alarm"),
    ("request timed out", "does it have a quorum?"),
    ("no leader", "does it have a quorum?"),
)


class LeaseGone(Refused):
    """Definite: the lease that a put names has ended, so nothing was written."""

    what = "found its lease gone"


def wants_fresh_token(said: Said) -> bool:
    """Say whether the request was turned away for the sake of its token, and nothing else."""
    return said.code in (UNAUTHENTICATED, INVALID_ARGUMENT) and said.text.endswith(_TOKEN_REFUSED)


def auth_is_off(said: Said) -> bool:
    """Say whether the cluster has no users: then a password is not needed, and not looked at."""
    return said.code == FAILED_PRECONDITION and said.text.endswith("authentication is not enabled")


def wants_other_member(said: Said) -> bool:
    """Say whether this member turned the request away unseen, and another would not."""
    return said.code in (FAILED_PRECONDITION, UNAVAILABLE) and said.text.endswith(_LEARNER)


def leaves_member(said: Said) -> bool:
    """Say whether the next call had better go to another member: this one has no leader, or does not answer in time."""
    return said.code in (NOT_GRPC, PROXY) or (said.code == UNAVAILABLE and not said.text.endswith("leader changed"))


def failure(said: Said, address: str, operation: str) -> StoreError:
    """Return the error for what etcd said."""
    if said.code == NOT_GRPC:
        return Refused(address, operation, f"that is no etcd 3.4 or newer: it answered {said.text}")
    if said.code == PROXY:
        return OutcomeUnknown(address, operation, f"a proxy answered {said.text}: does it pass gRPC on to etcd?")
    advice = next((f"; {advice}" for text, advice in _ADVICE if text in said.text), "")
    detail = said.text.removeprefix("etcdserver: ") + advice
    if said.code == NOT_FOUND and said.text.endswith(_LEASE_NOT_FOUND):
        return LeaseGone(address, operation, detail)
    if said.code in _DEFINITE and _NO_SPACE not in said.text:
        return Refused(address, operation, detail)
    return OutcomeUnknown(address, operation, detail)
