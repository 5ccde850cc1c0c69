"""Changes of leader against a plan and against an RTO: what was planned, what was measured, and what could not be. Pure.

What is measured ends when the body of the next leader begins. To load what it decides by, to get warm and to be found by
clients are parts of an RTO as well (``tenure.plan``), and no history sees them: the report says how much it leaves for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from tenure.apps.history.told import VANISHED, Span, TenureRecord
from tenure.errors import ConfigError, Reason
from tenure.plan import RTO_S, Budget
from tenure.stores.base import Traits
from tenure.timing import Timing

# Of whom the lease has to run out. All others release the office, or the store has taken it away.
_LEASE_RUNS_OUT: Final = frozenset({VANISHED, Reason.LAPSED.value, Reason.STORE_GONE.value})


class Verdict(StrEnum):
    """What a change of leader says of a bound."""

    KEPT = "kept"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a change of leader should take at most, in seconds, one part after the other."""

    unnoticed_s: float  # a leader that vanishes right after a heartbeat is missed with the next
    detect_s: float
    elect_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.unnoticed_s + self.detect_s + self.elect_s


@dataclass(frozen=True, slots=True)
class Change:
    """From one tenure to the next."""

    before: TenureRecord
    after: TenureRecord
    plan: Plan | None  # None: it is not known with which lease the first one led
    as_planned: Verdict
    in_rto: Verdict
    unmeasured: str  # why the gap was not measured; empty: it was

    @property
    def gap(self) -> Span | None:
        """The time without a leader."""
        return self.after.gap

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        gap, plan = self.gap, self.plan
        return {
            "from_token": self.before.token,
            "to_token": self.after.token,
            "from_holder": self.before.holder,
            "to_holder": self.after.holder,
            "reason": self.before.reason,
            "planned_s": None if plan is None else round(plan.total_s, 3),
            "planned_detect_s": None if plan is None else round(plan.unnoticed_s + plan.detect_s, 3),
            "planned_elect_s": None if plan is None else round(plan.elect_s, 3),
            "measured_min_s": None if gap is None else round(gap.least_s, 3),
            "measured_max_s": None if gap is None else round(gap.most_s, 3),
            "measured_elect_s": None if self.after.elect_s is None else round(self.after.elect_s, 3),
            "clocks": None if gap is None else gap.clocks.value,
            "as_planned": self.as_planned.value,
            "verdict": self.in_rto.value,
            "unmeasured": self.unmeasured or None,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The changes of leader, the first first, and what they come to."""

    rto_s: float
    changes: Sequence[Change]
    unseen_s: float  # what is planned for the parts of an RTO that are not measured here

    def count(self, verdict: Verdict) -> int:
        """Return how many have this verdict."""
        return sum(change.in_rto is verdict for change in self.changes)

    @property
    def worst_s(self) -> float | None:
        """The longest that any may have taken; None: none was measured."""
        return max((change.gap.most_s for change in self.changes if change.gap is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        worst_s = self.worst_s
        return {
            "rto_s": self.rto_s,
            **{verdict.value: self.count(verdict) for verdict in Verdict},
            "worst_s": None if worst_s is None else round(worst_s, 3),
            "left_s": None if worst_s is None else round(self.rto_s - worst_s, 3),
            "planned_unseen_s": self.unseen_s,
            "changes": [change.as_json() for change in self.changes],
        }


def report(tenures: Sequence[TenureRecord], traits: Traits, rto_s: float = RTO_S) -> Report:
    """Compare every change of leader among these tenures with what was planned for it, and with an RTO."""
    if not rto_s > 0:
        raise ConfigError("rto", rto_s, "must be more than 0")
    budget = Budget.of(Timing.of(), traits)
    changes = [_change(before, after, traits, rto_s) for before, after in pairwise(tenures)]
    return Report(rto_s, changes, budget.load_s + budget.warm_s + budget.discover_s)


def _change(before: TenureRecord, after: TenureRecord, traits: Traits, rto_s: float) -> Change:
    plan = plan_of(before, traits)
    as_planned = Verdict.UNKNOWN if plan is None else _judged(after.gap, plan.total_s)
    return Change(before, after, plan, as_planned, _judged(after.gap, rto_s), _why_unmeasured(after))


def plan_of(tenure: TenureRecord, traits: Traits) -> Plan | None:
    """Return how long it should take to succeed a tenure that ended in that way."""
    if tenure.ttl_s is None:
        return None
    try:
        timing = Timing.of(
            ttl=tenure.ttl_s
        )  # Its heartbeat is not recorded, and taken for what follows from the lease.
    except ConfigError:
        return None
    budget = Budget.of(timing, traits)
    if tenure.reason not in _LEASE_RUNS_OUT:
        return Plan(0.0, 0.0, budget.elect_s)
    unnoticed_s = timing.renew_every_ns / 1e9 if tenure.reason == VANISHED else 0.0
    return Plan(unnoticed_s, budget.detect_s, budget.elect_s)


def _judged(gap: Span | None, bound_s: float) -> Verdict:
    if gap is None or gap.least_s <= bound_s < gap.most_s:
        return Verdict.UNKNOWN
    return Verdict.KEPT if gap.most_s <= bound_s else Verdict.MISSED


def _why_unmeasured(after: TenureRecord) -> str:
    if after.gap is not None:
        return ""
    if after.unrecorded:
        return "somebody led in between who keeps no history, or whose record was lost"
    return "the body before it ended after this one began: it overstayed, or the clocks of the two machines differ"
