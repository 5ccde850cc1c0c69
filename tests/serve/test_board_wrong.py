"""What is wrong beside the elections themselves: stale writes, servers of the store, and ends of which nobody has told yet."""

import json
from dataclasses import replace

import pytest

from tenure.apps.history.records import Record
from tenure.apps.history.told import UNKNOWN, VANISHED, TenureRecord, told
from tenure.errors import Reason
from tenure.facts.kinds import Elected, Left, RefusedStale, StoreLost
from tenure.model import Incumbent, Token
from tenure.plan import Budget
from tenure.serve.board import Board
from tenure.serve.board_judging import _ENDS
from tenure.serve.recalling import AGAIN_AFTER_S, ELECTIONS_MAX, Recall
from tenure.timing import Timing
from tests.history.making import TRAITS
from tests.serve.boards import STORE, TTL_S, board, fact, status
from tests.serve.test_board import ADA, BOB, T0_S, led, row


def on_record(*records: Record, incumbent: Incumbent | None = None, now_s: float = T0_S + 100) -> list[TenureRecord]:
    return told("jobs", records, TRAITS, incumbent, now_s)


def headline(made: Board) -> tuple[str, str]:
    found = made.as_json()["headline"]
    return found["level"], found["text"]


# Writes that were refused


def test_a_stale_write_that_was_refused_lately_is_no_green_page() -> None:
    made = led()
    made.heard(fact(RefusedStale("ledger", 6, 7), T0_S + 1, "jobs"))
    assert (row(made)["state"], headline(made)) == (
        "stale-writes",
        ("warn", "The only election had stale writes refused"),
    )
    assert row(made)["why"] == "Somebody still writes with token 6, which is over. Nothing of it was accepted."
    made.saw([status("jobs", ADA, 7, left_s=8, standbys=(BOB,))], T0_S + 602)
    assert (row(made)["state"], headline(made)[0]) == ("ok", "ok")
    assert row(made)["refused"] == 1


def test_a_stale_write_of_an_election_that_cannot_be_told_is_no_green_page_either() -> None:
    made = led()
    made.heard(fact(RefusedStale("ledger", 60, 70), T0_S + 1))
    found = made.as_json()["headline"]
    assert (found["level"], found["text"], found["also"]) == (
        "warn",
        "1 stale write refused",
        ["The only election has a leader"],
    )
    made.changes()
    made.saw([status("jobs", ADA, 7, left_s=8, standbys=(BOB,))], T0_S + 602)
    assert made.changes()["headline"]["level"] == "ok"


def test_writes_that_were_refused_elsewhere_are_marked_when_their_holder_has_put_them_on_record() -> None:
    made, incumbent = led(), Incumbent("jobs", ADA, Token(7))
    old = Record(6, str(BOB), T0_S - 300, ended_s=T0_S - 70, reason="lapsed")
    new = Record(7, str(ADA), T0_S - 60)
    made.recorded("jobs", on_record(old, new, incumbent=incumbent))
    assert row(made)["marks"] == []
    made.recorded("jobs", on_record(replace(old, refused_count=2), new, incumbent=incumbent))
    made.recorded("jobs", on_record(replace(old, refused_count=4), new, incumbent=incumbent))
    (mark,) = row(made)["marks"]
    assert (mark["kind"], mark["token"], mark["at"]) == ("refused", 6, "2027-01-15T07:59:00.000+00:00")
    assert mark["text"] == f"4 writes with token 6 refused as stale, at {BOB}."
    assert row(made)["state"] == "stale-writes"


def test_what_was_heard_here_is_not_marked_again_by_the_record_of_it() -> None:
    made, incumbent = led(), Incumbent("jobs", ADA, Token(7))
    made.heard(fact(RefusedStale("ledger", 6, 7), T0_S + 1, "jobs"))
    old = Record(6, str(BOB), T0_S - 300, ended_s=T0_S - 70, reason="lapsed", refused_count=1)
    made.recorded("jobs", on_record(old, Record(7, str(ADA), T0_S - 60), incumbent=incumbent))
    assert (len(row(made)["marks"]), row(made)["refused"]) == (1, 1)


# Servers of the store


@pytest.mark.parametrize(
    ("up", "level", "text"),
    [
        ("111", "ok", "The only election has a leader"),
        ("110", "warn", "The store has no node to spare: 1 of 3 is down"),
        ("100", "warn", "2 of the 3 nodes that the URL names are down"),
        ("10", "warn", "1 of the 2 nodes that the URL names is down"),
        ("11110", "warn", "The store has 1 node to spare: 1 of 5 is down"),
    ],
)
def test_servers_that_are_down_are_told_before_the_store_does_not_answer(up: str, level: str, text: str) -> None:
    made = led()
    made.store_is(ok=True, members={f"h{at}": one == "1" for at, one in enumerate(up)})
    assert headline(made) == (level, text)


