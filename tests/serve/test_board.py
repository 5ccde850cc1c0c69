"""The board: what is wrong with an election, in which words, and what is told of what has changed."""

import json
from typing import Any

import pytest

from tenure.apps.history.records import Record, Sighting
from tenure.apps.history.told import Clocks, Span, TenureRecord, told
from tenure.errors import Reason
from tenure.facts.kinds import (
    Elected,
    Fact,
    Left,
    Overstayed,
    RefusedStale,
    Stood,
    StoreBack,
    StoreLost,
    Suspended,
    Withdrew,
)
from tenure.model import Token
from tenure.serve.board import Board
from tenure.serve.board_page import HEADERS, asset, names
from tests.history.making import TRAITS, record, sighting
from tests.serve.boards import STORE, TTL_S, board, crowded, fact, holder, renewed, status

ADA, BOB, EVE = holder("ada"), holder("bob"), holder("eve")
T0_S = 1_800_000_000.0


def row(made: Board, election: str = "jobs") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in made.as_json()["elections"] if one["election"] == election)
    return found


def led(left_s: float | None = 8.0) -> Board:
    made = board()
    made.saw([status("jobs", ADA, 7, held_s=60, left_s=left_s, standbys=(BOB,))], T0_S)
    return made


def test_an_election_that_is_well_says_who_leads_since_when_and_who_waits() -> None:
    found = row(led())
    assert found["state"] == "ok"
    assert found["leader"] == {"holder": str(ADA), "token": 7, "advertised": ""}
    assert (found["held_for_s"], found["remaining_s"], found["standbys"]) == (60, 8, [str(BOB)])
    assert found["since"] == "2027-01-15T07:59:00.000+00:00"
    assert led().as_json()["headline"]["text"] == "The only election has a leader"


def test_an_election_without_a_leader_is_vacant_since_its_lease_ended() -> None:
    made = led(left_s=1.0)
    made.saw([status("jobs", None, standbys=(BOB,))], T0_S + 3)
    found = row(made)
    assert found["state"] == "vacant"
    assert found["state_since"] == "2027-01-15T08:00:01.000+00:00"
    assert found["why"] == "Nobody leads, and 1 stands by. The last one was ada/1 (token 7)."
    assert made.as_json()["headline"] == {"level": "bad", "text": "The only election has no leader", "also": []}


def test_a_vacancy_beyond_the_plan_is_told_as_such() -> None:
    made = led(left_s=1.0)
    made.saw([status("jobs", None)], T0_S + 3)
    made.saw([status("jobs", None)], T0_S + 9)
    assert "for longer than the 7 s that are planned, and nobody stands by" in row(made)["why"]


def test_an_office_that_was_let_go_and_that_nobody_wants_is_idle_and_no_alarm() -> None:
    made = led(left_s=6.0)  # A lease that had six seconds to go cannot have run out a second later.
    made.saw([status("jobs", None)], T0_S + 1)
    assert row(made)["state"] == "idle"
    assert made.as_json()["headline"]["level"] == "ok"
    made.saw([status("jobs", None, standbys=(BOB,))], T0_S + 2)
    assert row(made)["state"] == "vacant", "somebody wants it, and does not get it"


def test_an_old_leader_that_still_works_beside_a_new_one_is_told_first() -> None:
    made = board()
    made.heard(fact(Elected(Token(1), 0), T0_S, "jobs", ADA))
    made.saw([status("jobs", BOB, 2)], T0_S + 30)
    found = row(made)
    assert (found["state"], found["here"]) == ("two-leaders", "leading")
    assert found["why"] == "ada/1 still works with token 1, though bob/1 leads with 2."
    made.heard(fact(Left(Token(1), Reason.LAPSED), T0_S + 31, "jobs", ADA))
    assert row(made)["state"] == "ok"


def test_a_body_past_its_lease_overstays_until_it_has_left() -> None:
    made = board()
    made.heard(fact(Elected(Token(1), 0), T0_S, "jobs", ADA))
    made.heard(fact(Overstayed(Token(1), 10**9), T0_S + 9, "jobs", ADA))
    assert row(made)["state"] == "overstay"
    made.heard(fact(Left(Token(1), Reason.STORE_GONE), T0_S + 10, "jobs", ADA))
    assert row(made)["why"] == "Nobody leads, and nobody stands by. ada/1 (token 1) could not reach the store."


