"""Mixed fleets on Consul: a tenure candidate in one lock with ``consul lock`` and with Go programs on Consul's own library.

The name is all that they are told: ``x`` for us and for ``consul lock`` is ``LockKey("x/.lock")`` in Go. Nobody is told that
others are of another kind.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.engines import ConsulCluster, EngineFailed
from tenure.testing.engines.processes import wait_for
from tests.peers.driver import Peer, Program, alternate, check_terms, contend, start_peer

HAND_OVERS = 50
DYING_TTL_S = 4
LOCK_DELAY_NS = 15 * 10**9  # the engine's own
PATIENCE_S = 60
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
def test_they_lead_and_we_wait_until_the_session_of_those_who_were_killed_has_ended(
    consul: ConsulCluster, theirs: tuple[Program, str]
) -> None:
    name = f"mixed/they-die/{'-'.join(theirs)}"
    with fleet(consul, theirs, name, DYING_TTL_S) as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        if theirs in GO:  # A lock of the command line has no value.
            assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        session = session_of(consul, name)
        they.kill()
        delay_ns = 0
        if theirs not in GO:  # Its session has 15 s, and no option changes that: end it as time would.
            assert lives(consul, session)
            consul.api("PUT", f"/v1/session/destroy/{session}")
            delay_ns = LOCK_DELAY_NS  # Nor can that be changed.
        check_takeover(consul, session, they, we, delay_ns)


@every_kind
def test_we_lead_and_they_wait_until_our_session_has_ended_and_its_lock_delay(
    consul: ConsulCluster, theirs: tuple[Program, str]
) -> None:
    name = f"mixed/we-die/{'-'.join(theirs)}"
    with fleet(consul, theirs, name, DYING_TTL_S) as (we, they):
        we.campaign()
        we.wait_leading()
        if theirs in GO:  # The command line has no eyes.
            they.observe()
            assert they.wait_observed('"advertise":"we"')
        they.campaign()
        they.wait_standing()
        session = session_of(consul, name)
        we.kill()
        # Ours has no sinks, and so the lock-delay that Consul has as shipped.
        check_takeover(consul, session, we, they, LOCK_DELAY_NS)


def check_takeover(consul: ConsulCluster, session: str, dead: Peer, heir: Peer, delay_ns: int) -> None:
    """See that a killed peer is succeeded as soon as its session and the lock-delay have ended, and no sooner.

    The engine says when a session lives: whoever pays no heed to it, or to the lock-delay, leads before that time.
    """
    lived_at_ns = killed_at_ns = dead.terms()[-1].end_ns or 0
    assert killed_at_ns

    def has_ended() -> bool:
        nonlocal lived_at_ns
        asked_at_ns = time.monotonic_ns()
        if not lives(consul, session):
            return True
        lived_at_ns = asked_at_ns
        return False

    assert wait_for(has_ended, PATIENCE_S)
    led = heir.wait_leading(PATIENCE_S)
    assert led.at_ns > lived_at_ns + delay_ns
    if not delay_ns:  # Else that is a bound by itself.
        assert lived_at_ns > killed_at_ns
    assert check_terms(dead, heir) == 2


def session_of(consul: ConsulCluster, name: str) -> str:
    (key,) = json.loads(consul.api("GET", f"/v1/kv/{name}/.lock?consistent"))
    return str(key["Session"])


def lives(consul: ConsulCluster, session: str) -> bool:
    return bool(json.loads(consul.api("GET", f"/v1/session/info/{session}?consistent")))


def test_a_fleet_of_all_kinds_contends_without_an_overlap(consul: ConsulCluster) -> None:
    kinds: list[tuple[Program, str]] = [("tenure", "election"), ("tenure", "lock"), *THEIRS]
    with ExitStack() as stack:
        peers = [stack.enter_context(start_peer(*kind, consul, "mixed/all", "-".join(kind))) for kind in kinds]
        contend(peers, 5)
        assert check_terms(*peers) == 5 * len(peers)


@contextmanager
def running(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """``tenure run``, which ends with the block if it has not by itself."""
    command = [str(Path(sys.executable).parent / "tenure"), "run", "--json", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: "subprocess.Popen[str]", *events: str) -> dict[str, Any]:
    """Return the first of these events that a process tells of."""
    assert process.stderr is not None
    for line in process.stderr:
        told: dict[str, Any] = json.loads(line)
        if told["event"] in events:
            return told
    raise AssertionError(f"it ended without a word of {events}")


def test_tenure_run_stands_by_for_a_consul_lock_of_the_same_name(consul: ConsulCluster, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with start_peer("consul", "lock", consul, "mixed/x", "they") as they:
        they.campaign()
        token = they.wait_leading().fields["token"]
        with running("--store", consul.url, "mixed/x", "--", "touch", str(ran)) as run:
            told = heard(run, "standing-by", "elected")
            assert (told["event"], told["election"], told["token"]) == ("standing-by", "mixed/x", token)
            assert not ran.exists()
            they.resign()
            told = heard(run, "elected")
            assert told["token"] > token
            assert run.wait(PATIENCE_S) == 0
        assert ran.exists()


def test_a_consul_lock_gets_nothing_while_tenure_run_has_the_same_name(consul: ConsulCluster, tmp_path: Path) -> None:
    end = tmp_path / "end"
    command = ("sh", "-c", f"until test -e '{end}'; do sleep 0.05; done")
    with running("--store", consul.url, "mixed/y", "--", *command) as run:
        heard(run, "elected")
        with pytest.raises(EngineFailed, match="timeout during lock acquisition"):
            consul.ctl("lock", "-try=1s", "mixed/y", "true")
        assert run.poll() is None
        end.touch()
        assert run.wait(PATIENCE_S) == 0
    consul.ctl("lock", "-try=30s", "mixed/y", "true")
