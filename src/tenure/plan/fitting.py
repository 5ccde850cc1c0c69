"""Whether a failover fits into an RTO; which number to change if not, with the arithmetic; and when no number will do. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tenure.errors import ConfigError
from tenure.plan.budget import Budget
from tenure.stores.base import Traits
from tenure.timing import Timing

# A client that was told by a standby where the leader is has asked twice; the 5 s of the plan are for one that looks now and then.
HINTED_S: Final = 1.0


class Fit(StrEnum):
    """How a budget stands to an RTO."""

    FITS = "fits"
    TIGHT = "tight"  # it fits, but not if the leader dies right after a heartbeat
    OVER = "over"
    CANNOT = "cannot"  # to notice it takes as long as all of it may


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change, and what it comes to."""

    change: str  # which number or part
    arithmetic: str
    total_s: float | None  # the failover after the change; None: it is not shorter by it, or cannot be said
    enough: bool  # whether this alone is enough
    heartbeat_s: float | None = None  # the H that it asks for; None: it asks for none


@dataclass(frozen=True, slots=True)
class Fitting:
    """A budget beside an RTO."""

    fit: Fit
    spare_s: float  # what is left; less than 0: what is too much
    advice: Sequence[Advice]


def fitting(budget: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> Fitting:
    """Compare a budget with an RTO."""
    if not rto_s > 0:
        raise ConfigError("--rto", f"{rto_s:g} s", "must be more than 0")
    spare_s = rto_s - budget.total_s
    unnoticed_s = timing.renew_every_ns / 1e9
    if budget.detect_s >= rto_s:
        return Fitting(Fit.CANNOT, spare_s, _out_of_reach(budget, timing, traits, rto_s))
    if spare_s < 0:
        return Fitting(Fit.OVER, spare_s, _changes(budget, timing, traits, rto_s))
    if spare_s < unnoticed_s:
        return Fitting(Fit.TIGHT, spare_s, (_reserve(budget, unnoticed_s, rto_s),))
    return Fitting(Fit.FITS, spare_s, ())


def check_ttl(timing: Timing, traits: Traits, engine: str) -> None:
    """Refuse a lease that the engine does not give."""
    if not traits.ttl_min_ns <= timing.ttl_ns <= traits.ttl_max_ns:
        rule = f"must be from {traits.ttl_min_ns / 1e9:g} s to {traits.ttl_max_ns / 1e9:g} s: {engine} gives no other leases"
        raise ConfigError("ttl", f"{timing.ttl_ns / 1e9:g} s", rule)


def heartbeat_for(detect_s: float, timing: Timing, traits: Traits | None) -> float | None:
    """Return the longest H with which a leader is missed within that time; None: the engine gives no such lease.

    All numbers of ``timing`` are made shorter by one factor f. A leader is then missed after f x (L - H), and the engine adds so much
    and so many leases of f x L: it is solved for f.
    """
    slack_s, leases = (0.0, 0) if traits is None else (traits.expiry_slack_ns / 1e9, traits.expiry_slack_ttls)
    ttl_s, heartbeat_s = timing.ttl_ns / 1e9, timing.renew_every_ns / 1e9
    factor = (detect_s - slack_s) / (ttl_s - heartbeat_s + leases * ttl_s)
    # Rounded down to whole milliseconds, so that nobody writes 0.6666666 into a file.
    shorter_s = math.floor(heartbeat_s * factor * 1000 + 1e-6) / 1000
    least_s = 0.001 if traits is None else traits.ttl_min_ns / 1e9
    return shorter_s if shorter_s > 0 and _lease_s(shorter_s, timing) >= least_s - 1e-9 else None


def _lease_s(heartbeat_s: float, timing: Timing) -> float:
    return heartbeat_s * timing.ttl_ns / timing.renew_every_ns


def _detected_s(heartbeat_s: float, timing: Timing, traits: Traits | None) -> float:
    lease_s = _lease_s(heartbeat_s, timing)
    return lease_s - heartbeat_s + (0 if traits is None else traits.slack_ns(round(lease_s * 1e9)) / 1e9)


def _reserve(budget: Budget, unnoticed_s: float, rto_s: float) -> Advice:
    worst_s = budget.total_s + unnoticed_s
    told = f"a leader that dies right after a heartbeat is missed H = {unnoticed_s:g} s later: {_sum(budget)} + {unnoticed_s:g} = {worst_s:g} > {rto_s:g} s"
    return Advice("reserve", told, worst_s, enough=False)


def _changes(budget: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> list[Advice]:
    """Every part that could be shorter, the largest first."""
    over_s = budget.total_s - rto_s
    advice = []
    for name, part_s in sorted(budget.parts, key=lambda part: -part[1]):
        if not part_s:
            continue
        if name == "detect":
            advice.append(_detect(budget, timing, traits, rto_s))
            continue
        left_s = round(part_s - over_s, 6)
        if left_s >= 0:
            told = f"{name} at most {left_s:g} s instead of {part_s:g} s: {budget.total_s:g} - {part_s:g} + {left_s:g} = {rto_s:g} s"
            advice.append(Advice(name, told, rto_s, enough=True))
        else:
            rest_s = budget.total_s - part_s
            told = f"{name} of {part_s:g} s is not enough: without it {budget.total_s:g} - {part_s:g} = {rest_s:g} > {rto_s:g} s"
            advice.append(Advice(name, told, rest_s, enough=False))
    if warm := _warm_standby(budget, rto_s):
        # Right below the first of the two parts that it does away with.
        first = next(number for number, one in enumerate(advice) if one.change in {"load", "warm"})
        advice.insert(first + 1, warm)
    return [*advice, *_other_store(budget, timing, traits, rto_s)]


def _other_store(budget: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> list[Advice]:
    """What would be, were it not for what the engine takes beyond the lease. Said where that is more than the misses are."""
    slack_s = 0.0 if traits is None else traits.slack_ns(timing.ttl_ns) / 1e9
    if slack_s <= timing.misses * timing.renew_every_ns / 1e9:
        return []
    rest_s = budget.total_s - slack_s
    sign = "<=" if rest_s <= rto_s else ">"
    told = (
        f"{slack_s:g} s of detect are the store's own, beyond the lease. At one that ends a lease with its ttl: "
        f"{budget.total_s:g} - {slack_s:g} = {rest_s:g} {sign} {rto_s:g} s"
    )
    return [Advice("store", told, rest_s, enough=rest_s <= rto_s)]


def _warm_standby(budget: Budget, rto_s: float) -> Advice | None:
    saved_s = budget.load_s + budget.warm_s
    if not saved_s:
        return None
    rest_s = budget.total_s - saved_s
    sign = "<=" if rest_s <= rto_s else ">"
    told = (
        "a standby that has loaded and warmed before it stands (prepare=): "
        f"{budget.total_s:g} - {budget.load_s:g} - {budget.warm_s:g} = {rest_s:g} {sign} {rto_s:g} s"
    )
    return Advice("warm standby", told, rest_s, enough=rest_s <= rto_s)


def _detect(budget: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> Advice:
    others_s = budget.total_s - budget.detect_s
    left_s = rto_s - others_s
    name = "H x N"
    if left_s <= 0:
        told = f"a shorter H x N is not enough: all else is {others_s:g} s, and {rto_s:g} - {others_s:g} = {left_s:g} s is left for it"
        return Advice(name, told, None, enough=False)
    heartbeat_s = heartbeat_for(left_s, timing, traits)
    if heartbeat_s is None:
        return Advice(name, _no_such_lease(left_s, timing, traits), None, enough=False)
    told = (
        f"detect at most {rto_s:g} - {others_s:g} = {left_s:g} s instead of {budget.detect_s:g} s: H = {heartbeat_s:g} s x N = {timing.misses}, "
        f"L = {_lease_s(heartbeat_s, timing):g} s"
    )
    total_s = others_s + _detected_s(heartbeat_s, timing, traits)
    return Advice(name, told, total_s, enough=True, heartbeat_s=heartbeat_s)


def _no_such_lease(left_s: float, timing: Timing, traits: Traits | None) -> str:
    assert traits is not None
    least_s = traits.ttl_min_ns / 1e9
    floor_s = _detected_s(least_s * timing.renew_every_ns / timing.ttl_ns, timing, traits)
    return f"a shorter H x N is not enough at this store: with its shortest lease, {least_s:g} s, detect is {floor_s:g} s, and {left_s:g} s is left"


def _out_of_reach(budget: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> list[Advice]:
    """Detection alone takes as long as the RTO. The ways out, and what each comes to."""
    advice = [*_other_store(budget, timing, traits, rto_s), _detect(budget, timing, traits, rto_s)]
    warm = replace(budget, load_s=0.0, warm_s=0.0)
    if warm != budget:
        told = (
            f"a warm standby alone is not enough: {budget.total_s:g} - {budget.load_s:g} - {budget.warm_s:g} = {warm.total_s:g} > {rto_s:g} s, "
            f"of which detect is {budget.detect_s:g} s"
        )
        advice.append(Advice("warm standby", told, warm.total_s, enough=False))
    advice.append(_all_of_it(warm, timing, traits, rto_s))
    shards = math.ceil(budget.total_s / rto_s)
    told = (
        f"{shards} shards, each with a leader of its own: a failover still takes {budget.total_s:g} s, but stops 1/{shards} of the work: "
        f"{budget.total_s:g} / {shards} = {budget.total_s / shards:.3g} s of all of it"
    )
    advice.append(Advice("shard", told, None, enough=False))
    return advice


def _all_of_it(warm: Budget, timing: Timing, traits: Traits | None, rto_s: float) -> Advice:
    """With a warm standby, and clients that are told where the leader is, whatever is left may be spent on noticing."""
    discover_s = min(warm.discover_s, HINTED_S)
    left_s = rto_s - warm.elect_s - discover_s
    hinted = (
        f", clients that are told where the leader is (discover {discover_s:g} s)"
        if discover_s < warm.discover_s
        else ""
    )
    head = f"a shorter H x N with a warm standby{hinted}: {rto_s:g} - elect {warm.elect_s:g} - discover {discover_s:g} = {left_s:g} s for detect"
    if left_s <= 0:
        return Advice("all of it", f"{head}: it cannot fit", None, enough=False)
    heartbeat_s = heartbeat_for(left_s, timing, traits)
    if heartbeat_s is None:
        return Advice("all of it", f"{head}, and {_no_such_lease(left_s, timing, traits)}", None, enough=False)
    total_s = _detected_s(heartbeat_s, timing, traits) + warm.elect_s + discover_s
    lease_s = _lease_s(heartbeat_s, timing)
    told = f"{head}: H = {heartbeat_s:g} s x N = {timing.misses}, L = {lease_s:g} s, {total_s:g} s in all"
    return Advice("all of it", told, total_s, enough=True, heartbeat_s=heartbeat_s)


def _sum(budget: Budget) -> str:
    return " + ".join(f"{part_s:g}" for _, part_s in budget.parts if part_s)
