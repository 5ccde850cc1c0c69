"""A plan for people: the parts and their picture, what to change, and what a shorter timeout costs. Pure: lines of text."""

from collections.abc import Iterator, Sequence
from typing import Final

from tenure.cli.output import aligned
from tenure.cli.plan_picture import Marks, bars, curve
from tenure.plan.engines import Shipped
from tenure.plan.fitting import Fit
from tenure.plan.load import BUSY_MAX, Load
from tenure.plan.quorum import SIZES, Option, Quorum
from tenure.plan.rate import stop_after_s
from tenure.plan.targets import Recommended
from tenure.plan.whole import Plan
from tenure.plan.words import RAREST_PER_DAY, rate_in_words, seconds_in_words

_VERDICTS: Final = {
    Fit.FITS: "it fits",
    Fit.TIGHT: "it fits, but not at the worst moment",
    Fit.OVER: "it does not fit",
    Fit.CANNOT: "it cannot fit",
}


def shown(plan: Plan, width: int, marks: Marks) -> Iterator[str]:
    """Return the lines of a plan."""
    timing = plan.timing
    engine = "" if plan.engine is None else f"{plan.engine.name}: "
    yield (
        f"{engine}H = {timing.renew_every_ns / 1e9:g} s, N = {timing.misses}, L = {timing.ttl_ns / 1e9:g} s; "
        f"a leader that cannot renew stops after {stop_after_s(timing):g} s"
    )
    yield ""
    yield from bars(plan.budget, plan.rto_s, timing.renew_every_ns / 1e9, width, marks)
    yield ""
    yield from _verdict(plan)
    yield ""
    yield from _false_failovers(plan, width, marks)
    yield from asked_besides(plan)


def asked_besides(plan: Plan) -> Iterator[str]:
    """Return what was asked beside the failover, each with an empty line before it: the target, members, regions, the load."""
    for section in (_recommended(plan), _quorum(plan.quorum), _regions(plan.regions), _load(plan.load, plan)):
        lines = list(section)
        yield from ["", *lines] if lines else []


def verdict(plan: Plan) -> str:
    """Return the sum, and whether it fits."""
    parts = " + ".join(f"{part_s:.4g}" for _, part_s in plan.budget.parts)
    sign = "<=" if plan.budget.total_s <= plan.rto_s else ">"
    spare_s = plan.fitting.spare_s
    by = f"with {spare_s:.3g} s to spare" if spare_s >= 0 else f"by {-spare_s:.3g} s"
    return f"{parts} = {plan.budget.total_s:.4g} {sign} {plan.rto_s:g} s: {_VERDICTS[plan.fitting.fit]}, {by}."


def _verdict(plan: Plan) -> Iterator[str]:
    timing, budget = plan.timing, plan.budget
    yield verdict(plan)
    heartbeat_s, ttl_s = timing.renew_every_ns / 1e9, timing.ttl_ns / 1e9
    missed = (
        f"N x H = {timing.misses} x {heartbeat_s:g}" if _is_derived(plan) else f"L - H = {ttl_s:g} - {heartbeat_s:g}"
    )
    slack_s = 0.0 if plan.engine is None else plan.engine.traits.slack_ns(timing.ttl_ns) / 1e9
    if slack_s and plan.engine is not None:
        yield f"detect = {missed} + {slack_s:g} of {plan.engine.name} = {budget.detect_s:g} s: {plan.engine.why_late}."
        if plan.engine.remedy:
            yield f"{plan.engine.remedy[0].upper()}{plan.engine.remedy[1:]}."
    else:
        yield f"detect = {missed} = {budget.detect_s:g} s."
    if plan.engine is not None:
        yield _hand_over(plan, plan.engine)
    worst_s = budget.total_s + heartbeat_s
    yield f"A leader that dies right after a heartbeat is missed up to H = {heartbeat_s:g} s later: {worst_s:.4g} s at worst."
    if plan.engine is not None and plan.engine.traits.best_effort:
        yield f"{plan.engine.name} is best effort: {plan.engine.traits.best_effort}."
    if plan.fitting.advice:
        yield ""
        head = {Fit.CANNOT: "Detection alone takes as long as all of it may. The ways out:", Fit.TIGHT: "Note:"}
        yield head.get(plan.fitting.fit, "What to change, the largest part first:")
        for one in plan.fitting.advice:
            price = plan.price_per_day(one)
            cost = "" if price is None else f"; false failovers then: {rate_in_words(price)}"
            yield f"  {'+' if one.enough else '-'} {one.arithmetic}{cost}"


def _hand_over(plan: Plan, engine: Shipped) -> str:
    wake, elect_s = engine.traits.wake.value, plan.budget.elect_s
    look_s = engine.look_within_s(plan.timing.ttl_ns)
    if not look_s:
        return f"{engine.name} tells standbys of a release ({wake}): a hand-over takes elect = {elect_s:g} s."
    return (
        f"{engine.name} tells nobody of a release ({wake}); a standby looks within {look_s:g} s: "
        f"a hand-over takes {look_s:g} + {elect_s:g} = {look_s + elect_s:g} s."
    )


def _is_derived(plan: Plan) -> bool:
    return plan.timing.ttl_ns == (plan.timing.misses + 1) * plan.timing.renew_every_ns