def test_what_is_wrong_with_an_election_comes_before_servers_that_are_down() -> None:
    made = led(left_s=1.0)
    made.saw([status("jobs", None, standbys=(BOB,))], T0_S + 3)
    made.store_is(ok=True, members={"a": True, "b": True, "c": False})
    found = made.as_json()["headline"]
    assert (found["text"], found["also"]) == ("The only election has no leader", ["1 of 3 nodes of the store down"])
    made.store_is(ok=True, members={"a": True, "b": False, "c": False})
    found = made.as_json()["headline"]
    assert (found["text"], found["also"]) == (
        "The only election has no leader",
        ["2 of the 3 nodes that the URL names down"],
    )


def test_what_a_quorum_is_is_not_known_of_a_store_that_answers_though_half_of_the_named_nodes_are_down() -> None:
    made = led()
    made.store_is(ok=True, members={"a": True, "b": False})
    assert made.as_json()["store"]["quorum"] is None
    made.store_is(ok=False)
    assert made.as_json()["store"]["quorum"] == 2


def test_a_store_that_does_not_answer_says_once_that_the_rest_is_old() -> None:
    made = led(left_s=1.0)
    made.saw([status("jobs", None), status("more", ADA, 2, left_s=1.0)], T0_S + 3)
    made.heard(fact(RefusedStale("ledger", 1, 2), T0_S + 3, "more"))
    made.heard(fact(StoreLost("no way to it"), T0_S + 4))
    assert made.as_json()["headline"]["also"] == ["when last seen 1 without a leader, 1 with stale writes refused"]


# Ends of which nobody has told yet


def test_who_has_resigned_has_not_vanished_because_its_record_comes_later() -> None:
    made = board()
    made.heard(fact(Elected(Token(5), 0), T0_S, "jobs", ADA))
    made.heard(fact(Left(Token(5), Reason.RESIGNED), T0_S + 10, "jobs", ADA))
    (read,) = on_record(Record(5, str(ADA), T0_S))
    assert read.reason == VANISHED
    made.recorded("jobs", [read])
    (stint,) = row(made)["timeline"]
    assert (stint["reason"], stint["to"]) == ("resigned", "2027-01-15T08:00:10.000+00:00")


def test_who_was_read_to_have_vanished_is_told_as_what_it_says_afterwards() -> None:
    made = board()
    made.heard(fact(Elected(Token(5), 0), T0_S, "jobs", ADA))
    made.recorded("jobs", on_record(Record(5, str(ADA), T0_S)))
    assert row(made)["timeline"][0]["reason"] == VANISHED
    made.heard(fact(Left(Token(5), Reason.RESIGNED), T0_S + 10, "jobs", ADA))
    assert (row(made)["timeline"][0]["reason"], row(made)["state"]) == ("resigned", "idle")
    other = board()
    other.recorded("jobs", on_record(Record(5, str(ADA), T0_S)))
    other.recorded("jobs", on_record(Record(5, str(ADA), T0_S, ended_s=T0_S + 10, reason="resigned")))
    (stint,) = row(other)["timeline"]
    assert (stint["reason"], stint["to"]) == ("resigned", "2027-01-15T08:00:10.000+00:00")


# Records that are odd


@pytest.mark.parametrize(
    "records",
    [
        pytest.param((Record(1, "a/1/n", 1e9, ended_s=1.1e9, reason="{x}"),), id="a reason that is no text of ours"),
        pytest.param((Record(1, "{0}/{x}/{", 1e9, ended_s=1.1e9, reason="{}"),), id="a holder that is none"),
        pytest.param(
            (
                Record(1, str(BOB), 1e9, ended_s=1.1e9, reason="lapsed"),
                Record(2, str(BOB), 1.2e9, ended_s=1.3e9, reason="lapsed"),
                Record(3, str(BOB), 9e11, ended_s=9.1e11, reason="lapsed"),
            ),
            id="a year that no calendar has",
        ),
    ],
)
def test_whatever_is_on_record_of_an_election_all_of_them_are_shown_with_their_past(
    records: tuple[Record, ...],
) -> None:
    made = led()
    made.recorded("odd", on_record(*records))
    assert len(row(made, "odd")["timeline"]) == len(records)
    assert row(made, "odd")["marks"] == []
    assert (row(made)["state"], row(made, "odd")["state"]) == ("ok", "vacant")
    assert [one["election"] for one in made.changes()["elections"]] == ["jobs", "odd"]
    json.dumps(made.as_json(), allow_nan=False)


def test_an_election_whose_past_cannot_be_shown_is_shown_without_it_and_keeps_no_other_from_being_shown() -> None:
    made = led()
    (odd,) = on_record(Record(1, str(BOB), 1e9, ended_s=1.1e9, reason="lapsed"))
    made.saw([status("a", ADA, 2, left_s=8), status("jobs", ADA, 7, left_s=8), status("more", ADA, 1)], T0_S + 1)
    made.recorded("a", [odd, replace(odd, token=2, holder=str(ADA), began_s="yesterday")])  # type: ignore[arg-type]
    shown = {one["election"]: one for one in made.as_json()["elections"]}
    assert {name: one["leader"]["token"] for name, one in shown.items()} == {"a": 2, "jobs": 7, "more": 1}
    assert [one["token"] for one in shown["a"]["timeline"]] == [2]
    (mark,) = shown["a"]["marks"]
    assert mark["text"].startswith("What was told of the time before cannot be shown: TypeError(")
    assert [one["marks"] for one in made.as_json()["elections"] if one["election"] != "a"] == [[], []]