def test_a_renewal_that_came_late_puts_an_election_at_risk_and_the_next_good_one_ends_that() -> None:
    made = board()
    made.heard(fact(Elected(Token(1), 0), T0_S, "jobs", ADA))
    for margin_s in (5.9, 5.8, 1.2):
        made.heard(renewed(T0_S + 2, "jobs", ADA, margin_s))
    found = row(made)
    assert (found["state"], found["margin_s"], found["margins"]) == ("at-risk", 1.2, [5.9, 5.8, 1.2])
    made.heard(renewed(T0_S + 4, "jobs", ADA, 5.9))
    assert row(made)["state"] == "ok"
    assert row(made)["timeline"][0]["margin_min_s"] == 1.2


def test_a_lease_elsewhere_that_nobody_renews_puts_an_election_at_risk() -> None:
    made = led(left_s=8.0)
    made.saw([status("jobs", ADA, 7, left_s=5.0)], T0_S + 3)
    assert row(made)["state"] == "ok"
    made.saw([status("jobs", ADA, 7, left_s=3.5)], T0_S + 4.5)
    assert row(made)["state"] == "at-risk"


def test_margins_of_leaders_elsewhere_are_read_off_the_leases_that_the_store_shows() -> None:
    made = led(left_s=8.0)
    for at_s, left_s in ((1, 7.0), (2, 8.0), (3, 7.0), (4, 8.0)):
        made.saw([status("jobs", ADA, 7, left_s=left_s)], T0_S + at_s)
    assert (row(made)["margins"], row(made)["margins_from"]) == ([6.0, 6.0], "store")


def test_leaders_that_change_again_and_again_flap_unless_they_chose_to() -> None:
    made, calm = board(), board()
    for number in range(5):
        at_s = T0_S + 40 * number
        for one, reason in ((made, Reason.LAPSED), (calm, Reason.RESIGNED)):
            one.heard(fact(Elected(Token(number + 1), 0), at_s, "jobs", ADA))
            if number < 4:
                one.heard(fact(Left(Token(number + 1), reason), at_s + 30, "jobs", ADA))
    assert (row(made)["state"], row(calm)["state"]) == ("flapping", "ok")
    made.saw([status("jobs", ADA, 5)], T0_S + 1000)
    assert row(made)["state"] == "ok", "that was a quarter of an hour ago"


def test_what_is_wrong_comes_first_and_the_headline_says_the_worst() -> None:
    told = crowded(37)[0].as_json()
    states = [one["state"] for one in told["elections"]]
    assert states[:6] == ["two-leaders", "vacant", "vacant", "at-risk", "flapping", "idle"]
    assert set(states[6:]) == {"ok"}
    assert told["headline"]["text"] == "1 of 37 elections has two leaders"
    assert told["headline"]["also"][0] == "2 without a leader"
    assert json.loads(json.dumps(told)) == told


def test_a_timeline_has_who_led_when_why_it_ended_and_the_gaps() -> None:
    made = board()
    made.heard(fact(Elected(Token(1), 0), T0_S, "jobs", ADA))
    made.heard(fact(Left(Token(1), Reason.LAPSED), T0_S + 10, "jobs", ADA))
    made.saw([status("jobs", BOB, 2, held_s=1)], T0_S + 13.5)
    told = made.as_json()
    first, second = told["elections"][0]["timeline"]
    assert (first["token"], first["reason"], first["to"]) == (1, "lapsed", "2027-01-15T08:00:10.000+00:00")
    assert (second["holder"], second["to"], second["gap_s"]) == (str(BOB), None, 2.5)
    assert [one["gap_s"] for one in told["plan"]["measured"]] == [2.5]
    assert (told["plan"]["detect_s"], told["plan"]["total_s"], told["plan"]["rto_s"]) == (6.0, 27.0, 30.0)


def test_a_record_tells_of_tenures_before_anybody_looked() -> None:
    made = led()
    about: Any = {
        "overlaps": False,
        "elect_s": None,
        "overstay_s": None,
        "unrecorded": False,
        "refused_count": 0,
        "ttl_s": 8.0,
        "advertised": "",
    }
    between, gap = Span(T0_S - 90, T0_S - 70, Clocks.ONE), Span(10.0, 12.0, Clocks.ONE)
    old = TenureRecord("jobs", 6, str(EVE), T0_S - 500, None, "vanished", between, None, margin_min_s=0.4, **about)
    now = TenureRecord("jobs", 7, str(ADA), T0_S - 60, None, None, None, gap, margin_min_s=None, **about)
    made.recorded("jobs", [old, now])
    first, second = row(made)["timeline"]
    assert (first["holder"], first["reason"], first["margin_min_s"]) == (str(EVE), "vanished", 0.4)
    assert (second["gap_s"], second["from"]) == (12.0, "2027-01-15T07:59:00.000+00:00")


