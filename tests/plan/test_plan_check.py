"""A plan beside what was recorded: what took longer is told, and what cannot be known is not."""

import pytest

from tenure.apps.history import History
from tenure.apps.history.records import Record
from tenure.apps.history.told import told
from tenure.cli.plan_check import Check, compared
from tenure.plan.whole import planned, timing_of
from tests.history.making import BOB, T0_S, TRAITS, record

PLAN = planned(timing_of())
DAY_S = 86_400.0


def check_of(*records: Record, after_s: float = 100.0) -> Check:
    at_s = T0_S + after_s
    tenures = told("jobs", records, TRAITS, None, at_s)
    return compared(PLAN, History("jobs", tuple(tenures), None, at_s, TRAITS, None), "memory://")


def by_what(check: Check) -> dict[str, tuple[int, bool]]:
    return {one.what: (len(one.taken_s), one.kept) for one in check.measured}


def test_a_hand_over_that_took_no_longer_than_planned_is_as_planned() -> None:
    check = check_of(
        record(1, ended_s=T0_S + 10, reason="resigned"),
        record(2, BOB, T0_S + 10.5, ended_s=T0_S + 20, reason="resigned"),
    )
    assert check.kept
    assert by_what(check)["handed over, elected"] == (1, True)
    assert check.lived == 0
    assert not check.more_than_planned


@pytest.mark.parametrize(("gap_s", "kept"), [(7.0, True), (12.0, False), (40.0, False)])
def test_a_lease_that_ran_out_is_compared_with_what_was_planned_for_it(gap_s: float, kept: bool) -> None:
    check = check_of(
        record(1, ended_s=T0_S + 10, reason="lapsed"),
        record(2, BOB, T0_S + 10 + gap_s, ended_s=T0_S + 90, reason="resigned"),
    )
    assert by_what(check)["missed, detected, elected"] == (1, kept)
    assert check.kept == kept
    assert ("LONGER THAN PLANNED" in "\n".join(check.lines())) == (not kept)
    assert check.lived == 1


def test_leaders_that_lived_and_were_deposed_too_often_are_told() -> None:
    lapses = [
        record(number, began_s=T0_S + number * 100, ended_s=T0_S + number * 100 + 50, reason="lapsed")
        for number in range(1, 6)
    ]
    check = check_of(*lapses, after_s=DAY_S)
    assert (check.lived, check.more_than_planned) == (5, True)
    assert "MORE THAN PLANNED" in "\n".join(check.lines())
    assert check.as_json()["false_failovers_per_day"] == pytest.approx(5.0, rel=0.01)


def test_leases_that_are_not_the_planned_ones_are_told() -> None:
    check = check_of(record(1, ended_s=T0_S + 10, reason="resigned", ttl_s=4.0), record(2, BOB, T0_S + 11, ttl_s=4.0))
    assert "They led with L = 4 s, and this plan is for 8 s." in "\n".join(check.lines())


def test_without_a_change_of_leader_there_is_nothing_to_compare() -> None:
    check = check_of(record(1))
    assert check.kept
    assert "nothing to compare" in "\n".join(check.lines())
    assert check_of().as_json()["false_failovers_per_day"] is None


@pytest.mark.parametrize(("margin_s", "near"), [(5.9, False), (2.9, True)])
def test_a_renewal_that_was_nearly_too_late_is_told(margin_s: float, near: bool) -> None:
    check = check_of(
        record(1, ended_s=T0_S + 10, reason="resigned", margin_min_s=margin_s), record(2, BOB, T0_S + 10.5)
    )
    assert check.margin_s == margin_s
    assert ("less than a heartbeat before; at 1 s a leader stops" in "\n".join(check.lines())) == near
