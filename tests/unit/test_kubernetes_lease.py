"""What is written into a Lease, and what is made of whatever somebody else has written there."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.model import Bid, Holder
from tenure.stores.kubernetes.lease import NOTE, Lease, Note, identity_of, micro_time, new_lease, other_than

HOLDER = Holder("ada", 7, "0123456789abcdef")
BID = Bid("x", HOLDER, 3, 2_500_000_000, "http://ada")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def taken(transitions: int = 4) -> Lease:
    return Lease(new_lease("x", "default").taken(BID, transitions))


def test_a_lease_that_is_taken_is_the_record_of_client_go_with_whole_seconds() -> None:
    spec = taken().body["spec"]
    assert spec["holderIdentity"] == "ada/7/0123456789abcdef#3"
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (3, 4)
    assert spec["acquireTime"] == spec["renewTime"]
    assert MICRO_TIME.fullmatch(spec["renewTime"])


def test_the_time_of_day_has_six_digits_also_when_they_are_zero() -> None:
    assert micro_time(datetime(2026, 1, 1, 12, tzinfo=UTC)) == "2026-01-01T12:00:00.000000Z"


def test_a_renewal_at_the_same_microsecond_still_changes_the_record() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert other_than(None, noon) == other_than("2025-01-01T12:00:00.000000Z", noon) == micro_time(noon)
    assert other_than(micro_time(noon), noon) == "2026-01-01T12:00:00.000001Z"


def test_what_we_do_not_know_is_kept_through_every_write() -> None:
    body = taken().body
    body["spec"]["preferredHolder"] = "somebody"
    body["metadata"] |= {"labels": {"team": "a"}, "resourceVersion": "12", "uid": "u"}
    lease = Lease(body)
    writes = [
        lease.taken(BID, 5),
        lease.renewed(BID, lease.note, 4),
        lease.noted(Note("here")),
        lease.left(),
        lease.closed(BID),
    ]
    for written in writes:
        assert written["spec"]["preferredHolder"] == "somebody"
        assert written["metadata"]["labels"] == {"team": "a"}
        assert (written["metadata"]["resourceVersion"], written["metadata"]["uid"]) == ("12", "u")


def test_what_every_lease_says_of_itself_is_written_also_where_a_list_left_it_out() -> None:
    listed = Lease({"metadata": {"name": "x", "resourceVersion": "12"}, "spec": {}, "status": {"new": True}})
    for written in (listed.body, listed.taken(BID, 1), Lease(listed.left()).closed(BID)):
        assert (written["apiVersion"], written["kind"]) == ("coordination.k8s.io/v1", "Lease")
        assert written["status"] == {"new": True}


@pytest.mark.parametrize(("said", "number"), [("12", 12), ("v12", 0), ("", 0), (12, 12), (None, 0), ("9" * 20, 0)])
def test_a_version_is_kept_as_it_is_and_counted_if_it_is_a_number(said: object, number: int) -> None:
    lease = Lease({"metadata": {"resourceVersion": said}})
    assert (lease.version, lease.number) == (str(said), number)
    assert Lease({}).version == ""


def test_a_lease_that_is_left_has_nobody_one_second_and_its_count() -> None:
    lease = Lease(taken().left())
    assert (lease.identity, lease.duration_s, lease.transitions) == ("", 1, 4)
    assert "holderIdentity" not in lease.body["spec"]
    assert NOTE not in lease.body["metadata"]["annotations"]


def test_a_label_or_a_note_is_no_renewal() -> None:
    lease = taken()
    assert Lease(lease.noted(Note("there", resign_asked=True))).record == lease.record
    assert Lease(lease.closed(BID)).record == lease.record


def test_a_note_of_a_former_holder_says_nothing_of_the_next() -> None:
    body = taken().body
    body["spec"]["holderIdentity"] = "client-go"
    incumbent = Lease(body).incumbent("x", by_version=False)
    assert (incumbent.holder.host, incumbent.advertised, incumbent.token) == ("client-go", "client-go", 4)


def test_whose_lease_it_is_is_told_by_holder_and_serial() -> None:
    lease = taken()
    assert lease.is_of(BID)
    assert lease.is_by(HOLDER)
    assert lease.holder == HOLDER
    assert lease.serial == 3
    assert not lease.is_of(Bid("x", HOLDER, 4, 10**9))
    assert not lease.is_by(Holder("ada", 7, "another"))
    assert identity_of(BID) == lease.identity


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {},
        {"leaseTransitions": None, "leaseDurationSeconds": None, "holderIdentity": None},
        {"leaseTransitions": "many", "leaseDurationSeconds": "long", "holderIdentity": 7},
        {"leaseTransitions": -1, "leaseDurationSeconds": 0, "renewTime": "yesterday"},
    ],
)
def test_nonsense_is_read_without_a_failure_and_never_as_a_token_below_one(spec: Any) -> None:
    lease = Lease({"metadata": {"annotations": {NOTE: "{"}}, "spec": spec})
    assert lease.transitions == 1
    assert lease.duration_s == 15
    assert lease.note == Note()
    assert lease.instant("renewTime") is None
    assert Lease(lease.taken(BID, 2)).is_of(BID)


@pytest.mark.parametrize("note", ["[]", "7", '"x"', "null", '{"holder": 7}', "{" * 5000])
def test_a_note_that_is_nonsense_is_none(note: str) -> None:
    body = taken().body
    body["metadata"]["annotations"] = {NOTE: note}
    assert Lease(body).note == Note()


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    body = taken().body
    body["metadata"]["annotations"][NOTE] = json.dumps({"holder": identity_of(BID), "advertise": "a\x1b[31m"})
    assert Lease(body).note.advertised == "a?[31m"
    body["spec"]["holderIdentity"] = "b\x1b[31m"
    assert Lease(body).holder.host == "b?[31m"


@pytest.mark.parametrize("identity", [f"a/{'9' * 5000}/x#1", f"a/1/x#{'9' * 5000}"])
def test_a_number_that_is_too_long_to_read_makes_a_stranger(identity: str) -> None:
    body = taken().body
    body["spec"]["holderIdentity"] = identity
    lease = Lease(body)
    assert not lease.is_ours
    assert lease.serial == 0
    assert lease.incumbent("x", by_version=False).holder.nonce == "lease"


def test_a_token_that_is_noted_counts_for_more_than_the_count() -> None:
    assert Lease(taken(1000).noted(Note(token=4))).token(by_version=False) == 4
    assert Lease(taken(1000).noted(Note(token=10**30))).token(by_version=False) == 1000


def test_a_token_by_version_is_the_noted_one_or_that_of_the_object() -> None:
    body = taken().body
    body["metadata"]["resourceVersion"] = "77"
    assert Lease(body).token(by_version=True) == 77
    noted = Lease(Lease(body).noted(Note(token=70)))
    assert noted.token(by_version=True) == 70
