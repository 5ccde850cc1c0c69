"""The traps of clients of etcd, and which test shows that ours is not caught. Each of these tests fails without the cure."""

import importlib

import pytest

TRAPS = {
    "1 a frozen member is not noticed while only a watch is open": (
        "test_etcd_waits.test_a_frozen_member_is_noticed_while_only_a_watch_is_open",
    ),
    "2 etcd closes connections that ping too often": ("test_etcd_waits.test_looking_often_costs_no_connection",),
    "3 a client made after a fork hangs if the parent had one": (
        "test_etcd_processes.test_a_client_made_in_a_forked_child_works_after_the_parent_had_one",
    ),
    "4 two event loops in one process disturb each other": (
        "test_etcd_processes.test_two_event_loops_each_have_a_client",
    ),
    "5 generated stubs collide": ("test_etcd_processes.test_the_client_needs_no_generated_code_and_no_grpc_library",),
    "6 a cancelled watch leaves its stream open in silence": (
        "test_etcd_waits.test_a_wait_whose_past_was_compacted_ends_early_and_not_never",
        "test_etcd_tokens.test_a_wait_outlives_its_token",
    ),
    "7 a watch resumed from a header's revision skips events": (
        "test_etcd_waits.test_a_deletion_while_the_connection_is_down_is_not_missed",
        "test_etcd_waits.test_a_deletion_of_the_past_is_not_missed_if_the_connection_broke_before_etcd_told_of_it",
    ),
    "8 tokens expire, or grow old when users change": (
        "test_etcd_tokens.test_a_token_that_was_forgotten_is_asked_for_again_and_the_call_is_carried_out",
        "test_etcd_tokens.test_a_token_of_an_older_list_of_users_is_asked_for_again",
    ),
    "9 the JSON gateway refuses client certificates": ("test_etcd_tls.test_a_certificates_common_name_is_the_user",),
    # Which are not used.
    "10 progress replies may be missing or early": ("test_etcd_restored.test_a_wait_hears_of_a_restored_cluster",),
    "11 a member without a leader keeps its watches in silence": (
        "test_etcd_waits.test_a_member_without_a_leader_is_left_although_it_answers",
    ),
    "12 a repeated transaction is carried out twice": (
        "test_etcd_links.test_a_write_whose_answer_is_lost_is_not_sent_again",
    ),
}


def test_no_trap_is_left_out() -> None:
    assert [int(trap.split()[0]) for trap in TRAPS] == list(range(1, 13))


@pytest.mark.parametrize("name", [name for names in TRAPS.values() for name in names])
def test_the_test_of_a_trap_exists(name: str) -> None:
    module, _, test = name.partition(".")
    assert callable(getattr(importlib.import_module(f"tests.clients.etcd.{module}"), test))
