"""``tenure plan --check``: a plan beside the changes of leader that were recorded."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tenure.apps.history import History
from tenure.apps.history.rto import Basis, Change, Report, Verdict, report
from tenure.apps.history.told import TenureRecord
from tenure.cli.history import history_of
from tenure.cli.output import aligned, shown
from tenure.cli.settings import Settings
from tenure.cli.timeline import seconds
from tenure.errors import Reason
from tenure.office.desk import check_name
from tenure.plan.engines import Looks, shipped
from tenure.plan.whole import Plan
from tenure.plan.words import rate_in_words, seconds_in_words

# A leader that lived, and was too late: what a plan calls a false failover. Of one that vanished nobody knows whether it did.
_LIVED: Final = frozenset({Reason.LAPSED.value, Reason.STORE_GONE.value})
_DAY_S: Final = 86_400.0
_RARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of one kind, in seconds."""

    what: str
    planned_s: float | None  # None: it differs from one to the next
    taken_s: Sequence[float]
    kept: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "what": self.what,
            "count": len(self.taken_s),
            "planned_s": self.planned_s,
            "median_s": round(median(self.taken_s), 3) if self.taken_s else None,
            "longest_s": round(max(self.taken_s), 3) if self.taken_s else None,
            "kept": self.kept,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A plan beside what happened."""

    election: str
    address: str
    plan: Plan
    told: Report
    measured: Sequence[Measured]
    leases_s: Sequence[float]  # with which they led
    margin_s: float | None  # the least that was left of a validity when it was renewed
    lived: int  # tenures that were lost though their leader lived
    over_s: float  # for how long the record goes

    @property
    def kept(self) -> bool:
        """Whether nothing took longer than was planned for it, or than the RTO."""
        return all(one.kept for one in self.measured) and not self.told.count(Verdict.MISSED)

    @property
    def more_than_planned(self) -> bool:
        """Whether so many false failovers would be rare, one time in twenty, if they came as often as is planned."""
        expected = self.plan.chosen.rate.per_day * self.over_s / _DAY_S
        fewer, chance = 0.0, math.exp(-expected)
        for count in range(self.lived):
            fewer += chance
            chance *= expected / (count + 1)  # One after the other: a power of it may be more than a float holds.
        return 1 - fewer < _RARE

    @property
    def lived_per_day(self) -> float | None:
        """False failovers a day; None: the record is too short for any rate."""
        return self.lived / self.over_s * _DAY_S if self.over_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "election": self.election,
            "store": self.address,
            "kept": self.kept,
            "measured": [one.as_json() for one in self.measured],
            "ttls_s": self.leases_s,
            "margin_min_s": self.margin_s,
            "false_failovers": self.lived,
            "false_failovers_per_day": self.lived_per_day,
            "more_than_planned": self.more_than_planned,
            "recorded_s": round(self.over_s, 3),
            "rto": self.told.as_json(),
        }

    def lines(self) -> Iterator[str]:
        """Return it for people."""
        count = len(self.told.changes)
        changes = "1 change" if count == 1 else f"{count} changes"
        yield f"{shown(self.election)} at {self.address}: {changes} of leader in {seconds_in_words(self.over_s)}"
        if not self.told.changes:
            yield "There is nothing to compare with yet: a change of leader is recorded when somebody succeeds."
            return
        rows = [["  ", "COUNT", "PLANNED", "MEDIAN", "LONGEST", ""]]
        rows += [_row(one) for one in self.measured]
        yield from aligned(rows).splitlines()
        yield from self._notes()

    def _notes(self) -> Iterator[str]:
        planned_s = self.plan.timing.ttl_ns / 1e9
        others = [lease_s for lease_s in self.leases_s if abs(lease_s - planned_s) > 1e-6]  # noqa: PLR2004  (as it was written)
        if others:
            led = ", ".join(f"{lease_s:g} s" for lease_s in others)
            yield f"They led with L = {led}, and this plan is for {planned_s:g} s. Each change is judged by the lease it was made with."
        planned = rate_in_words(self.plan.chosen.rate.per_day)
        more = ": MORE THAN PLANNED" if self.more_than_planned else ""
        yield f"False failovers: {self.lived} in {seconds_in_words(self.over_s)}{more}; planned {planned}, by {self.plan.disturbed.source}."
        if self.margin_s is not None:
            grace_s, heartbeat_s = self.plan.timing.grace_ns / 1e9, self.plan.timing.renew_every_ns / 1e9
            near = ", less than a heartbeat before" if not others and self.margin_s < grace_s + heartbeat_s else ""
            yield f"The least that was left of a validity when it was renewed: {seconds(self.margin_s)}{near}; at {grace_s:g} s a leader stops."
        unknown = self.told.count(Verdict.UNKNOWN)
        if unknown:
            yield f"{unknown} of {len(self.told.changes)} could not be measured well enough; tenure history {shown(self.election)} says why."
        left_s = self.told.unseen_s
        yield f"Load, warm and discover ({left_s:g} s by plan) are not recorded: measure these in your own service."


def check(plan: Plan, election: str, settings: Settings) -> Check:
    """Compare a plan with what is recorded of an election."""
    check_name(election)
    found, address = history_of(settings, election)
    return compared(plan, found, address, shipped(settings.store).looks)


def compared(plan: Plan, found: History, address: str, looks: Looks | None = None) -> Check:
    """Compare a plan with a history. ``looks`` are those of its store, for a plan that is of none."""
    engine = plan.engine
    traits, looks = (found.traits, looks or Looks()) if engine is None else (engine.traits, engine.looks)
    told = report(found.tenures, traits, plan.rto_s, Basis(plan.budget, plan.timing, looks))
    return Check(
        election=found.election,
        address=address,
        plan=plan,
        told=told,
        measured=list(_measured(told, plan)),
        leases_s=sorted({one.ttl_s for one in found.tenures if one.ttl_s is not None}),
        margin_s=min((one.margin_min_s for one in found.tenures if one.margin_min_s is not None), default=None),
        lived=sum(one.reason in _LIVED for one in found.tenures),
        over_s=_over_s(found.tenures, found.at_s),
    )


def _over_s(tenures: Sequence[TenureRecord], now_s: float) -> float:
    return max(0.0, now_s - tenures[0].began_s) if tenures else 0.0


def _measured(told: Report, plan: Plan) -> Iterator[Measured]:
    silent = [one for one in told.changes if one.plan is not None and one.plan.detect_s]
    handed = [one for one in told.changes if one.plan is not None and not one.plan.detect_s]
    yield _gaps("missed, detected, elected", silent)
    yield _gaps("handed over, elected", handed)
    elect_s = [one.after.elect_s for one in told.changes if one.after.elect_s is not None]
    yield Measured(
        "elect alone", plan.budget.elect_s, elect_s, all(took_s <= plan.budget.elect_s for took_s in elect_s)
    )


def _gaps(what: str, changes: Sequence[Change]) -> Measured:
    plans = {round(one.plan.total_s, 6) for one in changes if one.plan is not None}
    taken_s = [one.gap.most_s for one in changes if one.gap is not None]
    kept = all(one.as_planned is not Verdict.MISSED for one in changes)
    return Measured(what, plans.pop() if len(plans) == 1 else None, taken_s, kept)


def _row(one: Measured) -> list[str]:
    if not one.taken_s:
        return [f"  {one.what}", "0", "-" if one.planned_s is None else f"{one.planned_s:.3g} s", "-", "-", ""]
    planned = "by its lease" if one.planned_s is None else f"{one.planned_s:.3g} s"
    verdict = "as planned" if one.kept else "LONGER THAN PLANNED"
    return [
        f"  {one.what}",
        str(len(one.taken_s)),
        planned,
        seconds(median(one.taken_s)),
        seconds(max(one.taken_s)),
        verdict,
    ]
