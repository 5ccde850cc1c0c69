"""client-go among itself: what the driver sees of programs that are right anyway. It is the driver that is tested."""

import time

import pytest

from tenure.testing.engines import KubernetesCluster
from tests.peers.driver import PeerFailed, alternate, check_terms, start_peer
from tests.peers.orphans import check_that_nothing_survives_its_driver

TTL_S = 3  # and so a renew deadline of 2 s and a retry every 0.4 s


def test_two_programs_that_release_the_lease_take_turns_without_an_overlap(kubernetes: KubernetesCluster) -> None:
    with (
        start_peer("go", "release", kubernetes, "turns", "ada", ttl_s=TTL_S) as ada,
        start_peer("go", "release", kubernetes, "turns", "bob", ttl_s=TTL_S) as bob,
    ):
        ada.campaign()
        ada.wait_leading()
        assert all(alternate(ada, bob, 6))
        assert check_terms(ada, bob) == 7


@pytest.mark.parametrize("how", ["keep", "killed"])
def test_the_next_leads_once_a_lease_that_was_not_released_has_ended(kubernetes: KubernetesCluster, how: str) -> None:
    with (
        start_peer("go", "keep", kubernetes, f"ended-{how}", "ada", ttl_s=TTL_S) as ada,
        start_peer("go", "keep", kubernetes, f"ended-{how}", "bob", ttl_s=TTL_S) as bob,
    ):
        ada.campaign()
        ada.wait_leading()
        bob.campaign()
        bob.wait_standing()
        ended_at_ns = time.monotonic_ns()
        if how == "keep":
            ada.resign()
        else:
            ada.kill()
        # Renewed at most its renew deadline ago: of the lease a second at least was left.
        assert bob.wait_leading().at_ns - ended_at_ns > 300_000_000
        assert check_terms(ada, bob) == 2


def test_a_peer_whose_lease_another_has_says_that_its_office_is_lost(kubernetes: KubernetesCluster) -> None:
    with start_peer("go", "release", kubernetes, "usurped-by-go", "ada", ttl_s=TTL_S) as ada:
        ada.campaign()
        began_ns = ada.wait_leading().at_ns
        usurped = '{"spec": {"holderIdentity": "bob", "leaseDurationSeconds": 60}}'
        kubernetes.kubectl("patch", "lease", "usurped-by-go", "--type=merge", f"--patch={usurped}")
        assert ada.wait("lost").at_ns > began_ns


def test_whoever_holds_the_lease_is_seen_by_others_and_by_kubectl(kubernetes: KubernetesCluster) -> None:
    with (
        start_peer("go", "release", kubernetes, "seen", "ada", ttl_s=15) as ada,
        start_peer("go", "release", kubernetes, "seen", "observer") as observer,
    ):
        observer.observe()
        before_ns = time.monotonic_ns()
        ada.campaign()
        assert before_ns < ada.wait_leading().at_ns < time.monotonic_ns()
        assert observer.wait_observed("ada").fields["value"] == "ada"
        said = kubernetes.kubectl(
            "get", "lease", "seen", "--output=jsonpath={.spec.leaseDurationSeconds} {.spec.holderIdentity}"
        )
        assert said == "15 ada"


def test_a_peer_dies_with_a_driver_that_is_killed(kubernetes: KubernetesCluster) -> None:
    with start_peer("go", "release", kubernetes, "orphan", "ada") as ada:
        check_that_nothing_survives_its_driver(ada)


def test_a_peer_that_fails_says_so_at_once(kubernetes: KubernetesCluster) -> None:
    with start_peer("go", "release", kubernetes, "fails", "ada") as ada:
        ada.tell("proclaim nothing")
        with pytest.raises(PeerFailed, match="is no command"):
            ada.wait("proclaimed")


def test_benches_of_the_peer_answer(kubernetes: KubernetesCluster) -> None:
    with start_peer("go", "release", kubernetes, "timed", "ada") as ada:
        timed = ada.ask("time 3", "timed").fields["took_ns"]
        assert len(timed) == 3
        assert min(timed) > 0
    with start_peer("go", "release", kubernetes, "one-of-many", "ada") as ada:
        ada.ask("many 5", "held")
        leases = kubernetes.kubectl("get", "lease", "--output=name").split()
        assert {f"lease.coordination.k8s.io/one-of-many-{number}" for number in range(5)} <= set(leases)
