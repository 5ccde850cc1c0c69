"""How many seeds it takes to see the promise broken that each mutant breaks, and the table of it for the docs."""

from typing import Final

from tenure.lab.raft.mutants import MUTANTS, find
from tenure.lab.raft.seeds import Options, judge

SEEDS_MAX: Final = 500


def kill(name: str, seeds: int = SEEDS_MAX) -> int | None:
    """Return how many seeds it took the mutant's own checker to notice; None: it survived."""
    checker, options = find(name).checker, Options(mutant=name)
    for seed in range(seeds):
        if any(violation.checker == checker for violation in judge(seed, options).violations):
            return seed + 1
    return None


def row(name: str) -> str:
    """Return the line of the table about one mutant, made by running it."""
    mutant = find(name)
    return f"| `{name}` | {mutant.mistake} | `{mutant.checker}` | {kill(name) or 'survived'} |"


def table() -> str:
    """Return the table of all mutants in Markdown, made by running them."""
    return "\n".join(
        ["| mutant | what it does wrong | breaks | seeds needed |", "|---|---|---|---|", *map(row, MUTANTS)]
    )
