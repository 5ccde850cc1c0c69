"""Mixed fleets on etcd: a tenure candidate in one election, or one lock, with programs on etcd's own libraries.

The name is all that they are told. Nobody is told that others are of another kind.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.testing.engines import EtcdCluster, Tls
from tenure.testing.engines.processes import wait_for
from tests.peers.driver import alternate, check_terms, contend, start_peer
from tests.peers.stories import Kind, check_hand_overs, check_they_die, check_we_die, fleet

ELECTIONS: list[Kind] = [("go", "election"), ("etcdctl", "elect")]
LOCKS: list[Kind] = [("go", "mutex"), ("etcdctl", "lock")]
every_kind = pytest.mark.parametrize("theirs", ELECTIONS + LOCKS, ids=" ".join)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as running:
        yield running


@every_kind
def test_we_hand_the_office_to_each_other_two_hundred_times_without_an_overlap(
    cluster: EtcdCluster, theirs: Kind
) -> None:
    check_hand_overs(cluster, theirs)


@every_kind
def test_they_lead_and_we_wait_until_they_are_killed(cluster: EtcdCluster, theirs: Kind) -> None:
    def bury(name: str) -> None:
        if theirs == ("etcdctl", "elect"):  # Its lease has 60 s, and no option changes that: end it as time would.
            (leader, *_) = cluster.ctl("get", "--prefix", f"{name}/", "--keys-only", "--sort-by=CREATE").split()
            cluster.ctl("lease", "revoke", leader.rpartition("/")[2])

    check_they_die(cluster, theirs, seen=theirs in ELECTIONS, bury=bury)  # A lock of theirs has no value.


@every_kind
def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(cluster: EtcdCluster, theirs: Kind) -> None:
    check_we_die(cluster, theirs)


@pytest.mark.parametrize("theirs", ELECTIONS, ids=" ".join)
def test_what_we_proclaim_is_seen_by_their_observers_and_moves_nobody_in_the_queue(
    cluster: EtcdCluster, theirs: Kind
) -> None:
    with (
        fleet(cluster, theirs, f"we-proclaim/{'-'.join(theirs)}") as (we, they),
        start_peer(*theirs, cluster, f"we-proclaim/{'-'.join(theirs)}", "observer") as observer,
    ):
        observer.observe()
        we.campaign()
        we.wait_leading()
        before = json.loads(observer.wait_observed('"advertise":"we"').fields["value"])
        they.campaign()
        they.wait_standing()
        for address in ("countess", "analyst"):
            we.ask(f"proclaim {address}", "proclaimed")
            told = json.loads(observer.wait_observed(address).fields["value"])
            assert told == {**before, "advertise": address}
        we.resign()
        they.wait_leading()
        assert observer.wait_observed("they").fields["value"] == "they"
        assert check_terms(we, they) == 2


def test_what_a_go_program_proclaims_is_seen_by_our_observer(cluster: EtcdCluster) -> None:
    with fleet(cluster, ("go", "election"), "they-proclaim") as (we, they):
        we.observe()
        they.campaign()
        they.wait_leading()
        assert we.wait_observed("they").fields["value"] == "they"
        for address in ("countess", "analyst"):
            they.ask(f"proclaim {address}", "proclaimed")
            assert we.wait_observed(address).fields["value"] == address


def test_a_fleet_of_all_kinds_contends_without_an_overlap(cluster: EtcdCluster) -> None:
    kinds: list[Kind] = [("tenure", "election"), *ELECTIONS, ("tenure", "lock"), *LOCKS]
    with ExitStack() as stack:
        peers = [stack.enter_context(start_peer(*kind, cluster, "all", "-".join(kind))) for kind in kinds]
        contend(peers, 10)
        assert check_terms(*peers) == 10 * len(peers)


def test_tenure_run_waits_for_an_etcdctl_elect_of_the_same_name(cluster: EtcdCluster, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    command = [str(Path(sys.executable).parent / "tenure"), "run", "--store", cluster.url, "x", "--", "touch", str(ran)]
    with start_peer("etcdctl", "elect", cluster, "x", "they") as they:
        they.campaign()
        they.wait_leading()
        with subprocess.Popen(command) as run:
            assert wait_for(lambda: len(cluster.ctl("get", "--prefix", "x/", "--keys-only").split()) == 2, 30)
            assert not ran.exists()
            they.resign()
            assert run.wait(30) == 0
        assert ran.exists()


def test_an_etcdctl_elect_waits_for_a_tenure_run_of_the_same_name(cluster: EtcdCluster) -> None:
    program = str(Path(sys.executable).parent / "tenure")
    command = [program, "run", "--json", "--store", cluster.url, "y", "--", "cat"]  # until its standard input ends
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stderr is not None
        try:
            events = (json.loads(line)["event"] for line in run.stderr)
            assert next(event for event in events if event != "log") == "elected"
            with start_peer("etcdctl", "elect", cluster, "y", "they") as they:
                they.campaign()
                they.wait_standing()
                ends_at_ns = time.monotonic_ns()
                run.stdin.close()
                assert they.wait_leading().at_ns > ends_at_ns
                assert run.wait(30) == 0
        finally:
            run.terminate()


def test_we_share_an_election_with_a_go_program_over_mutual_tls(tmp_path: Path) -> None:
    tls = Tls(tmp_path, clients_need_certificates=True)
    with EtcdCluster(size=1, tls=tls) as cluster, fleet(cluster, ("go", "election"), "secret") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, 4)
        assert check_terms(we, they) == 5