def _false_failovers(plan: Plan, width: int, marks: Marks) -> Iterator[str]:
    disturbed, rate = plan.disturbed, plan.chosen.rate
    yield f"False failovers against N x H, by {disturbed.source}:"
    yield from curve(plan.points, plan.chosen, width, marks)
    by_what = (
        ("pauses", rate.pauses_per_day),
        ("outages", rate.outages_per_day),
        ("late answers", rate.answers_per_day),
    )
    told = [
        f"{what} {rate_in_words(part)}" for what, part in by_what if part > max(rate.per_day * 0.01, RAREST_PER_DAY)
    ]
    of_it = f" ({', '.join(told)})" if len(told) > 1 else ""
    yield f"With N x H = {plan.chosen.missed_s:g} s: {rate_in_words(rate.per_day)} for nothing{of_it}."
    if disturbed.rarest_per_day is not None and rate.per_day < disturbed.rarest_per_day:
        seen = seconds_in_words(86_400 / disturbed.rarest_per_day)
        yield f"That is rarer than {seen} of log can show: the longest pauses were extrapolated."
    if disturbed.is_assumed:
        yield "A profile is an assumption. Yours: --pauses gc.log (of a JVM, of Go, or one duration a line), --rtts ping.txt."


def _recommended(plan: Plan) -> Iterator[str]:
    if plan.target_per_day is None:
        return
    target = rate_in_words(plan.target_per_day)
    kept = "keeps" if plan.chosen.rate.per_day <= plan.target_per_day else "misses"
    yield f"Target {target}: H = {plan.timing.renew_every_ns / 1e9:g} s, N = {plan.timing.misses} {kept} it. The shortest that keep it:"
    if not plan.recommended:
        store = "" if plan.engine is None else f" that {plan.engine.name} gives"
        yield f"  none: no lease{store} is long enough for these pauses"
        return
    best = plan.best
    head = ["  N", "H", "L", "DETECT", "TOTAL", f"RTO {plan.rto_s:g} s", "FALSE FAILOVERS", "RENEWALS"]
    yield from aligned([head, *(_row(one, plan.rto_s, is_best=one is best) for one in plan.recommended)]).splitlines()
    if best is None:
        yield f"None of them fits the RTO of {plan.rto_s:g} s: keep a standby warm, or live with more false failovers."
    else:
        numbers = best.timing
        yield f"Take H = {numbers.renew_every_ns / 1e9:g} s, N = {numbers.misses}, L = {numbers.ttl_ns / 1e9:g} s, or longer."


def _row(one: Recommended, rto_s: float, *, is_best: bool) -> list[str]:
    return [
        f"{'>' if is_best else ' '} {one.timing.misses}",
        f"{one.timing.renew_every_ns / 1e9:g} s",
        f"{one.timing.ttl_ns / 1e9:g} s",
        f"{one.budget.detect_s:.3g} s",
        f"{one.budget.total_s:.4g} s",
        "fits" if one.fits else f"over by {one.budget.total_s - rto_s:.3g} s",
        rate_in_words(one.rate.per_day),
        f"{one.renewals_per_s:.2g}/s",
    ]


def _quorum(quorum: Quorum | None) -> Iterator[str]:
    if quorum is None:
        return
    yield "Members that decide by majority:"
    sizes = sorted({*SIZES, quorum.members})
    rows = [["  MEMBERS", "MAJORITY", "MAY FAIL", ""]]
    for one in map(Quorum, sizes):
        mark = "> " if one == quorum else "  "
        rows.append([f"{mark}{one.members}", str(one.majority), str(one.tolerates), one.advice])
    yield from aligned(rows).splitlines()


def _regions(options: Sequence[Option]) -> Iterator[str]:
    if not options:
        return
    yield "Over regions:"
    for one in options:
        yield f"  {one.name}: {one.place}"
        yield f"    {one.sums}"
        yield f"    survives: {one.survives}"


def _load(load: Load | None, plan: Plan) -> Iterator[str]:
    if load is None:
        return
    cost, most = seconds_in_words(load.op_cost_s), f"{load.most_per_s:.4g}"
    yield f"One leader, {load.ops_per_s:g} operations/s of {cost} each: {load.ops_per_s:g} x {load.op_cost_s:g} = {load.busy:.3g} of its time."
    if load.shards == 1:
        yield (
            f"No shards are needed: an operation takes {seconds_in_words(load.latency_s())} with its queue. "
            f"Shard beyond {BUSY_MAX:g} / {load.op_cost_s:g} = {most} operations/s."
        )
        return
    queue = "the queue only grows" if load.busy >= 1 else f"an operation takes {seconds_in_words(load.latency_s())}"
    yield (
        f"Shard: one leader does {BUSY_MAX:g} / {load.op_cost_s:g} = {most} operations/s without long queues (here {queue}). "
        f"{load.busy:.3g} / {BUSY_MAX:g} -> {load.shards} shards: {seconds_in_words(load.latency_s(load.shards))} each."
    )
    renewals = load.shards * 1e9 / plan.timing.renew_every_ns
    share = plan.budget.total_s / load.shards
    yield (
        f"A failover then stops 1/{load.shards} of the work, as if all of it stood for {share:.3g} s; "
        f"{load.shards} elections are {renewals:.3g} renewals/s unless they share a lease."
    )
