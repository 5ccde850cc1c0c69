"""Peers of ZooKeeper among themselves: what the driver sees of programs that are right anyway. It is the driver that is tested."""

import time
from collections.abc import Iterator

import pytest

from tenure.testing.engines import ZooKeeperEnsemble
from tests.peers.driver import Program, alternate, check_terms, start_peer
from tests.peers.stories import Kind, check_lease_ends

ELECTIONS: list[Kind] = [("kazoo", "election"), ("curator", "latch")]
LOCKS: list[Kind] = [("kazoo", "lock"), ("curator", "mutex")]


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tick_ms=200) as running:
        yield running


@pytest.mark.parametrize(("program", "kind"), ELECTIONS + LOCKS)
def test_two_of_a_kind_take_turns_without_an_overlap(ensemble: ZooKeeperEnsemble, program: Program, kind: str) -> None:
    path = f"/turns-{program}-{kind}"
    with (
        start_peer(program, kind, ensemble, path, "ada") as ada,
        start_peer(program, kind, ensemble, path, "bob") as bob,
    ):
        before_ns = time.monotonic_ns()
        ada.campaign()
        assert before_ns < ada.wait_leading().at_ns < time.monotonic_ns()
        alternate(ada, bob, 20)
        assert check_terms(ada, bob) == 21


@pytest.mark.parametrize(("program", "kind"), ELECTIONS)
def test_the_next_leads_once_the_session_of_a_killed_peer_has_ended(
    ensemble: ZooKeeperEnsemble, program: Program, kind: str
) -> None:
    path = f"/killed-{program}-{kind}"
    with (
        start_peer(program, kind, ensemble, path, "ada", ttl_s=2) as ada,
        start_peer(program, kind, ensemble, path, "bob", ttl_s=2) as bob,
    ):
        check_lease_ends(ada, bob)


@pytest.mark.parametrize(("program", "kind"), ELECTIONS)
def test_observers_see_who_leads(ensemble: ZooKeeperEnsemble, program: Program, kind: str) -> None:
    path = f"/seen-by-{program}"
    with (
        start_peer(program, kind, ensemble, path, "ada") as ada,
        start_peer(program, kind, ensemble, path, "observer") as observer,
    ):
        observer.observe()
        ada.campaign()
        assert observer.wait_observed("ada").fields["value"] == "ada"


def test_benches_answer(ensemble: ZooKeeperEnsemble) -> None:
    for program, kind in ELECTIONS + LOCKS:
        with start_peer(program, kind, ensemble, f"/timed-{program}-{kind}", "ada") as ada:
            timed = ada.ask("time 5", "timed").fields["took_ns"]
            assert len(timed) == 5
            assert min(timed) > 0
            if program == "kazoo":
                assert len(ada.ask("raw 5", "timed").fields["took_ns"]) == 5
