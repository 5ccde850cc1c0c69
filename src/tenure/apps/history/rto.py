"""Changes of leader against a plan and against an RTO: what was planned, what was measured, and what could not be. Pure.

What is measured ends when the body of the next leader begins. To load what it decides by, to get warm and to be found by
clients are parts of an RTO as well (``tenure.plan``), and no history sees them: the report says how much it leaves for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from tenure.apps.history.told import UNKNOWN, VANISHED, Span, TenureRecord
from tenure.errors import ConfigError, Reason
from tenure.plan import RTO_S, Budget
from tenure.plan.engines import Looks
from tenure.stores.base import Traits
from tenure.timing import Timing

# Of whom the lease has to run out. All others release the office, or the store has taken it away.
_LEASE_RUNS_OUT: Final = frozenset({VANISHED, Reason.LAPSED.value, Reason.STORE_GONE.value})
_SAME_LEASE_S: Final = 1e-6  # It is recorded in seconds, and reckoned with in nanoseconds.


class Verdict(StrEnum):
    """What a change of leader says of a bound."""

    KEPT = "kept"
    MISSED = "missed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a change of leader should take at most, in seconds, one part after the other."""

    # A leader that vanishes right after a heartbeat is missed with the next; a release is seen when somebody looks, unless all are told.
    unnoticed_s: float
    detect_s: float
    elect_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.unnoticed_s + self.detect_s + self.elect_s


@dataclass(frozen=True, slots=True)
class Basis:
    """What changes of leader are judged by, beside the store and the lease of each: as shipped, where nobody has planned otherwise."""

    budget: Budget = field(default_factory=lambda: Budget.of(Timing.of()))  # detect follows from the lease of each
    timing: Timing | None = None  # of tenures with its lease; those with another have what follows from theirs
    looks: Looks = field(default_factory=Looks)

    def timing_of(self, ttl_s: float) -> Timing:
        """Return the timing of a tenure with such a lease: only that is recorded, and not its heartbeat."""
        if self.timing is not None and abs(self.timing.ttl_ns / 1e9 - ttl_s) < _SAME_LEASE_S:
            return self.timing
        return Timing.of(ttl=ttl_s)


@dataclass(frozen=True, slots=True)
class Change:
    """From one tenure to the next."""

    before: TenureRecord
    after: TenureRecord
    plan: Plan | None  # None: it is not known with which lease the first one led, or how it ended
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


def report(tenures: Sequence[TenureRecord], traits: Traits, rto_s: float = RTO_S, basis: Basis | None = None) -> Report:
    """Compare every change of leader among these tenures with what was planned for it, and with an RTO."""
    if not rto_s > 0:
        raise ConfigError("rto", rto_s, "must be more than 0")
    basis = Basis() if basis is None else basis
    changes = [_change(before, after, traits, rto_s, basis) for before, after in pairwise(tenures)]
    return Report(rto_s, changes, basis.budget.load_s + basis.budget.warm_s + basis.budget.discover_s)


def _change(before: TenureRecord, after: TenureRecord, traits: Traits, rto_s: float, basis: Basis) -> Change:
    plan = plan_of(before, traits, basis)
    as_planned = Verdict.UNKNOWN if plan is None else _judged(after.gap, plan.total_s)
    return Change(before, after, plan, as_planned, _judged(after.gap, rto_s), _why_unmeasured(after))


def plan_of(tenure: TenureRecord, traits: Traits, basis: Basis) -> Plan | None:
    """Return how long it should take to succeed a tenure that ended in that way."""
    if tenure.ttl_s is None or tenure.reason == UNKNOWN:
        return None
    try:
        timing = basis.timing_of(tenure.ttl_s)
    except ConfigError:
        return None
    elect_s = basis.budget.elect_s
    if tenure.reason not in _LEASE_RUNS_OUT:
        return Plan(basis.looks.within_s(traits, timing.ttl_ns), 0.0, elect_s)
    unnoticed_s = timing.renew_every_ns / 1e9 if tenure.reason == VANISHED else 0.0
    return Plan(unnoticed_s, Budget.of(timing, traits).detect_s, elect_s)


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