@pytest.mark.parametrize(("seen", "gap_s"), [(None, 310.0), (sighting(5, 0.0), None)])
def test_where_others_led_of_whom_there_is_no_record_no_gap_is_told(seen: Sighting | None, gap_s: float | None) -> None:
    made = led()
    first = record(3, began_s=T0_S - 500, ended_s=T0_S - 400, reason="lapsed")
    second = record(6, began_s=T0_S - 90, ended_s=T0_S - 70, reason="lapsed", sighting=seen)
    made.recorded("jobs", told("jobs", (first, second), TRAITS, None, T0_S))
    timeline, measured = row(made)["timeline"], made.as_json()["plan"]["measured"]
    assert [one["gap_s"] for one in timeline] == [None, gap_s, 10.0]
    assert [one["unrecorded"] for one in timeline] == [False, gap_s is None, False]
    assert [one["token"] for one in measured if one["token"] == 6] == ([] if gap_s is None else [6])


@pytest.mark.parametrize("seen", [None, sighting(7, 40.0)])
def test_a_gap_after_one_who_keeps_no_history_but_was_seen_is_told_whatever_is_on_record(seen: Sighting | None) -> None:
    made = board()
    made.saw([status("jobs", EVE, 7, held_s=0, left_s=8)], T0_S + 101)
    made.saw([status("jobs", EVE, 7, held_s=91, left_s=8)], T0_S + 192)
    made.saw([status("jobs", None, standbys=(BOB,))], T0_S + 201)
    made.saw([status("jobs", BOB, 9, held_s=0)], T0_S + 240)
    first = record(5, ADA, T0_S, ended_s=T0_S + 100, reason="resigned")
    second = record(9, BOB, T0_S + 240, elect_s=0.1, sighting=seen)
    for log in ((), (first, second)):
        made.recorded("jobs", told("jobs", log, TRAITS, None, T0_S + 250))
        last, measured = row(made)["timeline"][-1], made.as_json()["plan"]["measured"]
        assert (last["token"], last["gap_s"], last["unrecorded"]) == (9, 40.0, False)
        assert [(one["token"], one["gap_s"]) for one in measured] == [(9, 40.0)]


@pytest.mark.parametrize("at_s", [1e300, -1e300, 1e12])
def test_a_year_that_no_calendar_has_is_on_record_and_the_rest_is_shown(at_s: float) -> None:
    made = led()
    log = (Record(6, str(EVE), at_s, ended_s=at_s, reason="resigned"), Record(7, str(ADA), T0_S))
    made.recorded("jobs", told("jobs", log, TRAITS, None, T0_S))
    (shown,) = made.changes()["elections"]
    assert [(one["token"], one["from"] is None) for one in shown["timeline"]] == [(6, True), (7, False)]


def test_refused_writes_are_marks_of_the_one_election_that_has_had_both_tokens() -> None:
    made = board()
    made.heard(fact(Elected(Token(41), 0), T0_S, "ledger", ADA))
    made.heard(fact(Left(Token(41), Reason.LAPSED), T0_S + 9, "ledger", ADA))
    made.saw([status("ledger", BOB, 42), status("other", EVE, 42)], T0_S + 10)
    made.heard(Fact(RefusedStale("SQLiteSink", 41, 42), 0, T0_S + 11))
    made.heard(Fact(RefusedStale("SQLiteSink", 5, 6), 0, T0_S + 12))
    assert row(made, "ledger")["refused"] == 1
    assert row(made, "ledger")["marks"] == [
        {
            "at": "2027-01-15T08:00:11.000+00:00",
            "kind": "refused",
            "text": "SQLiteSink refused a write with token 41: it has seen 42.",
            "token": 41,
        }
    ]
    assert (row(made, "other")["refused"], made.as_json()["refused_elsewhere"]) == (0, 1)


