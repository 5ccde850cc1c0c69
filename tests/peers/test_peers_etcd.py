"""Peers of etcd among themselves: what the driver sees of programs that are right anyway. It is the driver that is tested."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tenure.testing.engines import EtcdCluster
from tests.peers.driver import PeerFailed, Program, alternate, check_terms, contend, start_peer
from tests.peers.orphans import check_that_nothing_survives_its_driver
from tests.peers.stories import Kind, check_lease_ends

ELECTIONS: list[Kind] = [("go", "election"), ("etcdctl", "elect")]
LOCKS: list[Kind] = [("go", "mutex"), ("etcdctl", "lock")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as running:
        yield running


def test_two_go_elections_take_turns_without_an_overlap(cluster: EtcdCluster) -> None:
    with (
        start_peer("go", "election", cluster, "turns", "ada") as ada,
        start_peer("go", "election", cluster, "turns", "bob") as bob,
    ):
        ada.campaign()
        ada.wait_leading()
        took_ns = alternate(ada, bob, 20)
        assert all(took_ns)
        assert check_terms(ada, bob) == 21


@pytest.mark.parametrize("kinds", [ELECTIONS, LOCKS], ids=["elections", "locks"])
def test_go_programs_and_etcdctl_contend_without_an_overlap(cluster: EtcdCluster, kinds: list[Kind]) -> None:
    name = "-".join(kinds[0])
    with ExitStack() as stack:
        peers = [stack.enter_context(start_peer(*kind, cluster, name, "-".join(kind))) for kind in (*kinds, kinds[0])]
        contend(peers, 5)
        assert check_terms(*peers) == 15


@pytest.mark.parametrize(("program", "kind"), [("go", "election"), ("go", "mutex"), ("etcdctl", "lock")])
def test_the_next_leads_once_the_lease_of_a_killed_peer_has_ended(
    cluster: EtcdCluster, program: Program, kind: str
) -> None:
    name = f"killed-{program}-{kind}"
    with (
        start_peer(program, kind, cluster, name, "ada", ttl_s=2) as ada,
        start_peer("go", "election", cluster, name, "bob", ttl_s=2) as bob,
    ):
        check_lease_ends(ada, bob)


@pytest.mark.parametrize(("program", "kind"), ELECTIONS)
def test_observers_see_who_leads_and_what_it_proclaims(cluster: EtcdCluster, program: Program, kind: str) -> None:
    name = f"seen-by-{program}"
    with (
        start_peer("go", "election", cluster, name, "ada") as ada,
        start_peer(program, kind, cluster, name, "observer") as observer,
    ):
        observer.observe()
        ada.campaign()
        assert observer.wait_observed("ada").fields["value"] == "ada"
        ada.wait_leading()  # It is seen before it knows.
        ada.ask("proclaim countess", "proclaimed")
        assert observer.wait_observed("countess").fields["value"] == "countess"


def test_every_peer_tells_the_time_of_one_clock(cluster: EtcdCluster) -> None:
    for program, kind in (*ELECTIONS, *LOCKS):
        before_ns = time.monotonic_ns()
        with start_peer(program, kind, cluster, f"clock-{program}-{kind}", "ada") as ada:
            ada.campaign()
            at_ns = ada.wait_leading().at_ns
            assert before_ns < at_ns < time.monotonic_ns()


def test_a_peer_that_fails_says_so_at_once(cluster: EtcdCluster) -> None:
    with start_peer("go", "mutex", cluster, "fails", "ada") as ada:
        ada.tell("proclaim nothing")
        with pytest.raises(PeerFailed, match="a mutex proclaims nothing"):
            ada.wait("proclaimed")


@pytest.mark.parametrize(("program", "kind"), ELECTIONS)
def test_a_peer_and_its_children_die_with_a_driver_that_is_killed(
    cluster: EtcdCluster, program: Program, kind: str
) -> None:
    with start_peer(program, kind, cluster, f"orphan-{program}", "ada") as ada:
        check_that_nothing_survives_its_driver(ada)


def test_an_overlap_would_be_seen(cluster: EtcdCluster) -> None:
    # Two elections that only look like one: both lead, and their times in office are judged as if they were of one.
    with (
        start_peer("go", "election", cluster, "left", "ada") as ada,
        start_peer("go", "election", cluster, "right", "bob") as bob,
    ):
        for peer in (ada, bob):
            peer.campaign()
            peer.wait_leading()
        with pytest.raises(AssertionError, match="went on when"):
            check_terms(ada, bob)
        ada.resign()
        with pytest.raises(AssertionError, match="began before the end of"):
            check_terms(ada, bob)


def test_benches_of_the_go_peer_answer(cluster: EtcdCluster) -> None:
    for kind in ("election", "mutex"):
        with start_peer("go", kind, cluster, f"timed-{kind}", "ada") as ada:
            timed = ada.ask("time 5", "timed").fields["took_ns"]
            assert len(timed) == 5
            assert min(timed) > 0
    with start_peer("go", "election", cluster, "herd", "ada") as ada:
        ada.ask("herd 10", "gathered")
        passed = [ada.ask("pass", "passed").fields["took_ns"] for _ in range(10)]
        assert min(passed) > 0
    with start_peer("go", "election", cluster, "many", "ada") as ada:
        ada.ask("many 20", "held")
        queue = cluster.ctl("get", "--prefix", "many/", "--keys-only").split()
        leases = {key.rpartition("/")[2] for key in queue}
        assert (len(queue), len(leases)) == (20, 1)
