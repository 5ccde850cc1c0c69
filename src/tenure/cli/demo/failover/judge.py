"""What the failover has shown, read from the histories alone: how long each part took, and whether work went on.

All instants are of one boot clock, so those of different processes may be compared.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from tenure.cli.demo.failover.setting import EXECUTIONS_PER_S, SCENARIOS, WORKERS, Pace, Scenario
from tenure.cli.demo.happening import Happening, What
from tenure.plan import Budget

_IN_TIME_NS: Final = 10**9  # An execution counts if it was written down within a second of when it was due.
_STRIKES: Final = (What.KILLED, What.FROZEN)


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one worker did while nobody led it."""

    worker: str
    due: int
    done: int
    each_second: Sequence[int]  # from its own record, by the seconds of the gap that are whole

    @property
    def percent(self) -> float:
        return 100 * self.done / self.due if self.due else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """One failover, measured."""

    scenario: Scenario
    unnoticed_s: float  # from the signal until the first heartbeat is missed
    measured: Budget
    total_s: float
    throughput: Sequence[Throughput]
    stale_tried: int
    stale_accepted: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """All of them, and everything because of which the demo has not shown what it says."""

    pace: Pace
    figures: Sequence[Figures]
    problems: Sequence[str]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def plan_of(self, scenario: Scenario) -> Budget:
        """Return what was planned for it."""
        return self.pace.warm if scenario.standby == "warm" else self.pace.cold

    def limit_s_of(self, scenario: Scenario) -> float:
        """Return how long it may take in all: the plan, and the reserve."""
        return self.plan_of(scenario).total_s + self.pace.reserve_s

    def as_object(self) -> dict[str, Any]:
        """Return the verdict as ``--json`` shows it."""
        runs = [
            {
                "fault": figure.scenario.fault,
                "standby": figure.scenario.standby,
                "plan": {**asdict(self.plan_of(figure.scenario)), "total_s": self.plan_of(figure.scenario).total_s},
                "limit_s": self.limit_s_of(figure.scenario),
                "measured": {"unnoticed_s": figure.unnoticed_s, **asdict(figure.measured), "total_s": figure.total_s},
                "workers": [{**asdict(one), "percent": one.percent} for one in figure.throughput],
                "stale_tried": figure.stale_tried,
                "stale_accepted": figure.stale_accepted,
            }
            for figure in self.figures
        ]
        return {"what": "figures", "factor": self.pace.factor, "runs": runs, "problems": list(self.problems)}


def judge(history: Sequence[Happening], broken: Sequence[str], pace: Pace) -> Verdict:
    """Return the verdict on the histories of all stories. ``broken`` says why some ended early."""
    figures, problems = list[Figures](), [f"the story did not happen: {why}" for why in broken]
    for scenario in SCENARIOS:
        here = [found for found in history if found.act == scenario.number]
        figure = _figures(scenario, here, pace)
        if figure is None:
            if not any(scenario.name in problem for problem in problems):
                problems.append(f"{scenario.name}: nobody took over")
        else:
            figures.append(figure)
            problems += _problems(figure, Verdict(pace, (), ()))
    return Verdict(pace, figures, problems)


def _figures(scenario: Scenario, history: Sequence[Happening], pace: Pace) -> Figures | None:
    struck = _first(history, *_STRIKES)
    if struck is None:
        return None
    after = [found for found in history if found.at_ns > struck.at_ns]
    successor = [found for found in after if found.who == "B"]
    leads = _first(successor, What.LEADS)
    if leads is None:
        return None
    granted = _first((found for found in successor if found.token == leads.token), What.GRANTED)
    in_office = [found for found in successor if found.at_ns >= leads.at_ns]
    loaded, warmed = _first(in_office, What.LOADED), _first(in_office, What.WARMED)
    answered = _first((found for found in after if found.token == leads.token), What.ANSWERED)
    told = [_first((one for one in in_office if one.more.get("worker") == name), What.DELIVERED) for name in WORKERS]
    found_by = [answered, *told]
    if granted is None or loaded is None or warmed is None or None in found_by:
        return None
    renewed = [
        found for found in history if found.who == "A" and found.what is What.RENEWED and found.at_ns <= struck.at_ns
    ]
    missed_ns = struck.at_ns
    if renewed:  # The next heartbeat was due then.
        missed_ns = max(struck.at_ns, renewed[-1].more["sent_ns"] + pace.timing.renew_every_ns)
    found_ns = max(one.at_ns for one in found_by if one is not None)
    instants = (struck.at_ns, missed_ns, granted.more["sent_ns"], leads.at_ns, loaded.at_ns, warmed.at_ns, found_ns)
    unnoticed_s, *parts = ((later - earlier) / 1e9 for earlier, later in pairwise(instants))
    late = [found for found in after if found.who == "A" and found.what in (What.REFUSED, What.DELIVERED)]
    audits = {found.who: found.more for found in history if found.what is What.AUDITED}
    stale = sum(_stale_orders(audit["orders"]) for audit in audits.values())
    return Figures(
        scenario,
        unnoticed_s,
        Budget(*parts),
        (found_ns - struck.at_ns) / 1e9,
        [_throughput(name, audits[name]["executions"], struck.at_ns, found_ns) for name in WORKERS if name in audits],
        len(late),
        stale + sum(found.what is What.DELIVERED for found in late),
    )


def _throughput(worker: str, executions: Sequence[Sequence[int]], from_ns: int, to_ns: int) -> Throughput:
    """Return what was done of what was due in the gap. The schedule is the worker's own: its first, and then one every tenth."""
    step_ns = 10**9 // EXECUTIONS_PER_S
    done = {due_ns for due_ns, at_ns, _ in executions if from_ns <= due_ns < to_ns and at_ns - due_ns <= _IN_TIME_NS}
    first_ns = executions[0][0] if executions else to_ns
    start_ns = first_ns + max(0, -(-(from_ns - first_ns) // step_ns)) * step_ns
    due = max(0, -(-(to_ns - start_ns) // step_ns))
    seconds = [0] * ((to_ns - from_ns) // 10**9)
    for _, at_ns, _ in executions:
        second = (at_ns - from_ns) // 10**9
        if 0 <= second < len(seconds):
            seconds[second] += 1
    return Throughput(worker, due, len(done), seconds)


def _stale_orders(orders: Sequence[Sequence[Any]]) -> int:
    """Count orders that a worker took after it had taken one of a later leader."""
    highest, stale = 0, 0
    for _, token in orders:
        stale += token < highest
        highest = max(highest, token)
    return stale


def _problems(figure: Figures, plan: Verdict) -> list[str]:
    problems, name = list[str](), figure.scenario.name
    limit_s = plan.limit_s_of(figure.scenario)
    if figure.total_s > limit_s:
        problems.append(f"{name}: {figure.total_s:.2f} s without a leader, and {limit_s:.2f} s were to be had")
    if figure.stale_accepted:
        problems.append(f"{name}: {figure.stale_accepted} stale orders were accepted")
    if figure.scenario.fault == "frozen" and figure.stale_tried < len(WORKERS):
        problems.append(f"{name}: no stale order was tried, so nothing was shown")
    if len(figure.throughput) < len(WORKERS):
        problems.append(f"{name}: the record of a worker was never looked at")
    problems += [
        f"{name}: {one.worker} did {one.done} of {one.due} executions while there was no leader"
        for one in figure.throughput
        if one.done < one.due or not one.due
    ]
    return problems


def _first(history: Iterable[Happening], *whats: What) -> Happening | None:
    return next((found for found in history if found.what in whats), None)
