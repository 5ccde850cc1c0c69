"""Mixed fleets on Kubernetes: a tenure candidate in one election with programs on client-go's leaderelection.

The name is all that they are told: ``x`` for us is the Lease ``x`` for them. Nobody is told that others are of another kind.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tenure.testing.engines import KubernetesCluster
from tenure.testing.engines.processes import wait_for
from tests.peers.driver import Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 50
TTL_S = 3  # and so client-go asks every 0.4 s


@contextmanager
def fleet(
    cluster: KubernetesCluster, name: str, ttl_s: float = TTL_S, theirs: str = "release"
) -> Iterator[tuple[Peer, Peer]]:
    """One candidate of ours and one of theirs."""
    with (
        start_peer("tenure", "election", cluster, name, "we", ttl_s=ttl_s) as we,
        start_peer("go", theirs, cluster, name, "they", ttl_s=ttl_s) as they,
    ):
        yield we, they


def test_we_hand_the_office_to_each_other_fifty_times_without_an_overlap(kubernetes: KubernetesCluster) -> None:
    with fleet(kubernetes, "mixed-turns") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, HAND_OVERS)
        assert check_terms(we, they) == HAND_OVERS + 1


@pytest.mark.parametrize("how", ["killed", "keep"])
def test_they_lead_and_we_wait_and_see_them_until_their_lease_ends(kubernetes: KubernetesCluster, how: str) -> None:
    with fleet(kubernetes, f"mixed-they-end-{how}", theirs="keep") as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        we.wait_standing()
        if how == "killed":
            they.kill()
        else:
            they.resign()
        we.wait_leading()
        assert check_terms(we, they) == 2


def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(kubernetes: KubernetesCluster) -> None:
    with (
        fleet(kubernetes, "mixed-we-die") as (we, they),
        # A request of its own ends with the third of its ttl, and a watch is one.
        start_peer("go", "release", kubernetes, "mixed-we-die", "observer", ttl_s=300) as observer,
    ):
        we.campaign()
        we.wait_leading()
        observer.observe()
        assert observer.wait_observed("#").fields["value"].endswith("#1")
        they.campaign()
        they.wait_standing()
        we.kill()
        they.wait_leading()
        assert check_terms(we, they) == 2


def test_two_of_ours_and_two_of_theirs_contend_without_an_overlap(kubernetes: KubernetesCluster) -> None:
    kinds: list[tuple[Program, str]] = [("tenure", "election"), ("go", "release")]
    with ExitStack() as stack:
        peers = [
            stack.enter_context(start_peer(*kind, kubernetes, "mixed-all", f"{kind[0]}-{number}", ttl_s=TTL_S))
            for kind in kinds
            for number in (1, 2)
        ]
        contend(peers, 3)
        assert check_terms(*peers, repeating=peers[2:]) == 3 * len(peers)


def test_tenure_run_waits_for_a_client_go_lease_of_the_same_name(kubernetes: KubernetesCluster, tmp_path: Path) -> None:
    ran, tenure = tmp_path / "ran", str(Path(sys.executable).parent / "tenure")
    command = [tenure, "run", "--store", kubernetes.url, "mixed-run", "--", "touch", str(ran)]
    with start_peer("go", "release", kubernetes, "mixed-run", "they", ttl_s=TTL_S) as they:
        they.campaign()
        they.wait_leading()
        status = [tenure, "status", "--store", kubernetes.url, "--json"]
        told = json.loads(subprocess.run(status, capture_output=True, check=True, text=True).stdout)["elections"]
        assert {one["leader"]["host"] for one in told if one["election"] == "mixed-run"} == {"they"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
            assert run.stderr is not None
            assert "mixed-run" in run.stderr.readline()  # It says that it waits.
            assert not ran.exists()
            they.resign()
            assert run.wait(30) == 0
        assert wait_for(ran.exists, 1)
