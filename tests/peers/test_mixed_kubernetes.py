"""Mixed fleets on Kubernetes: a tenure candidate in one election with programs on client-go's leaderelection.

The name is all that they are told: ``x`` for us is the Lease ``x`` for them. Nobody is told that others are of another kind.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.engines import KubernetesCluster
from tenure.timing import DEFAULT_DRIFT
from tests.peers.driver import PATIENCE_S, Event, Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 50
TTL_S = 3  # and so client-go asks every 0.4 s
DYING_TTL_S = 6  # so that there is time to look at a Lease between the death of its holder and its end
TENURE = str(Path(sys.executable).parent / "tenure")


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


def record_of(kubernetes: KubernetesCluster, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(kubernetes.kubectl("get", "lease", name, "--output=json"))["spec"]
    return record


def end(kubernetes: KubernetesCluster, name: str, leader: Peer, how: str) -> dict[str, Any]:
    """Have a leader die, or go without a word, and return its Lease as it last was in office, as far as was seen."""
    before = record_of(kubernetes, name)
    if how == "killed":
        leader.kill()
    else:
        leader.resign()
    after = record_of(kubernetes, name)
    return after if after["holderIdentity"] == before["holderIdentity"] else before


def check_lease_was_waited_for(last: dict[str, Any], led: Event) -> None:
    """See that somebody took office no sooner than the Lease had ended.

    Its holder wrote when it renewed it by the time of day of this machine. Whoever counts from when it saw that counts from
    later on.
    """
    renewed_at_ns = round(datetime.fromisoformat(last["renewTime"]).timestamp() * 1e9)
    led_at_ns = led.at_ns + time.time_ns() - time.monotonic_ns()
    lasts_ns = last["leaseDurationSeconds"] * 10**9
    assert led_at_ns - renewed_at_ns >= lasts_ns * (1 - DEFAULT_DRIFT)


@pytest.mark.parametrize("how", ["killed", "keep"])
def test_they_lead_and_we_wait_and_see_them_until_their_lease_ends(kubernetes: KubernetesCluster, how: str) -> None:
    name = f"mixed-they-end-{how}"
    with fleet(kubernetes, name, DYING_TTL_S, theirs="keep") as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        we.wait_standing()
        last = end(kubernetes, name, they, how)
        assert last["holderIdentity"] == "they"
        check_lease_was_waited_for(last, we.wait_leading())
        assert check_terms(we, they) == 2


def test_we_lead_and_they_wait_and_see_us_until_our_lease_ends(kubernetes: KubernetesCluster) -> None:
    with (
        fleet(kubernetes, "mixed-we-die", DYING_TTL_S) as (we, they),
        # A request of its own ends with the third of its ttl, and a watch is one.
        start_peer("go", "release", kubernetes, "mixed-we-die", "observer", ttl_s=300) as observer,
    ):
        we.campaign()
        we.wait_leading()
        observer.observe()
        assert observer.wait_observed("#").fields["value"].endswith("#1")
        they.campaign()
        they.wait_standing()
        last = end(kubernetes, "mixed-we-die", we, "killed")
        assert last["holderIdentity"].endswith("#1")
        check_lease_was_waited_for(last, they.wait_leading())
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


@contextmanager
def tenure_run(cluster: KubernetesCluster, name: str) -> Iterator["subprocess.Popen[str]"]:
    """The command of that name, with a command under it that runs until its standard input ends."""
    command = [TENURE, "run", "--json", "--store", cluster.url, name, "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.terminate()


def said(running: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next thing that ``tenure run`` says, but for warnings of a machine that is busy."""
    assert running.stderr is not None
    told: dict[str, Any] = {"event": "log"}
    while told["event"] == "log":
        told = json.loads(running.stderr.readline())
    return told


def test_tenure_run_meets_a_client_go_lease_by_its_name_alone(kubernetes: KubernetesCluster) -> None:
    with start_peer("go", "release", kubernetes, "mixed-run", "they", ttl_s=TTL_S) as they:
        they.campaign()
        they.wait_leading()
        status = [TENURE, "status", "--store", kubernetes.url, "--json"]
        told = json.loads(subprocess.run(status, capture_output=True, check=True, text=True).stdout)["elections"]
        assert {one["leader"]["host"] for one in told if one["election"] == "mixed-run"} == {"they"}
        with tenure_run(kubernetes, "mixed-run") as run:
            # Its first word: if it looked for others in another place, it would be elected at once.
            waits = said(run)
            assert (waits["event"], waits["election"]) == ("standing-by", "mixed-run")
            assert "they" in waits["leader"]
            they.resign()
            led = said(run)
            assert (led["event"], led["token"]) == ("elected", waits["token"] + 1)
            they.campaign()
            they.wait_standing()
            ends_at_ns = time.monotonic_ns()
            assert run.stdin is not None
            run.stdin.close()
            assert they.wait_leading().at_ns > ends_at_ns
            assert run.wait(PATIENCE_S) == 0
