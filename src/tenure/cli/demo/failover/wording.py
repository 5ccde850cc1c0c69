"""The failover in words: a line when something happens, and the table of plan and measurement."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from tenure.cli.demo.failover.judge import Figures, Verdict
from tenure.cli.demo.failover.setting import EXECUTIONS_PER_S, SCENARIOS, Pace
from tenure.cli.demo.happening import Happening, What
from tenure.plan import RTO_S, Budget

_WORDS = {
    What.WAITS: "stands by",
    What.KILLED: "KILLED with -9, right after it renewed its lease",
    What.FROZEN: "FROZEN by SIGSTOP, right after it renewed its lease",
    What.WOKEN: "WAKES UP, and sends the orders that it had ready",
    What.LEADS: "LEADS with token {token}",
    What.LOADED: "has loaded",
    What.WARMED: "is warm",
    What.ANSWERED: "is answered by the leader with token {token}",
    What.REFUSED: "is REFUSED by {worker}: token {token} < {highest}",
}
_PHASES = {
    "detect_s": "detect, N x H",
    "elect_s": "elect, seal",
    "load_s": "load",
    "warm_s": "warm",
    "discover_s": "discover",
}


def line(happening: Happening) -> str | None:
    """Return what to say of something that happened, or None if it is of no interest."""
    words = _WORDS.get(happening.what)
    if words is None:
        return None
    told = words.format(token=happening.token, **happening.more)
    return f"{SCENARIOS[happening.act - 1].name}: {happening.who} {told}"


def opening(pace: Pace) -> list[str]:
    """Return what is about to be played."""
    timing = pace.timing
    numbers = f"H = {pace.heartbeat_s:g} s, N = {timing.misses}, L = {timing.ttl_ns / 1e9:g} s"
    lines = [f"A leader falls, and the next one has {RTO_S * pace.factor:g} s. {numbers}; four stories at once."]
    if pace.factor != 1:
        lines.append(f"QUICK: every time is {pace.factor:g} of the design's, so this is a rehearsal and not the 30 s.")
    return lines


def report(verdict: Verdict) -> list[str]:
    """Return the table, and what follows from it."""
    figures = verdict.figures
    lines = ["", "Seconds without a leader, from the signal until workers and client have found the next one"]
    lines += _aligned(_table(verdict))
    lines += ["", f"What workers did of what was due meanwhile, {EXECUTIONS_PER_S} times a second by their last orders"]
    for one in figures:
        for worker in one.throughput:
            share = f"{worker.percent:5.1f} %  {worker.done} of {worker.due}"
            seconds = " ".join(map(str, worker.each_second))
            lines.append(f"  {one.scenario.name:<12} {worker.worker} {share}  each second: {seconds}")
    tried, accepted = sum(one.stale_tried for one in figures), sum(one.stale_accepted for one in figures)
    lines += ["", f"Stale orders: {tried} tried, {accepted} accepted"]
    return lines + [f"NOT SHOWN: {problem}" for problem in verdict.problems]


def _table(verdict: Verdict) -> list[list[str]]:
    pace = verdict.pace
    halves = [_Half(pace.cold, verdict, "cold"), _Half(pace.warm, verdict, "warm")]
    rows = [
        ["", "", "cold", "standby", "", "warm", "standby"],
        ["", *("plan", "killed", "frozen") * 2],
        ["until it is missed", *_cells(halves, lambda _: f"<= {pace.heartbeat_s:g}", lambda one: one.unnoticed_s)],
    ]
    for name, words in _PHASES.items():
        measured = attrgetter(f"measured.{name}")
        rows.append([words, *_cells(halves, partial(_planned, name), measured)])
    rows.append(["total", *_cells(halves, lambda plan: f"{plan.total_s:g}", lambda one: one.total_s)])
    limits = [cell for half in halves for cell in (f"{half.plan.total_s + pace.reserve_s:g}", "", "")]
    return [*rows, ["at most, with reserve", *limits]]


def _planned(name: str, plan: Budget) -> str:
    return f"{getattr(plan, name):g}"


class _Half(NamedTuple):
    plan: Budget
    verdict: Verdict
    standby: str

    def of(self, fault: str) -> Figures | None:
        found = [
            one for one in self.verdict.figures if (one.scenario.standby, one.scenario.fault) == (self.standby, fault)
        ]
        return found[0] if found else None


def _cells(
    halves: Sequence[_Half], planned: Callable[[Budget], str], measured: Callable[[Figures], float]
) -> list[str]:
    cells = list[str]()
    for half in halves:
        cells.append(planned(half.plan))
        for fault in ("killed", "frozen"):
            one = half.of(fault)
            cells.append("-" if one is None else f"{measured(one):.2f}")
    return cells


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = list[str]()
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(["  " + first.ljust(widths[0]), *cells]).rstrip())
    return lines
