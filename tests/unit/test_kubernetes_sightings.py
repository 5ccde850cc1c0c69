"""A Lease is over when we have seen no change of it for its duration, and by nothing else."""

import gc
import json
import logging
import secrets
import tracemalloc

import pytest

from tenure.clock import VirtualClock
from tenure.stores.kubernetes.lease import Lease
from tenure.stores.kubernetes.sightings import Sighting, Sightings

DURATION_NS = 15 * 10**9
REMEMBERED_MAX = 100_000  # tokens of each namespace
# A Lease as an API server gives it, without managedFields; N is another number in each.
GIVEN = """{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "many-N", "namespace": "default",
"uid": "4f2c06f0-9a4e-4a0f-8b57-c0de0000N", "resourceVersion": "1N", "creationTimestamp": "2026-01-01T12:00:00Z"},
"spec": {"holderIdentity": "ada/4242/0123456789abN#1", "leaseDurationSeconds": 60, "leaseTransitions": 1,
"acquireTime": "2026-01-01T12:00:00.000000Z", "renewTime": "2026-01-01T12:00:15.00N"}}"""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(10**12)


@pytest.fixture
def seen(clock: VirtualClock) -> Sightings:
    sightings = Sightings(clock, lambda: None)
    sightings.identity = secrets.token_hex(4)  # The memory of tokens outlives a test.
    return sightings


def lease(version: int, renewed: str = "then", holder: str = "ada", transitions: int = 1, label: str = "") -> Lease:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "leaseTransitions": transitions,
        "renewTime": renewed,
    }
    return Lease({"metadata": {"resourceVersion": str(version), "labels": {"a": label}}, "spec": spec})


def see(seen: Sightings, name: str, answer: Lease | None) -> Sighting:
    """What is asked and answered with nothing between."""
    return seen.see(name, answer, seen.mark(name))


def test_a_lease_is_over_a_duration_after_its_last_change_was_seen(seen: Sightings, clock: VirtualClock) -> None:
    sighting = see(seen, "x", lease(1))
    clock.advance(DURATION_NS - 1)
    assert clock.now() < sighting.over_at()
    seen.hear("MODIFIED", "x", lease(2, renewed="again"))
    clock.advance(DURATION_NS - 1)
    assert clock.now() < sighting.over_at()
    clock.advance(1)
    assert clock.now() == sighting.over_at()


