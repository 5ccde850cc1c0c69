"""The checkers of the approaches: each sees what it should and nothing else, and a blind one would be found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tenure.lab.approaches.arena import find, play
from tenure.lab.approaches.cast import SETTLED_NS
from tenure.lab.approaches.checkers import CHECKERS, History, check, exclusion, redone, stale, stuck, twice
from tenure.lab.approaches.machines import Machine
from tenure.lab.approaches.node import Candidate
from tenure.lab.approaches.sink import OWN
from tenure.lab.faults import Plan
from tenure.lab.world import Entry
from tenure.model import Token
from tenure.sim.reading import Finding
from tenure.sinks.fence import Fence

A, B = 0, 1
PLAN = Plan(seed=0, nodes=9, heal_at=100, end_at=100 + 8 * SETTLED_NS)
LATE = PLAN.heal_at + SETTLED_NS + 1
Checker = Callable[[History, Plan], Finding]


def told(*lines: tuple[str, int, int, object]) -> History:
    """Make a history: kind, who, number, detail, an instant each."""
    return [Entry(at, kind, who, number, detail) for at, (kind, who, number, detail) in enumerate(lines)]


LEADS_A, LEADS_B = ("leads", A, 1, 1), ("leads", B, 2, 2)
BEGAN_A, BEGAN_B = ("began", A, 1, 1), ("began", B, 2, 2)
TAKEN_A, TAKEN_B = ("accepted", A, 1, (1, 1)), ("accepted", B, 2, (2, 2))
PAUSED_A, RESUMED_A, CRASHED_A = ("paused", A, 0, ""), ("resumed", A, 0, ""), ("crashed", A, 1, "")
WROTE_A, DROPPED_A = ("wrote", A, 1, 1), ("dropped", A, 1, 1)
PROGRESS = [Entry(LATE, "accepted", A, 1, (9, 1))]

# Checker, what happened, whether that is a violation.
CASES: list[tuple[Checker, History, bool]] = [
    (exclusion, told(BEGAN_A, BEGAN_B), True),
    (exclusion, told(BEGAN_A, WROTE_A, BEGAN_B), False),
    (exclusion, told(BEGAN_A, DROPPED_A, BEGAN_B), False),
    (exclusion, told(BEGAN_A, CRASHED_A, BEGAN_B), False),
    (exclusion, told(BEGAN_A, PAUSED_A, BEGAN_B), False),
    (exclusion, told(BEGAN_A, PAUSED_A, BEGAN_B, RESUMED_A), True),
    (exclusion, told(BEGAN_A, PAUSED_A, BEGAN_B, CRASHED_A, RESUMED_A), False),
    (exclusion, told(PAUSED_A, BEGAN_B, RESUMED_A), False),
    (exclusion, told(BEGAN_A, BEGAN_A), False),
    (stale, told(LEADS_A, TAKEN_A, LEADS_B, TAKEN_B), False),
    (stale, told(LEADS_A, TAKEN_A, LEADS_B, TAKEN_B, TAKEN_A), True),
    (stale, told(LEADS_A, LEADS_B, TAKEN_A), True),
    (stale, told(LEADS_B, LEADS_A, TAKEN_B), False),
    (stale, told(LEADS_B, LEADS_A, TAKEN_A), True),
    (twice, told(TAKEN_A, TAKEN_B), False),
    (twice, told(TAKEN_A, ("accepted", B, 2, (1, 2))), True),
    (twice, told(TAKEN_A, TAKEN_A), True),
    (redone, told(BEGAN_A, BEGAN_B), False),
    (redone, told(BEGAN_A, ("began", B, 2, 1)), True),
    (redone, told(BEGAN_A, BEGAN_A), False),
    (stuck, PROGRESS, False),
    (stuck, [], True),
    (stuck, told(TAKEN_A, TAKEN_B), True),
    (stuck, [Entry(LATE, "began", A, 1, 9)], True),
]


@pytest.mark.parametrize(("checker", "history", "broken"), CASES)
def test_a_checker_sees_what_it_should(checker: Checker, history: History, broken: bool) -> None:
    assert (checker(history, PLAN) is not None) is broken


def _only(kinds: set[str], checker: Checker) -> Checker:
    """A checker that does not see entries of other kinds."""
    return lambda history, plan: checker([entry for entry in history if entry.kind in kinds], plan)


def _never(_: History, __: Plan) -> Finding:
    return None


# A checker that was broken, and which one it was.
BLIND: list[tuple[Checker, Checker]] = [
    *((_never, checker) for checker in CHECKERS.values()),
    (_only({"began"}, exclusion), exclusion),
    (_only({"began", "wrote", "dropped", "crashed", "paused"}, exclusion), exclusion),
    (_only({"began", "wrote", "dropped", "paused", "resumed"}, exclusion), exclusion),
    (_only({"began", "wrote", "crashed", "paused", "resumed"}, exclusion), exclusion),
    (_only({"accepted"}, stale), stale),
    (_only({"leads"}, stale), stale),
    (_only({"began"}, twice), twice),
    (_only({"accepted"}, redone), redone),
    (lambda history, _: None if history else (0, ""), stuck),
]


@pytest.mark.parametrize(("blind", "checker"), BLIND)
def test_a_blind_checker_is_found(blind: Checker, checker: Checker) -> None:
    mine = [(history, broken) for one, history, broken in CASES if one is checker]
    assert any((blind(history, PLAN) is not None) is not broken for history, broken in mine)


def test_every_checker_has_cases_of_both_kinds() -> None:
    seen = {(checker, broken) for checker, _, broken in CASES}
    assert seen == {(checker, broken) for checker in CHECKERS.values() for broken in (True, False)}


class _Open(Fence):
    """A fence that lets everybody in."""

    def admit(self, token: Token) -> None:
        self.highest = token


def test_a_fence_that_is_open_is_found() -> None:
    broken = [play(find("tenure"), seed, ("pause",), OWN, _Open) for seed in range(100)]
    found = [violation for run in broken for violation in check(run.history, run.plan)]
    assert any(violation.checker == "stale" for violation in found)


class _Usurper(Machine):
    """Leads, and asks nobody."""

    __slots__ = ()

    def start(self, now: int) -> None:  # noqa: ARG002
        self.lead()


class _Sleeper(Machine):
    """Never leads."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("kind", "checkers"), [(_Usurper, {"exclusion", "stale", "twice", "redone"}), (_Sleeper, {"stuck"})]
)
def test_an_approach_that_does_not_elect_is_found_without_any_fault(kind: type[Machine], checkers: set[str]) -> None:

    approach = replace(find("bully"), candidate=lambda world, number: Candidate(world, number, kind))
    run = play(approach, 0, ())
    assert {violation.checker for violation in check(run.history, run.plan)} == checkers
