"""A plan beside what was recorded: what took longer is told, and what cannot be known is not."""

import pytest

from tenure.apps.history import History
from tenure.apps.history.records import Record
from tenure.apps.history.told import told
from tenure.cli.plan_check import Check, compared
from tenure.plan.engines import shipped
from tenure.plan.whole import Disturbed, Plan, planned, timing_of
from tests.history.making import BOB, T0_S, TRAITS, record

PLAN = planned(timing_of())
DAY_S = 86_400.0


def check_of(*records: Record, after_s: float = 100.0, plan: Plan = PLAN) -> Check:
    at_s = T0_S + after_s
    tenures = told("jobs", records, TRAITS, None, at_s)
    return compared(plan, History("jobs", tuple(tenures), None, at_s, TRAITS, None), "memory://")


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


def test_the_parts_of_the_plan_that_was_given_are_what_is_compared_with() -> None:
    records = (
        record(1, ended_s=T0_S + 10, reason="lapsed"),
        record(2, BOB, T0_S + 19, ended_s=T0_S + 30, reason="resigned"),
        record(3, began_s=T0_S + 33),
    )
    check = check_of(*records, plan=planned(timing_of(), elect_s=5, load_s=0, warm_s=0))
    assert check.kept
    assert [one.planned_s for one in check.measured] == [6.5 + 5, 5, 5]
    assert "(5 s by plan)" in "\n".join(check.lines())
    shipped_ = check_of(*records)
    assert by_what(shipped_) == {
        "missed, detected, elected": (1, False),
        "handed over, elected": (1, False),
        "elect alone": (0, True),
    }
    assert "(20 s by plan)" in "\n".join(shipped_.lines())


@pytest.mark.parametrize(
    ("plan", "ttl_s", "planned_s"),
    [
        (planned(timing_of(heartbeat=1, ttl=8)), 8.0, 8 - 1 + 0.5 + 1),
        (planned(timing_of(heartbeat=1, ttl=8)), 4.0, 4 - 1 + 0.5 + 1),
        (planned(timing_of(misses=7, ttl=8)), 8.0, 8 - 1 + 0.5 + 1),
        (planned(timing_of(ttl=10), engine=shipped("consul://h")), 10.0, 10 - 2.5 + 10 + 16 + 1),
        (planned(timing_of(ttl=10), engine=shipped("consul://h", fenced=True)), 10.0, 10 - 2.5 + 10 + 1 + 1),
    ],
    ids=["H", "another lease than planned", "N", "Consul", "Consul with sinks"],
)
def test_a_lease_that_ran_out_is_compared_with_the_heartbeat_and_the_engine_of_the_plan(
    plan: Plan, ttl_s: float, planned_s: float
) -> None:
    records = record(1, ended_s=T0_S + 10, reason="lapsed", ttl_s=ttl_s), record(2, BOB, T0_S + 11, ttl_s=ttl_s)
    assert check_of(*records, plan=plan).measured[0].planned_s == pytest.approx(planned_s)


@pytest.mark.parametrize(("gap_s", "kept"), [(2.9, True), (3.1, False)])
def test_a_hand_over_at_a_store_that_tells_nobody_may_wait_for_the_next_look(gap_s: float, kept: bool) -> None:
    plan = planned(timing_of(), engine=shipped("mysql://u@h/d?poll=2"))
    check = check_of(record(1, ended_s=T0_S + 10, reason="resigned"), record(2, BOB, T0_S + 10 + gap_s), plan=plan)
    assert by_what(check)["handed over, elected"] == (1, kept)


def test_leaders_that_lived_and_were_deposed_too_often_are_told() -> None:
    lapses = [
        record(number, began_s=T0_S + number * 100, ended_s=T0_S + number * 100 + 50, reason="lapsed")
        for number in range(1, 6)
    ]
    check = check_of(*lapses, after_s=DAY_S)
    assert (check.lived, check.more_than_planned) == (5, True)
    assert "MORE THAN PLANNED" in "\n".join(check.lines())
    assert check.as_json()["false_failovers_per_day"] == pytest.approx(5.0, rel=0.01)


def test_many_lapses_are_no_more_than_planned_if_a_million_were_expected() -> None:
    plan = planned(timing_of(heartbeat=0.001), disturbed=Disturbed.by_profile("cross-region"))
    lapses = [
        record(number, began_s=T0_S + number * 100, ended_s=T0_S + number * 100 + 50, reason="lapsed")
        for number in range(1, 65)
    ]
    check = check_of(*lapses, after_s=DAY_S, plan=plan)
    assert plan.chosen.rate.per_day > 1e6
    assert (check.lived, check.more_than_planned) == (64, False)
    assert check_of(*lapses, after_s=DAY_S).more_than_planned


@pytest.mark.parametrize(("lapsed_count", "more"), [(3, False), (4, True)])
def test_what_is_more_than_planned_is_what_one_plan_in_twenty_sees(lapsed_count: int, more: bool) -> None:
    """Of 1.3 that are expected, 4 or more come with a chance of 0.043, and 3 or more with one of 0.143."""
    over_s = 1.3 / PLAN.chosen.rate.per_day * DAY_S
    lapses = [
        record(number, began_s=T0_S + number * 100, ended_s=T0_S + number * 100 + 50, reason="lapsed")
        for number in range(1, lapsed_count + 1)
    ]
    assert check_of(*lapses, after_s=over_s).more_than_planned == more


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
