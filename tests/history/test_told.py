"""What follows from a log: ends that nobody told of, gaps, and by whose clocks. No instant is made up."""

from dataclasses import replace

import pytest

from tenure.apps.history.records import Dropped
from tenure.apps.history.told import Clocks, Span, TenureRecord, last, told
from tenure.model import Incumbent, Token
from tenure.serve.board_timeline import Stint
from tests.history.making import ADA, BOB, T0_S, TRAITS, record, sighting

STAYS_S = 8.5  # a lease of 8 s, and what the store takes beyond it


def tell(*records: object, incumbent: Incumbent | None = None, now_s: float = T0_S + 1000) -> list[TenureRecord]:
    return told("jobs", records, TRAITS, incumbent, now_s)  # type: ignore[arg-type]


def in_office(token: int) -> Incumbent:
    return Incumbent("jobs", BOB, Token(token))


def test_a_tenure_that_told_of_its_end_is_told_as_it_said() -> None:
    first, second = tell(
        record(7, ended_s=T0_S + 10, reason="resigned"), record(8, BOB, T0_S + 10.5), incumbent=in_office(8)
    )
    assert (first.ended_s, first.reason, first.ended_between, first.gap) == (T0_S + 10, "resigned", None, None)
    assert second.gap == Span(0.5, 0.5, Clocks.TWO)
    assert second.gap_s == 0.5
    assert second.in_office


def test_between_tenures_of_one_machine_the_gap_is_by_one_clock() -> None:
    neighbour = replace(ADA, pid=9)
    _, second = tell(record(7, ended_s=T0_S + 10, reason="resigned"), record(8, neighbour, T0_S + 12))
    assert second.gap == Span(2.0, 2.0, Clocks.ONE)


def test_one_that_never_said_goodbye_has_vanished_between_two_instants_of_its_successors_clock() -> None:
    # Bob was told "taken" 3 s before he took office, having watched for long. So Ada renewed within 8.5 s before that.
    first, second = tell(record(7), record(8, BOB, T0_S + 100, elect_s=0.25, sighting=sighting(7, 3.0)))
    assert (first.reason, first.ended_s) == ("vanished", None)
    assert first.ended_between == Span(T0_S + 100 - 3 - STAYS_S, T0_S + 99.75, Clocks.ONE)
    assert second.gap == Span(0.25, 3 + STAYS_S, Clocks.ONE)
    assert second.gap_s is None


@pytest.mark.parametrize(
    "seen",
    [
        None,  # its successor came when it had gone
        sighting(7, 3.0, watched_s=8.4),  # or might have: an observer waits for a whole lease, whoever left it behind
        sighting(6, 3.0),  # or saw one before it
    ],
)
def test_without_a_witness_only_its_own_last_word_bounds_its_end(seen: object) -> None:
    vanished = record(7, seen_s=T0_S + 60)
    first, second = tell(vanished, record(8, BOB, T0_S + 100, sighting=seen))
    assert first.ended_between == Span(T0_S + 60, T0_S + 100, Clocks.TWO)
    assert second.gap == Span(0.0, 40.0, Clocks.TWO)


def test_on_one_machine_its_own_last_word_counts_beside_its_successors() -> None:
    successor = record(8, replace(ADA, pid=9), T0_S + 100, sighting=sighting(7, 3.0))
    first, _ = tell(record(7, seen_s=T0_S + 95), successor)
    assert first.ended_between == Span(T0_S + 95, T0_S + 100, Clocks.ONE)


def test_a_clock_that_is_ahead_makes_no_interval_that_ends_before_it_begins() -> None:
    first, second = tell(record(7, seen_s=T0_S + 5000), record(8, BOB, T0_S + 100))
    assert first.ended_between == Span(T0_S + 100, T0_S + 100, Clocks.TWO)
    assert second.gap == Span(0.0, 0.0, Clocks.TWO)


def test_one_that_was_frozen_and_comes_back_tells_why_and_overlaps() -> None:
    late = record(7, ended_s=T0_S + 130, reason="lapsed", overstay_s=30.0)
    first, second = tell(late, record(8, BOB, T0_S + 100, elect_s=0.5, sighting=sighting(7, 1.0)))
    assert (first.reason, first.ended_between) == ("lapsed", None)
    assert second.overlaps
    assert second.gap == Span(0.5, 1 + STAYS_S, Clocks.ONE)  # by its successor's word
    _, without_witness = tell(late, record(8, BOB, T0_S + 100))
    assert (without_witness.overlaps, without_witness.gap) == (True, None)


