"""Mixed fleets on ZooKeeper: a tenure candidate in one election, or one lock, with programs on kazoo and on Curator.

The name is all that they are told: ``x`` for us is ``/x`` for them. Nobody is told that others are of another kind.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tenure.testing.engines import ZooKeeperEnsemble
from tests.peers.driver import PATIENCE_S, check_terms, contend, start_peer
from tests.peers.stories import Kind, check_hand_overs, check_they_die, check_we_die, ours, path

KINDS: list[Kind] = [("kazoo", "election"), ("curator", "latch"), ("kazoo", "lock"), ("curator", "mutex")]
every_kind = pytest.mark.parametrize("theirs", KINDS, ids=" ".join)
every_election = pytest.mark.parametrize("theirs", KINDS[:2], ids=" ".join)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tick_ms=500) as running:  # Sessions may have two to twenty ticks.
        yield running


@contextmanager
def tenure_run(ensemble: ZooKeeperEnsemble, name: str) -> Iterator["subprocess.Popen[str]"]:
    """The command of that name, with a command under it that runs until its standard input ends."""
    command = [str(Path(sys.executable).parent / "tenure"), "run", "--json", "--store", ensemble.url, name, "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.terminate()


def said(running: "subprocess.Popen[str]") -> dict[str, str]:
    """The next thing that ``tenure run`` says, but for warnings of a machine that is busy."""
    assert running.stderr is not None
    told: dict[str, str] = {"event": "log"}
    while told["event"] == "log":
        told = json.loads(running.stderr.readline())
    return told


@every_kind
def test_we_hand_the_office_to_each_other_two_hundred_times_without_an_overlap(
    ensemble: ZooKeeperEnsemble, theirs: Kind
) -> None:
    check_hand_overs(ensemble, theirs)


@every_kind
def test_they_lead_and_we_wait_and_see_them_until_they_are_killed(ensemble: ZooKeeperEnsemble, theirs: Kind) -> None:
    check_they_die(ensemble, theirs, seen=True)


@every_kind
def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(ensemble: ZooKeeperEnsemble, theirs: Kind) -> None:
    check_we_die(ensemble, theirs)


@every_kind
def test_two_of_ours_and_two_of_theirs_contend_without_an_overlap(ensemble: ZooKeeperEnsemble, theirs: Kind) -> None:
    # Each kind apart: programs on kazoo and on Curator do not see each other.
    name = f"contend/{'-'.join(theirs)}"
    with ExitStack() as stack:
        peers = [
            stack.enter_context(start_peer(*theirs, ensemble, path(ensemble, name), who))
            if who.startswith("they")
            else stack.enter_context(start_peer("tenure", ours(theirs), ensemble, name, who))
            for who in ("we-1", "we-2", "they-1", "they-2")
        ]
        contend(peers, 10)
        assert check_terms(*peers) == 10 * len(peers)


@every_election
def test_tenure_run_meets_an_election_of_theirs_by_its_name_alone(ensemble: ZooKeeperEnsemble, theirs: Kind) -> None:
    name = f"met-{theirs[0]}"
    with start_peer(*theirs, ensemble, f"/{name}", "they") as they:
        they.campaign()
        they.wait_leading()
        with tenure_run(ensemble, name) as run:
            waits = said(
                run
            )  # Its first word: where it looked for others in another place, it would be elected at once.
            assert (waits["event"], waits["election"]) == ("standing-by", name)
            assert "they" in waits["leader"]
            left = they.resign()
            assert said(run)["event"] == "elected"
            they.campaign()
            they.wait_standing()
            ends_at_ns = time.monotonic_ns()
            assert run.stdin is not None
            run.stdin.close()
            assert they.wait_leading().at_ns > ends_at_ns > left.at_ns
            assert run.wait(PATIENCE_S) == 0
