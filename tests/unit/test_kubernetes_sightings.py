"""A Lease is over when we have seen no change of it for its duration, and by nothing else."""

import logging
import secrets

import pytest

from tenure.clock import VirtualClock
from tenure.stores.kubernetes.lease import Lease
from tenure.stores.kubernetes.sightings import Sightings

DURATION_NS = 15 * 10**9


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(10**12)


@pytest.fixture
def seen(clock: VirtualClock) -> Sightings:
    sightings = Sightings(clock)
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


def test_a_lease_is_over_a_duration_after_its_last_change_was_seen(seen: Sightings, clock: VirtualClock) -> None:
    sighting = seen.see("x", lease(1))
    clock.advance(DURATION_NS - 1)
    assert clock.now() < sighting.over_at()
    seen.hear("MODIFIED", "x", lease(2, renewed="again"))
    clock.advance(DURATION_NS - 1)
    assert clock.now() < sighting.over_at()
    clock.advance(1)
    assert clock.now() == sighting.over_at()


def test_a_label_prolongs_nothing(seen: Sightings, clock: VirtualClock) -> None:
    sighting = seen.see("x", lease(1))
    over_at = sighting.over_at()
    clock.advance(DURATION_NS // 2)
    seen.hear("MODIFIED", "x", lease(2, label="new"))
    assert sighting.over_at() == over_at
    assert sighting.lease is not None
    assert sighting.lease.version == "2"


def test_an_event_that_an_answer_has_overtaken_hides_nothing(seen: Sightings) -> None:
    sighting = seen.see("x", lease(5, holder=""))
    seen.hear("MODIFIED", "x", lease(4))
    assert sighting.over_at() == 0
    seen.hear("DELETED", "x", lease(3))
    assert sighting.lease is not None
    seen.hear("MODIFIED", "x", lease(6))
    assert sighting.over_at() > 0


def test_once_events_may_have_been_missed_whatever_comes_is_news(seen: Sightings) -> None:
    sighting = seen.see("x", lease(5))
    news = sighting.news
    seen.doubt_all()
    assert news.is_set()
    seen.see("x", lease(2, holder="bob"))  # Somebody has put an old snapshot back.
    assert sighting.lease is not None
    assert sighting.lease.identity == "bob"


def test_whoever_waits_is_told_of_a_change_and_of_a_deletion(seen: Sightings) -> None:
    sighting = seen.see("x", lease(1))
    for what, version in (("MODIFIED", 2), ("DELETED", 3)):
        news = sighting.news
        seen.hear(what, "x", lease(version, renewed=str(version)))
        assert news.is_set()
    assert sighting.over_at() == 0


def test_the_highest_token_is_remembered_through_deletion_and_by_all_stores_of_a_process(
    seen: Sightings, caplog: pytest.LogCaptureFixture
) -> None:
    seen.see("x", lease(1, transitions=8))
    with caplog.at_level(logging.WARNING):
        seen.see("x", None)
    assert "Lease x was deleted; its tokens go on from 8" in caplog.text
    assert seen.highest("x") == 8
    other = Sightings(VirtualClock())
    other.identity = seen.identity
    assert other.highest("x") == 8
    other.identity = "another namespace"
    assert other.highest("x") == 0


def test_a_count_that_was_set_back_is_told_of(seen: Sightings, caplog: pytest.LogCaptureFixture) -> None:
    seen.see("x", lease(1, transitions=8))
    with caplog.at_level(logging.WARNING):
        seen.see("x", lease(2, transitions=3))
    assert "Lease x went back to leaseTransitions 3 from 8" in caplog.text
    assert seen.highest("x") == 8


def test_an_election_that_nobody_asked_for_leaves_its_token_and_nothing_else(seen: Sightings) -> None:
    seen.hear("ADDED", "y", lease(1, transitions=9))
    assert seen.find("y") is None
    assert seen.highest("y") == 9


def test_of_many_elections_those_are_forgotten_that_nobody_stands_in(seen: Sightings) -> None:
    seen.see("kept", lease(1)).user_count += 1
    for number in range(2000):
        seen.see(f"x-{number}", lease(number + 1))
    assert seen.find("kept") is not None
    assert seen.find("x-0") is None
    assert seen.find("x-1999") is not None