def test_who_led_in_between_without_a_history_is_noticed_where_somebody_saw_it() -> None:
    _, second = tell(
        record(7, ended_s=T0_S + 10, reason="resigned"), record(9, BOB, T0_S + 100, sighting=sighting(8, 1.0))
    )
    assert (second.unrecorded, second.gap) == (True, None)


@pytest.mark.parametrize(
    ("dropped", "unrecorded"),
    [
        (Dropped(8, 8), [False, True, False]),
        (Dropped(1, 100), [False, True, True]),  # Between 6 and 7 there is no other.
        (Dropped(7, 7), [False, False, False]),  # It is there: what was lost of it was said before.
        (Dropped(1, 5), [False, False, False]),
        (Dropped(100, 200), [False, False, False]),
    ],
)
def test_between_whom_records_were_lost_no_gap_is_told_whoever_says_so(
    dropped: Dropped, unrecorded: list[bool]
) -> None:
    tenures = tell(
        *(record(token, began_s=T0_S + token, ended_s=T0_S + token + 0.5, reason="resigned") for token in (6, 7, 9)),
        record(11, BOB, T0_S + 11, dropped=dropped),
    )
    assert [one.unrecorded for one in tenures[1:]] == unrecorded
    assert [one.gap is None for one in tenures[1:]] == unrecorded


def test_one_of_which_its_own_process_lost_records_has_not_vanished_and_one_of_which_others_did_has() -> None:
    same_process, lost = replace(ADA, nonce="2" * 16), Dropped(6, 8)
    first, second = tell(record(7), record(9, same_process, T0_S + 100, dropped=lost))
    assert (first.reason, first.ended_s, first.ended_between) == ("unknown", None, Span(T0_S, T0_S + 100, Clocks.ONE))
    assert (second.gap, second.unrecorded) == (None, True)
    assert not Stint.of(first).said_why  # The page lets it be told by whoever has seen it.
    first, second = tell(record(7), record(8, BOB, T0_S + 100, dropped=lost))
    assert (first.reason, second.gap, second.unrecorded) == ("vanished", Span(0.0, 100.0, Clocks.TWO), False)
    # It may be said by one that had led before it, and left late.
    ended = record(5, same_process, ended_s=T0_S + 10, reason="resigned", dropped=Dropped(7, 7))
    _, last_one = tell(ended, record(7))
    assert (last_one.reason, last_one.in_office) == ("unknown", False)
    assert tell(ended, record(7), incumbent=in_office(7))[-1].in_office


def test_the_last_one_is_in_office_if_the_store_says_so_and_has_vanished_if_not() -> None:
    (one,) = tell(record(7, seen_s=T0_S + 600), incumbent=in_office(7))
    assert (one.reason, one.in_office) == (None, True)
    for incumbent in (None, in_office(9)):
        (one,) = tell(record(7, seen_s=T0_S + 600), incumbent=incumbent)
        assert (one.reason, one.in_office) == ("vanished", False)
        assert one.ended_between == Span(T0_S + 600, T0_S + 1000, Clocks.TWO)


def test_json_has_what_is_known_and_null_for_what_is_not() -> None:
    first, second = tell(record(7), record(8, BOB, T0_S + 100, elect_s=0.25, sighting=sighting(7, 3.0)))
    vanished, after = first.as_json(), second.as_json()
    assert vanished["ended_at"] is None
    assert vanished["ended_after"] == "2026-09-21T14:14:48.500+00:00"
    assert vanished["ended_before"] == "2026-09-21T14:14:59.750+00:00"
    assert vanished["reason"] == "vanished"
    assert (after["gap_s"], after["gap_min_s"], after["gap_max_s"], after["gap_clocks"]) == (None, 0.25, 11.5, "one")


def test_a_year_that_no_calendar_has_is_no_instant() -> None:
    (one,) = tell(record(7, began_s=1e18))
    assert one.as_json()["began_at"] is None


def test_the_last_so_many_are_the_youngest() -> None:
    tenures = tell(*(record(token) for token in (1, 2, 3)))
    assert [one.token for one in last(tenures, 2)] == [2, 3]
    assert last(tenures, 9) == last(tenures, None) == tenures
