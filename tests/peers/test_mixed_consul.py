"""Mixed fleets on Consul: a tenure candidate in one lock with ``consul lock`` and with Go programs on Consul's own library.

The name is all that they are told: ``x`` for us and for ``consul lock`` is ``LockKey("x/.lock")`` in Go. Nobody is told that
others are of another kind.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tenure.testing.engines import ConsulCluster
from tenure.testing.engines.processes import wait_for
from tests.peers.driver import Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 50
DYING_TTL_S = 2
SHORT_S = 0.001  # the shortest lock-delay of a Go program: 0 would be the engine's own 15 s
GO: list[tuple[Program, str]] = [("go", "lock"), ("go", "session")]
THEIRS: list[tuple[Program, str]] = [*GO, ("consul", "lock")]
every_kind = pytest.mark.parametrize("theirs", THEIRS, ids=" ".join)


@contextmanager
def fleet(
    cluster: ConsulCluster, theirs: tuple[Program, str], name: str, ttl_s: int = 4
) -> Iterator[tuple[Peer, Peer]]:
    """One candidate of ours and one of theirs."""
    with (
        start_peer("tenure", "election", cluster, name, "we", ttl_s=ttl_s) as we,
        start_peer(*theirs, cluster, name, "they", ttl_s=ttl_s, lock_delay_s=SHORT_S) as they,
    ):
        yield we, they


@every_kind
def test_we_hand_the_office_to_each_other_fifty_times_without_an_overlap(
    consul: ConsulCluster, theirs: tuple[Program, str]
) -> None:
    with fleet(consul, theirs, f"mixed/turns/{'-'.join(theirs)}") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, HAND_OVERS)
        assert check_terms(we, they) == HAND_OVERS + 1


@every_kind
def test_they_lead_and_we_wait_until_they_are_killed(consul: ConsulCluster, theirs: tuple[Program, str]) -> None:
    name = f"mixed/they-die/{'-'.join(theirs)}"
    with fleet(consul, theirs, name, DYING_TTL_S) as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        if theirs in GO:  # A lock of the command line has no value.
            assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        they.kill()
        if theirs not in GO:  # Its session has 15 s, and no option changes that: end it as time would.
            (key,) = json.loads(consul.api("GET", f"/v1/kv/{name}/.lock"))
            consul.api("PUT", f"/v1/session/destroy/{key['Session']}")
        we.wait_leading(60)  # Nor can its lock-delay of 15 s be changed.
        assert check_terms(we, they) == 2


@pytest.mark.parametrize("theirs", GO, ids=" ".join)
def test_we_lead_and_they_wait_and_see_us_until_we_are_killed(
    consul: ConsulCluster, theirs: tuple[Program, str]
) -> None:
    with fleet(consul, theirs, f"mixed/we-die/{'-'.join(theirs)}", DYING_TTL_S) as (we, they):
        we.campaign()
        we.wait_leading()
        they.observe()
        assert they.wait_observed('"advertise":"we"')
        they.campaign()
        they.wait_standing()
        we.kill()
        they.wait_leading(60)  # Ours has no sinks, and so the lock-delay that Consul has as shipped.
        assert check_terms(we, they) == 2


def test_a_fleet_of_all_kinds_contends_without_an_overlap(consul: ConsulCluster) -> None:
    kinds: list[tuple[Program, str]] = [("tenure", "election"), ("tenure", "lock"), *THEIRS]
    with ExitStack() as stack:
        peers = [stack.enter_context(start_peer(*kind, consul, "mixed/all", "-".join(kind))) for kind in kinds]
        contend(peers, 5)
        assert check_terms(*peers) == 5 * len(peers)


def test_tenure_run_waits_for_a_consul_lock_of_the_same_name(consul: ConsulCluster, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tenure = str(Path(sys.executable).parent / "tenure")
    command = [tenure, "run", "--store", consul.url, "mixed/x", "--", "touch", str(ran)]
    with start_peer("consul", "lock", consul, "mixed/x", "they") as they:
        they.campaign()
        they.wait_leading()
        with subprocess.Popen(command) as run:
            assert wait_for(lambda: "tenure " in consul.api("GET", "/v1/session/list"), 30)
            assert not ran.exists()
            they.resign()
            assert run.wait(30) == 0
        assert ran.exists()
