"""Mixed fleets on etcd: a tenure candidate in one election, or one lock, with programs on etcd's own libraries.

The name is all that they are told. Nobody is told that others are of another kind.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tenure.testing.engines import EtcdCluster, Tls
from tenure.testing.engines.processes import wait_for
from tests.peers.driver import Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 200
DYING_TTL_S = 2  # the shortest that an etcd as shipped has
ELECTIONS: list[tuple[Program, str]] = [("go", "election"), ("etcdctl", "elect")]
LOCKS: list[tuple[Program, str]] = [("go", "mutex"), ("etcdctl", "lock")]
OURS = {**dict.fromkeys(ELECTIONS, "election"), **dict.fromkeys(LOCKS, "lock")}
every_kind = pytest.mark.parametrize("theirs", OURS, ids=" ".join)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as running:
        yield running


@contextmanager
def fleet(cluster: EtcdCluster, theirs: tuple[Program, str], name: str, ttl_s: int = 4) -> Iterator[tuple[Peer, Peer]]:
    """One candidate of ours and one of theirs."""
    with (
        start_peer("tenure", OURS[theirs], cluster, name, "we", ttl_s=ttl_s) as we,
        start_peer(*theirs, cluster, name, "they", ttl_s=ttl_s) as they,
    ):
        yield we, they


@every_kind
def test_we_hand_the_office_to_each_other_two_hundred_times_without_an_overlap(
    cluster: EtcdCluster, theirs: tuple[Program, str]
) -> None:
    with fleet(cluster, theirs, f"turns/{'-'.join(theirs)}") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, HAND_OVERS)
        assert check_terms(we, they) == HAND_OVERS + 1


@every_kind
def test_they_lead_and_we_wait_until_they_are_killed(cluster: EtcdCluster, theirs: tuple[Program, str]) -> None:
    name = f"they-die/{'-'.join(theirs)}"
    with fleet(cluster, theirs, name, DYING_TTL_S) as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        if theirs in ELECTIONS:  # A lock of theirs has no value.
            assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        we.wait_standing()
        they.kill()
        if theirs == ("etcdctl", "elect"):  # Its lease has 60 s, and no option changes that: end it as time would.
            (leader, *_) = cluster.ctl("get", "--prefix", f"{name}/", "--keys-only", "--sort-by=CREATE").split()
            cluster.ctl("lease", "revoke", leader.rpartition("/")[2])
        we.wait_leading()
        assert check_terms(we, they) == 2


@every_kind
def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(
    cluster: EtcdCluster, theirs: tuple[Program, str]
) -> None:
    with fleet(cluster, theirs, f"we-die/{'-'.join(theirs)}", DYING_TTL_S) as (we, they):
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


def test_a_fleet_of_all_kinds_contends_without_an_overlap(cluster: EtcdCluster) -> None:
    kinds: list[tuple[Program, str]] = [("tenure", "election"), *ELECTIONS, ("tenure", "lock"), *LOCKS]
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


def test_we_share_an_election_with_a_go_program_over_mutual_tls(tmp_path: Path) -> None:
    tls = Tls(tmp_path, clients_need_certificates=True)
    with EtcdCluster(size=1, tls=tls) as cluster, fleet(cluster, ("go", "election"), "secret") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, 4)
        assert check_terms(we, they) == 5
