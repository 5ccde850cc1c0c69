"""Peers of Consul among themselves: what the driver sees of programs that are right anyway. It is the driver that is tested."""

import json
import time
from contextlib import ExitStack

import pytest

from tenure.testing.engines import ConsulCluster
from tests.peers.driver import PeerFailed, Program, alternate, check_terms, contend, start_peer
from tests.peers.orphans import check_that_nothing_survives_its_driver

LOCKS: list[tuple[Program, str]] = [("go", "lock"), ("go", "session"), ("consul", "lock")]
every_kind = pytest.mark.parametrize(("program", "kind"), LOCKS)
SHORT_S = 0.001  # 0 would be the engine's own 15 s


@every_kind
def test_programs_take_turns_with_a_go_program_without_an_overlap(
    consul: ConsulCluster, program: Program, kind: str
) -> None:
    name = f"turns/{program}-{kind}"
    with (
        start_peer(program, kind, consul, name, "ada") as ada,
        start_peer("go", "lock", consul, name, "bob") as bob,
    ):
        ada.campaign()
        ada.wait_leading()
        assert all(alternate(ada, bob, 10))
        assert check_terms(ada, bob) == 11


def test_all_kinds_contend_without_an_overlap(consul: ConsulCluster) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(start_peer(*kind, consul, "all", "-".join(kind))) for kind in LOCKS]
        contend(peers, 5)
        assert check_terms(*peers) == 15


@pytest.mark.parametrize("kind", ["lock", "session"])
def test_the_next_leads_once_the_session_of_a_killed_peer_has_ended(consul: ConsulCluster, kind: str) -> None:
    name = f"killed/{kind}"
    with (
        start_peer("go", kind, consul, name, "ada", ttl_s=1, lock_delay_s=SHORT_S) as ada,
        start_peer("go", kind, consul, name, "bob", ttl_s=1, lock_delay_s=SHORT_S) as bob,
    ):
        ada.campaign()
        ada.wait_leading()
        bob.campaign()
        bob.wait_standing()
        killed_at_ns = time.monotonic_ns()
        ada.kill()
        # Renewed at halves of its 1 s, and the server gives it twice as long; nothing but its end ended ada's office.
        assert bob.wait_leading().at_ns - killed_at_ns > 300_000_000
        assert check_terms(ada, bob) == 2


@every_kind
def test_a_peer_whose_session_is_destroyed_says_that_its_office_is_lost(
    consul: ConsulCluster, program: Program, kind: str
) -> None:
    name = f"destroyed/{program}-{kind}"
    with start_peer(program, kind, consul, name, "ada") as ada:
        ada.campaign()
        began_ns = ada.wait_leading().at_ns
        [entry] = json.loads(consul.api("GET", f"/v1/kv/{name}/.lock"))
        consul.api("PUT", f"/v1/session/destroy/{entry['Session']}")
        assert ada.wait("lost").at_ns > began_ns


def test_the_value_of_whoever_holds_the_key_is_seen(consul: ConsulCluster) -> None:
    with (
        start_peer("go", "lock", consul, "seen", "ada") as ada,
        start_peer("go", "lock", consul, "seen", "observer") as observer,
    ):
        observer.observe()
        ada.campaign()
        assert observer.wait_observed("ada").fields["value"] == "ada"


def test_every_peer_tells_the_time_of_one_clock(consul: ConsulCluster) -> None:
    for program, kind in LOCKS:
        before_ns = time.monotonic_ns()
        with start_peer(program, kind, consul, f"clock/{program}-{kind}", "ada") as ada:
            ada.campaign()
            assert before_ns < ada.wait_leading().at_ns < time.monotonic_ns()


@every_kind
def test_a_peer_and_its_children_die_with_a_driver_that_is_killed(
    consul: ConsulCluster, program: Program, kind: str
) -> None:
    with start_peer(program, kind, consul, f"orphan/{program}-{kind}", "ada") as ada:
        check_that_nothing_survives_its_driver(ada)


def test_a_peer_that_fails_says_so_at_once(consul: ConsulCluster) -> None:
    consul.ctl("kv", "put", "no-lock/.lock", "something else")
    with start_peer("go", "lock", consul, "no-lock", "ada") as ada:
        ada.campaign()
        with pytest.raises(PeerFailed, match="Existing key does not match lock use"):
            ada.wait_leading()


@pytest.mark.parametrize("kind", ["lock", "session"])
def test_pairs_of_taking_and_leaving_are_timed(consul: ConsulCluster, kind: str) -> None:
    with start_peer("go", kind, consul, f"timed/{kind}", "ada") as ada:
        timed = ada.ask("time 5", "timed").fields["took_ns"]
        assert len(timed) == 5
        assert min(timed) > 0