def test_a_store_that_does_not_answer_is_the_headline() -> None:
    made = led()
    made.heard(fact(StoreLost("no way to it"), T0_S + 1))
    told = made.as_json()
    assert told["headline"]["text"] == "The store does not answer"
    assert (told["store"]["ok"], told["store"]["detail"]) == (False, "no way to it")
    assert told["store"]["since"] == "2027-01-15T08:00:01.000+00:00"
    made.heard(fact(StoreBack(2 * 10**9), T0_S + 3))
    assert made.as_json()["store"]["ok"] is True


def test_nodes_of_the_store_are_shown_with_what_a_quorum_is() -> None:
    made = led()
    made.store_is(ok=True, members={"a": True, "b": True, "c": False})
    told = made.as_json()
    assert (told["store"]["quorum"], told["store"]["members"][2]) == (2, {"name": "c", "ok": False})
    assert told["headline"]["text"] == "The store has no node to spare: 1 of 3 is down"


def test_a_picture_that_is_older_than_what_this_process_knows_changes_nothing() -> None:
    made = board()
    made.heard(fact(Elected(Token(5), 0), T0_S, "jobs", ADA))
    made.saw([status("jobs", None, standbys=(BOB,))], T0_S + 0.2)
    assert (row(made)["state"], row(made)["standbys"]) == ("ok", [str(BOB)])
    assert row(made)["timeline"][0]["to"] is None
    made.heard(fact(Left(Token(5), Reason.RESIGNED), T0_S + 10, "jobs", ADA))
    made.saw([status("jobs", ADA, 5, left_s=7)], T0_S + 10.1)
    assert row(made)["leader"] is None


def test_a_candidate_whose_last_words_were_lost_has_one_tenure_all_the_same() -> None:
    made = board()
    made.heard(fact(Elected(Token(5), 0), T0_S, "jobs", ADA))
    made.heard(fact(Elected(Token(7), 0), T0_S + 30, "jobs", ADA))
    assert row(made)["state"] == "ok", "it cannot lead twice at once"
    made.heard(fact(Withdrew(), T0_S + 40, "jobs", ADA))
    assert row(made)["here"] == "none"


def test_facts_of_another_store_are_left_out() -> None:
    made = board()
    made.heard(Fact(Elected(Token(1), 0), 0, T0_S, "sqlite:///other.db", "jobs", ADA))
    assert made.as_json()["elections"] == []
    assert made.as_json()["store"]["address"] == STORE


def test_who_stands_here_is_told_and_a_machine_that_slept_is_a_mark() -> None:
    made = board()
    made.heard(fact(Stood(round(TTL_S * 1e9)), T0_S, "jobs", ADA))
    assert row(made)["here"] == "standing"
    made.heard(Fact(Suspended(3 * 10**9), 0, T0_S + 1))
    assert [mark["text"] for mark in row(made)["marks"]] == ["This machine slept for 3.0 s."]
    made.heard(fact(Withdrew(), T0_S + 2, "jobs", ADA))
    assert row(made)["here"] == "none"


def test_an_election_that_the_store_forgot_is_gone_unless_somebody_here_stands() -> None:
    made = led()
    made.changes()
    made.heard(fact(Stood(1), T0_S, "ours", EVE))
    made.saw([], T0_S + 1)
    assert made.changes()["gone"] == ["jobs"]
    assert [one["election"] for one in made.as_json()["elections"]] == ["ours"]


def test_the_page_has_its_files_and_no_others() -> None:
    assert {"index.html", "page.css", "main.js"} <= names()
    found = asset("main.js")
    assert found is not None
    assert found.headers["Content-Type"].startswith("text/javascript")
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    for stranger in ("../board.py", "board.py", "", ".", "/etc/passwd", "main.js/", "%2e%2e/board.py"):
        assert asset(stranger) is None


@pytest.mark.parametrize("name", sorted(names()))
def test_the_page_asks_nobody_else_and_writes_no_markup(name: str) -> None:
    found = asset(name)
    assert found is not None
    text = found.body.decode()
    for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", 'onclick="'):
        assert banned not in text
    assert "https://" not in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("http://") == 0


def test_nothing_of_an_election_that_is_gone_is_kept() -> None:
    made = led()
    made.as_json()
    made.saw([], T0_S + 5)
    made.changes()
    assert not [name for name, kept in vars(made).items() if isinstance(kept, dict | set) and "jobs" in kept]