def test_a_label_prolongs_nothing(seen: Sightings, clock: VirtualClock) -> None:
    sighting = see(seen, "x", lease(1))
    over_at = sighting.over_at()
    clock.advance(DURATION_NS // 2)
    seen.hear("MODIFIED", "x", lease(2, label="new"))
    assert sighting.over_at() == over_at
    assert sighting.lease is not None
    assert sighting.lease.version == "2"


def test_an_event_that_an_answer_has_overtaken_hides_nothing(seen: Sightings) -> None:
    sighting = see(seen, "x", lease(5, holder=""))
    seen.hear("MODIFIED", "x", lease(4))
    assert sighting.over_at() == 0
    seen.hear("DELETED", "x", lease(3))
    assert sighting.lease is not None
    seen.hear("MODIFIED", "x", lease(6))
    assert sighting.over_at() > 0


def test_once_events_may_have_been_missed_whatever_comes_is_news(seen: Sightings) -> None:
    sighting = see(seen, "x", lease(5))
    news = sighting.news()
    seen.doubt_all()
    assert news.is_set()
    assert sighting.in_doubt
    see(seen, "x", lease(2, holder="bob"))  # Somebody has put an old snapshot back.
    assert sighting.lease is not None
    assert sighting.lease.identity == "bob"


def test_whoever_waits_is_told_of_a_change_and_of_a_deletion(seen: Sightings) -> None:
    sighting = see(seen, "x", lease(1))
    for what, version in (("MODIFIED", 2), ("DELETED", 3)):
        news = sighting.news()
        seen.hear(what, "x", lease(version, renewed=str(version)))
        assert news.is_set()
    assert sighting.lease is None


def test_a_lease_that_is_deleted_under_its_holder_is_over_no_sooner(seen: Sightings, clock: VirtualClock) -> None:
    sighting = see(seen, "x", lease(1))
    clock.advance(DURATION_NS // 2)
    for gone in (lambda: seen.hear("DELETED", "x", lease(2)), lambda: see(seen, "x", None)):
        gone()
        assert sighting.lease is None
        assert sighting.over_at() == clock.now() + DURATION_NS - DURATION_NS // 2
    seen.hear("ADDED", "x", lease(3, holder="bob"))
    assert sighting.over_at() == clock.now() + DURATION_NS
    seen.hear("MODIFIED", "x", lease(4, holder=""))
    assert sighting.over_at() == 0


def test_a_lease_that_is_deleted_when_nobody_holds_it_is_nobodys(seen: Sightings) -> None:
    sighting = see(seen, "x", lease(1, holder=""))
    seen.hear("DELETED", "x", lease(2, holder=""))
    assert sighting.over_at() == 0


def test_a_lease_that_would_never_end_is_over_when_it_is_deleted(seen: Sightings) -> None:
    nonsense = lease(1).body
    nonsense["spec"]["leaseDurationSeconds"] = 2**31 - 1
    sighting = see(seen, "x", Lease(nonsense))
    assert sighting.over_at() > 0
    see(seen, "x", None)
    assert sighting.over_at() == 0


def test_the_highest_token_is_remembered_through_deletion_and_by_all_stores_of_a_process(
    seen: Sightings, caplog: pytest.LogCaptureFixture
) -> None:
    see(seen, "x", lease(1, transitions=8))
    with caplog.at_level(logging.WARNING):
        see(seen, "x", None)
    assert "Lease x was deleted; its tokens go on from 8" in caplog.text
    assert seen.highest("x") == 8
    other = Sightings(VirtualClock(), lambda: None)
    other.identity = seen.identity
    assert other.highest("x") == 8
    other.identity = "another namespace"
    assert other.highest("x") == 0


def test_a_count_that_was_set_back_is_told_of(seen: Sightings, caplog: pytest.LogCaptureFixture) -> None:
    see(seen, "x", lease(1, transitions=8))
    with caplog.at_level(logging.WARNING):
        see(seen, "x", lease(2, transitions=3))
    assert "Lease x went back to leaseTransitions 3 from 8" in caplog.text
    assert seen.highest("x") == 8


def test_an_election_that_nobody_asked_for_leaves_its_token_and_nothing_else(seen: Sightings) -> None:
    seen.hear("ADDED", "y", lease(1, transitions=9))
    assert seen.find("y") is None
    assert seen.highest("y") == 9


def test_of_many_elections_those_are_forgotten_that_nobody_stands_in(seen: Sightings) -> None:
    see(seen, "kept", lease(1)).user_count += 1
    for number in range(2000):
        see(seen, f"x-{number}", lease(number + 1))
    assert seen.find("kept") is not None
    assert seen.find("x-0") is None
    assert seen.find("x-1999") is not None


def test_of_a_lease_hardly_more_is_kept_than_what_its_next_renewal_takes(seen: Sightings) -> None:
    names = [f"many-{number}" for number in range(1000, 1500)]
    for name in names:
        see(seen, name, None)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1000, 1500):
            # Its event is often here before the answer to the write: with texts of its own.
            given = json.loads(GIVEN.replace("N", str(number)))
            seen.hear("ADDED", given["metadata"]["name"], Lease(given))
            del given
        gc.collect()
        kept_bytes = tracemalloc.get_traced_memory()[0] / len(names)
    finally:
        tracemalloc.stop()
    assert kept_bytes < 850  # Half of it are the two texts. With a version as text and a name of its own it were 990.


def test_tokens_are_forgotten_one_by_one_the_oldest_first_and_by_no_other_namespace(seen: Sightings) -> None:
    other = Sightings(VirtualClock(), lambda: None)
    other.identity = secrets.token_hex(4)
    other.hear("ADDED", "x-0", lease(1, transitions=9))
    held = lease(1, transitions=8)
    for number in range(REMEMBERED_MAX):
        seen.hear("ADDED", f"x-{number}", held)
    seen.hear("MODIFIED", "x-0", held)
    seen.hear("ADDED", "one more", held)
    assert [seen.highest(name) for name in ("x-0", "x-1", "x-2", "one more")] == [8, 0, 8, 8]
    assert other.highest("x-0") == 9


def test_a_process_that_stands_in_more_elections_than_are_remembered_stands_in_one_more(seen: Sightings) -> None:
    for number in range(1100):
        see(seen, f"x-{number}", lease(number + 1)).user_count += 1
    assert all(seen.find(f"x-{number}") is not None for number in range(1100))


def test_an_answer_to_what_was_asked_later_is_news_whatever_its_version(clock: VirtualClock) -> None:
    rewinds: list[None] = []
    seen = Sightings(clock, lambda: rewinds.append(None))
    seen.identity = secrets.token_hex(4)
    sighting = see(seen, "x", lease(500))
    assert rewinds == []
    see(seen, "x", lease(20, holder="bob"))  # A backup was put back.
    assert sighting.lease is not None
    assert sighting.lease.identity == "bob"
    assert rewinds == [None]
    seen.hear("MODIFIED", "x", lease(21, holder="eve"))
    assert sighting.lease.identity == "eve"


@pytest.mark.parametrize("late", [None, lease(4, holder="")], ids=["no Lease", "an older one"])
def test_an_answer_that_something_newer_has_overtaken_changes_nothing(seen: Sightings, late: Lease | None) -> None:
    mark = seen.mark("x")
    sighting = see(seen, "x", lease(5))
    seen.see("x", late, mark)
    assert sighting.lease is not None
    assert sighting.lease.identity == "ada"


def test_a_count_that_leaves_no_room_is_not_remembered_so_that_it_can_be_set_back(seen: Sightings) -> None:
    see(seen, "x", lease(1, transitions=8))
    see(seen, "x", lease(2, transitions=2**31 - 1))
    assert seen.highest("x") == 8


def test_versions_that_are_no_numbers_are_taken_as_they_come(seen: Sightings) -> None:
    for version in ("b", "a", "9" * 5000):
        seen.hear("MODIFIED", "x", lease(1))
        body = lease(1, holder=f"holder-{len(version)}").body
        body["metadata"]["resourceVersion"] = version
        sighting = see(seen, "x", Lease(body))
        assert sighting.lease is not None
        assert sighting.lease.identity == f"holder-{len(version)}"
