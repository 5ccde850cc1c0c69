"""A whole plan: everything that follows from the numbers of an election, the engine, the pauses and the work. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenure.errors import ConfigError
from tenure.plan.budget import RTO_S, Budget
from tenure.plan.delays import Pauses, RoundTrips
from tenure.plan.engines import Shipped
from tenure.plan.fitting import Advice, Fit, Fitting, check_ttl, fitting
from tenure.plan.load import Load
from tenure.plan.profiles import DEFAULT, profile_of
from tenure.plan.quorum import Option, Quorum, Regions
from tenure.plan.rate import Point, Rate, curve, false_failovers, scaled, stop_after_s
from tenure.plan.targets import MISSES, Recommended, best_of, recommended
from tenure.timing import DEFAULT_MISSES, Seconds, Timing, to_ns


@dataclass(frozen=True, slots=True)
class Disturbed:
    """What disturbs a leader, and where that is known from."""

    pauses: Pauses
    trips: RoundTrips
    source: str
    is_assumed: bool  # nobody has measured it
    outages: Pauses | None = None  # of the way to the store, or of the store
    # What happens more rarely was not seen, but extrapolated; None: nothing was seen.
    rarest_per_day: float | None = None

    def rate(self, timing: Timing) -> Rate:
        """Return how many false failovers there are with such a timing."""
        return false_failovers(timing, self.pauses, self.trips, self.outages)

    @classmethod
    def by_profile(cls, name: str = DEFAULT) -> "Disturbed":
        """Return what is assumed of a place."""
        profile = profile_of(name)
        return cls(profile, profile.trips, f"profile {name} ({profile.what})", is_assumed=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows."""

    timing: Timing
    engine: Shipped | None
    budget: Budget
    rto_s: float
    fitting: Fitting
    disturbed: Disturbed
    chosen: Point
    points: Sequence[Point]
    target_per_day: float | None
    recommended: Sequence[Recommended]
    quorum: Quorum | None = None
    regions: Sequence[Option] = ()
    load: Load | None = None

    @property
    def fits(self) -> bool:
        """Whether the failover fits, and false ones are as rare as is wanted."""
        kept = self.target_per_day is None or self.chosen.rate.per_day <= self.target_per_day
        return kept and self.fitting.fit in {Fit.FITS, Fit.TIGHT}

    @property
    def best(self) -> Recommended | None:
        """Which of the recommended to take; None: none is recommended, or none fits the RTO."""
        return best_of(self.recommended, self.timing.misses)

    def price_per_day(self, advice: Advice) -> float | None:
        """Return how many false failovers a day there would be after a change; None: it leaves them as they are."""
        if advice.heartbeat_s is None:
            return None
        timing = scaled(self.timing, advice.heartbeat_s * 1e9 / self.timing.renew_every_ns)
        return self.disturbed.rate(timing).per_day

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it: durations in seconds, rates a day."""
        timing, rate, best = self.timing, self.chosen.rate, self.best
        return {
            "timing": timing_json(timing),
            "store": None if self.engine is None else _engine_json(self.engine, timing),
            "budget": {f"{name}_s": round(part_s, 6) for name, part_s in self.budget.parts}
            | {"total_s": round(self.budget.total_s, 6), "unnoticed_s": timing.renew_every_ns / 1e9},
            "rto_s": self.rto_s,
            "fit": self.fitting.fit.value,
            "spare_s": round(self.fitting.spare_s, 6),
            "advice": [
                {
                    "change": one.change,
                    "arithmetic": one.arithmetic,
                    "total_s": None if one.total_s is None else round(one.total_s, 6),
                    "enough": one.enough,
                    "heartbeat_s": one.heartbeat_s,
                    "false_failovers_per_day": self.price_per_day(one),
                }
                for one in self.fitting.advice
            ],
            "false_failovers": {
                "source": self.disturbed.source,
                "assumed": self.disturbed.is_assumed,
                "extrapolated_below_per_day": self.disturbed.rarest_per_day,
                "per_day": rate.per_day,
                "by_pauses_per_day": rate.pauses_per_day,
                "by_answers_per_day": rate.answers_per_day,
                "by_outages_per_day": rate.outages_per_day,
                "curve": [{"missed_s": round(one.missed_s, 6), "per_day": one.rate.per_day} for one in self.points],
            },
            "target_per_day": self.target_per_day,
            "recommended": [_recommended_json(one) | {"best": one is best} for one in self.recommended],
            "quorum": None if self.quorum is None else _quorum_json(self.quorum),
            "regions": [_option_json(one) for one in self.regions],
            "load": None if self.load is None else _load_json(self.load),
        }


def timing_of(
    heartbeat: Seconds | None = None,
    misses: int = DEFAULT_MISSES,
    ttl: Seconds | None = None,
    grace: Seconds | None = None,
) -> Timing:
    """Return ``Timing.of`` these; what breaks H > 0, N > 0 or L > N x H is named by these letters."""
    for name, value in (("heartbeat (H)", heartbeat), ("ttl (L)", ttl)):
        if value is not None and to_ns(name, value) <= 0:
            raise ConfigError(name, f"{to_ns(name, value) / 1e9:g} s", f"must be more than 0: {name} > 0")
    if misses < 1:
        raise ConfigError("misses (N)", misses, "must be at least 1: N > 0")
    if ttl is not None and heartbeat is not None:
        ttl_ns, heartbeat_ns = to_ns("ttl", ttl), to_ns("heartbeat", heartbeat)
        if ttl_ns <= misses * heartbeat_ns:
            shown = f"{misses} x {heartbeat_ns / 1e9:g} s = {misses * heartbeat_ns / 1e9:g} s"
            raise ConfigError("ttl (L)", f"{ttl_ns / 1e9:g} s", f"must be more than N x H = {shown}: L > N x H")
    return Timing.of(ttl=ttl, heartbeat=heartbeat, misses=misses, grace=grace)


def planned(  # noqa: PLR0913  (everything that a plan is made of, by name)
    timing: Timing,
    *,
    engine: Shipped | None = None,
    elect_s: float = 1,
    load_s: float = 2,
    warm_s: float = 13,
    discover_s: float = 5,
    rto_s: float = RTO_S,
    disturbed: Disturbed | None = None,
    target_per_day: float | None = None,
    quorum: Quorum | None = None,
    regions: Regions | None = None,
    load: Load | None = None,
) -> Plan:
    """Return what follows from all this. Raises ConfigError for what does not fit together."""
    if engine is not None:
        check_ttl(timing, engine.traits, engine.name)
    traits = None if engine is None else engine.traits
    budget = Budget.of(timing, traits, elect_s=elect_s, load_s=load_s, warm_s=warm_s, discover_s=discover_s)
    disturbed = disturbed or Disturbed.by_profile()
    better: Sequence[Recommended] = ()
    if target_per_day is not None:
        better = recommended(
            target_per_day,
            disturbed.rate,
            traits=traits,
            budget=budget,
            rto_s=rto_s,
            misses=sorted({*MISSES, max(timing.misses, MISSES[0])}),
        )
    return Plan(
        timing=timing,
        engine=engine,
        budget=budget,
        rto_s=rto_s,
        fitting=fitting(budget, timing, traits, rto_s),
        disturbed=disturbed,
        chosen=Point(timing, disturbed.rate(timing)),
        points=curve(timing, disturbed.rate),
        target_per_day=target_per_day,
        recommended=better,
        quorum=quorum,
        regions=() if regions is None else regions.options(None if quorum is None else quorum.members),
        load=load,
    )


# As JSON


def timing_json(timing: Timing) -> dict[str, Any]:
    """Return the numbers of a timing."""
    return {
        "heartbeat_s": timing.renew_every_ns / 1e9,
        "misses": timing.misses,
        "ttl_s": timing.ttl_ns / 1e9,
        "grace_s": timing.grace_ns / 1e9,
        "attempt_timeout_s": timing.attempt_timeout_ns / 1e9,
        "stop_after_s": stop_after_s(timing),
    }


def _engine_json(engine: Shipped, timing: Timing) -> dict[str, Any]:
    traits = engine.traits
    return {
        "engine": engine.name,
        "wake": traits.wake.value,
        "expiry": traits.expiry.value,
        "ttl_min_s": traits.ttl_min_ns / 1e9,
        "ttl_max_s": traits.ttl_max_ns / 1e9,
        "slack_s": traits.slack_ns(timing.ttl_ns) / 1e9,
        "look_within_s": engine.look_within_s(timing.ttl_ns),
        "why_late": engine.why_late or None,
        "best_effort": traits.best_effort or None,
    }


def _recommended_json(one: Recommended) -> dict[str, Any]:
    return timing_json(one.timing) | {
        "per_day": one.rate.per_day,
        "detect_s": round(one.budget.detect_s, 6),
        "total_s": round(one.budget.total_s, 6),
        "fits": one.fits,
        "renewals_per_s": round(one.renewals_per_s, 3),
    }


def _quorum_json(quorum: Quorum) -> dict[str, Any]:
    return {
        "members": quorum.members,
        "majority": quorum.majority,
        "tolerates": quorum.tolerates,
        "advice": quorum.advice or None,
    }


def _option_json(option: Option) -> dict[str, Any]:
    return {
        "option": option.name,
        "place": option.place,
        "commit_s": option.commit_s,
        "renew_s": option.renew_s,
        "elect_s": option.elect_s,
        "survives": option.survives,
        "sums": option.sums,
    }


def _load_json(load: Load) -> dict[str, Any]:
    latency_s = load.latency_s()
    return {
        "ops_per_s": load.ops_per_s,
        "op_cost_s": load.op_cost_s,
        "busy": round(load.busy, 6),
        "most_per_s": round(load.most_per_s, 3),
        "shards": load.shards,
        "latency_s": round(latency_s, 6) if load.busy < 1 else None,
        "latency_sharded_s": round(load.latency_s(load.shards), 6),
    }