# When the record is read


def test_a_record_is_read_when_its_election_is_first_seen_and_again_and_so_after_its_leader_has_changed() -> None:
    recall = Recall()
    recall.saw({"jobs": 1, "more": None}, 0)
    assert {recall.due(0), recall.due(0)} == {"jobs", "more"}
    assert recall.due(1) is None
    recall.saw({"jobs": 1, "more": None}, 1)
    assert [recall.due(1000) for _ in range(9)].count("jobs") == len(AGAIN_AFTER_S)
    recall.saw({"jobs": 2, "more": None}, 2000)
    assert recall.due(2000) is None
    assert [recall.due(2000 + after_s) for after_s in AGAIN_AFTER_S] == ["jobs"] * len(AGAIN_AFTER_S)
    assert recall.due(1e9) is None


def test_a_record_is_read_however_often_the_leader_changes() -> None:
    recall, read = Recall(), 0
    for now_s in range(600):
        recall.saw({"jobs": now_s}, now_s)
        while recall.due(now_s) is not None:
            read += 1
    assert 300 <= read <= 600, "as often as it is looked at, at the most"
    assert len(recall._due_s["jobs"]) <= len(AGAIN_AFTER_S) + 1


def test_an_election_that_is_gone_is_not_read_and_what_is_known_is_bounded() -> None:
    recall = Recall()
    recall.saw({str(number): 1 for number in range(2 * ELECTIONS_MAX)}, 0)
    recall.saw({str(number): 2 for number in range(2 * ELECTIONS_MAX)}, 1)
    assert len(recall._due_s) == len(recall._tokens) == ELECTIONS_MAX
    recall.saw({"0": 2}, 2)
    assert (recall.due(1e9), list(recall._tokens)) == ("0", ["0"])


def test_a_sink_says_whose_write_it_refused_by_its_fence() -> None:
    made = led()
    made.heard(fact(RefusedStale("ledger", 3, 99, "7971dae04af82dd8/jobs"), T0_S + 1))
    assert row(made)["refused"] == 1
    made.heard(fact(RefusedStale("ledger", 3, 99, "7971dae04af82dd8/unknown"), T0_S + 2))
    assert (row(made)["refused"], made.as_json()["refused_elsewhere"]) == (1, 1)
    assert [one["election"] for one in made.as_json()["elections"]] == ["jobs"], "an election that is none"


@pytest.mark.parametrize(
    ("identity", "fence", "election"),
    [
        ("etcd/7971dae04af82dd8", "etcd/7971dae04af82dd8/jobs", "jobs"),
        ("etcd/7971dae04af82dd8/team/a", "etcd/7971dae04af82dd8/team/a/jobs", "jobs"),
        ("etcd/7971dae04af82dd8/team", "etcd/7971dae04af82dd8/team/a/jobs", "a/jobs"),
        ("", "etcd/7971dae04af82dd8/team/a/jobs", "a/jobs"),
        ("", "redis/1f/jobs", "jobs"),
        pytest.param("redis/1f", "redis/2e/jobs", None, id="of another store"),
        pytest.param("redis/1f", "redis/1f/b/jobs", None, id="of one that is not shown"),
        pytest.param("", "by hand", None, id="by hand"),
    ],
)
def test_whose_fence_it_is_can_be_told_although_stores_and_elections_have_slashes_in_their_names(
    identity: str, fence: str, election: str | None
) -> None:
    made = board()
    made.opened(STORE, TRAITS, Budget.of(Timing.of(ttl=TTL_S)), identity)
    made.saw([status(name, BOB, 7) for name in ("jobs", "a/jobs")], T0_S)
    made.heard(fact(RefusedStale("ledger", 6, 7, fence), T0_S + 1))
    assert [name for name in ("jobs", "a/jobs") if row(made, name)["refused"]] == ([election] if election else [])
    assert made.as_json()["refused_elsewhere"] == (election is None)


def test_what_the_fence_of_this_store_says_counts_for_more_than_tokens_do() -> None:
    made = led()
    made.opened(STORE, TRAITS, Budget.of(Timing.of(ttl=TTL_S)), "redis/1f")
    made.heard(fact(RefusedStale("ledger", 7, 7, "redis/1f/gone"), T0_S + 1))
    assert (row(made)["refused"], made.as_json()["refused_elsewhere"]) == (0, 1)
    made.heard(fact(RefusedStale("ledger", 7, 7, "by hand"), T0_S + 1))
    assert row(made)["refused"] == 1


def test_every_way_to_leave_an_office_has_words_of_its_own() -> None:
    assert set(_ENDS) == {"", VANISHED, UNKNOWN, *(reason.value for reason in Reason)}
