"""Mixed fleets on ZooKeeper: a tenure candidate in one election, or one lock, with programs on kazoo and on Curator.

The name is all that they are told: ``x`` for us is ``/x`` for them. Nobody is told that others are of another kind.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tenure.testing.engines import ZooKeeperEnsemble
from tests.peers.driver import Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 200
DYING_TTL_S = 2
ELECTIONS: list[tuple[Program, str]] = [("kazoo", "election"), ("curator", "latch")]
LOCKS: list[tuple[Program, str]] = [("kazoo", "lock"), ("curator", "mutex")]
OURS = {**dict.fromkeys(ELECTIONS, "election"), **dict.fromkeys(LOCKS, "lock")}
every_kind = pytest.mark.parametrize("theirs", OURS, ids=" ".join)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tick_ms=500) as running:  # Sessions may have two to twenty ticks.
        yield running


@contextmanager
def fleet(
    ensemble: ZooKeeperEnsemble, theirs: tuple[Program, str], name: str, ttl_s: int = 4
) -> Iterator[tuple[Peer, Peer]]:
    """One candidate of ours and one of theirs."""
    with (
        start_peer("tenure", OURS[theirs], ensemble, name, "we", ttl_s=ttl_s) as we,
        start_peer(*theirs, ensemble, f"/{name}", "they", ttl_s=ttl_s) as they,
    ):
        yield we, they


@every_kind
def test_we_hand_the_office_to_each_other_two_hundred_times_without_an_overlap(
    ensemble: ZooKeeperEnsemble, theirs: tuple[Program, str]
) -> None:
    with fleet(ensemble, theirs, f"turns/{'-'.join(theirs)}") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, HAND_OVERS)
        assert check_terms(we, they) == HAND_OVERS + 1


@every_kind
def test_they_lead_and_we_wait_and_see_them_until_they_are_killed(
    ensemble: ZooKeeperEnsemble, theirs: tuple[Program, str]
) -> None:
    with fleet(ensemble, theirs, f"they-die/{'-'.join(theirs)}", DYING_TTL_S) as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        we.wait_standing()
        they.kill()
        we.wait_leading()
        assert check_terms(we, they) == 2


@every_kind
def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(
    ensemble: ZooKeeperEnsemble, theirs: tuple[Program, str]
) -> None:
    with fleet(ensemble, theirs, f"we-die/{'-'.join(theirs)}", DYING_TTL_S) as (we, they):
        we.campaign()
        we.wait_leading()
        if theirs in ELECTIONS:
            they.observe()
            assert they.wait_observed('"advertise":"we"')
        they.campaign()
        they.wait_standing()
        we.kill()
        they.wait_leading()
        assert check_terms(we, they) == 2


@every_kind
def test_two_of_ours_and_two_of_theirs_contend_without_an_overlap(
    ensemble: ZooKeeperEnsemble, theirs: tuple[Program, str]
) -> None:
    # Each kind apart: programs on kazoo and on Curator do not see each other.
    name = f"contend/{'-'.join(theirs)}"
    with ExitStack() as stack:
        peers = [
            stack.enter_context(start_peer(*theirs, ensemble, f"/{name}", who))
            if who.startswith("they")
            else stack.enter_context(start_peer("tenure", OURS[theirs], ensemble, name, who))
            for who in ("we-1", "we-2", "they-1", "they-2")
        ]
        contend(peers, 10)
        assert check_terms(*peers) == 10 * len(peers)
