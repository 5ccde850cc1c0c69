"""Changes of leader against the plan and an RTO: what was not measured is said to be unknown, and never to be good."""

from dataclasses import replace

import pytest

from tenure.apps.history.rto import Basis, Change, Plan, Report, Verdict, plan_of, report
from tenure.apps.history.told import UNKNOWN, told
from tenure.errors import ConfigError
from tenure.plan.engines import Looks
from tenure.stores.base import Traits, Wake
from tests.history.making import ADA, BOB, T0_S, TRAITS, record, sighting


def judged(*records: object, rto_s: float = 30.0, traits: Traits = TRAITS) -> Report:
    return report(told("jobs", records, traits, None, T0_S + 1000), traits, rto_s)  # type: ignore[arg-type]


def change(*records: object, rto_s: float = 30.0) -> Change:
    (one,) = judged(*records, rto_s=rto_s).changes
    return one


def test_of_a_leader_that_vanished_the_lease_has_to_run_out() -> None:
    one = change(record(7), record(8, BOB, T0_S + 100, elect_s=0.2, sighting=sighting(7, 1.0)))
    assert one.plan == Plan(
        unnoticed_s=2.0, detect_s=6.5, elect_s=1.0
    )  # a heartbeat, the rest of the lease and the slack
    assert one.plan.total_s == 9.5
    assert (one.in_rto, one.as_planned) == (Verdict.KEPT, Verdict.KEPT)


def test_of_a_leader_that_resigned_nothing_has_to_run_out() -> None:
    one = change(record(7, ended_s=T0_S + 10, reason="resigned"), record(8, BOB, T0_S + 12))
    assert one.plan == Plan(0.0, 0.0, 1.0)
    assert (one.in_rto, one.as_planned) == (Verdict.KEPT, Verdict.MISSED)


def test_at_a_store_that_tells_nobody_a_release_waits_for_the_next_look() -> None:
    polls, looks = replace(TRAITS, wake=Wake.POLL), Looks(10.0)
    tenures = told(
        "jobs",
        (record(7, ended_s=T0_S + 10, reason="resigned"), record(8, BOB, T0_S + 18)),
        polls,
        None,
        T0_S + 1000,
    )
    (one,) = report(tenures, polls, basis=Basis(looks=looks)).changes
    assert one.plan == Plan(8.0, 0.0, 1.0)  # It would look 10 s later, but the lease that it saw ends within 8 s.
    assert one.as_planned is Verdict.KEPT
    assert one.as_json()["planned_detect_s"] == 8.0
    (one,) = report(tenures, TRAITS, basis=Basis(looks=looks)).changes
    assert one.plan == Plan(0.0, 0.0, 1.0), "those who are told wait for nothing"


@pytest.mark.parametrize(("began_s", "verdict"), [(39.0, Verdict.KEPT), (41.0, Verdict.MISSED)])
def test_a_gap_that_was_measured_is_judged_by_the_rto(began_s: float, verdict: Verdict) -> None:
    assert change(record(7, ended_s=T0_S + 10, reason="lapsed"), record(8, BOB, T0_S + began_s)).in_rto is verdict


def test_a_gap_that_may_be_on_either_side_of_the_rto_is_unknown() -> None:
    one = change(record(7), record(8, BOB, T0_S + 100, elect_s=0.2))  # nobody saw when it vanished
    assert one.in_rto is Verdict.UNKNOWN
    assert change(record(7), record(8, BOB, T0_S + 100, elect_s=40.0)).in_rto is Verdict.MISSED  # at least so long


def test_what_was_not_measured_says_why() -> None:
    overlapping = change(record(7, ended_s=T0_S + 10, reason="resigned"), record(8, BOB, T0_S + 9))
    assert (overlapping.in_rto, overlapping.gap) == (Verdict.UNKNOWN, None)
    assert "clocks of the two machines differ" in overlapping.unmeasured
    between = change(
        record(7, ended_s=T0_S + 10, reason="resigned"), record(9, BOB, T0_S + 20, sighting=sighting(8, 1))
    )
    assert "keeps no history" in between.unmeasured


def test_without_a_lease_there_is_no_plan_and_none_that_cannot_be() -> None:
    for ttl_s in (None, 0.0, 1e30):
        one = change(record(7, ttl_s=ttl_s, ended_s=T0_S + 10, reason="resigned"), record(8, BOB, T0_S + 12))
        assert (one.plan, one.as_planned) == (None, Verdict.UNKNOWN)


def test_of_an_end_that_was_lost_nobody_knows_what_was_planned_for_it() -> None:
    lost = replace(told("jobs", (record(7), record(8, BOB, T0_S + 100)), TRAITS, None, T0_S + 1000)[0], reason=UNKNOWN)
    assert plan_of(lost, TRAITS, Basis()) is None


def test_the_report_has_the_worst_and_what_it_leaves_of_the_rto() -> None:
    told_ = judged(
        record(7, ended_s=T0_S + 10, reason="resigned"),
        record(8, BOB, T0_S + 12, ended_s=T0_S + 20, reason="resigned"),
        record(9, ADA, T0_S + 25),
    ).as_json()
    assert (told_["kept"], told_["missed"], told_["unknown"]) == (2, 0, 0)
    assert (told_["worst_s"], told_["left_s"], told_["planned_unseen_s"]) == (5.0, 25.0, 20.0)
    assert [one["verdict"] for one in told_["changes"]] == ["kept", "kept"]


def test_without_a_change_there_is_nothing_to_report() -> None:
    assert judged(record(7)).as_json()["worst_s"] is None


def test_an_rto_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be more than 0"):
        judged(rto_s=0)
