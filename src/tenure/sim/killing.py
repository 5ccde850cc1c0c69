"""How many seeds it takes to kill each mutant: the proof that the checkers notice, and its table for the docs."""

from typing import Final

from tenure.sim.mutants import MUTANTS, find
from tenure.sim.plan import Options
from tenure.sim.run import judge_seeds

SEEDS_MAX: Final = 500


class Survived(AssertionError):
    """A mutant that its checker did not notice: the checker is blind, or the seeds are tame."""

    def __init__(self, name: str, checker: str) -> None:
        self.name, self.checker = name, checker
        super().__init__(f"mutant {name} survived {SEEDS_MAX} seeds: {checker} did not notice")


def kill(name: str) -> int:
    """Return how many seeds it took the mutant's own checker to notice. Raises Survived."""
    checker = find(name).checker
    for outcome in judge_seeds(Options(0), SEEDS_MAX, 1, name):
        if any(violation.checker == checker for violation in outcome.violations):
            return outcome.seed + 1
    raise Survived(name, checker)


def row(name: str) -> str:
    """Return the line of the table about one mutant, made by running it."""
    mutant = find(name)
    return f"| `{mutant.name}` | {mutant.mistake} | `{mutant.checker}` | {kill(name)} |"


def table() -> str:
    """Return the table of all mutants in Markdown, made by running them."""
    head = ["| mutant | what it does wrong | killed by | seeds needed |", "|---|---|---|---|"]
    return "\n".join([*head, *map(row, MUTANTS)]) + "\n"
