"""Running seeds: one, or many on several cores, always with the same result for the same seeds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, takewhile
from typing import Final

from tenure.sim.checkers import OF_CLOCKS, Violation, check
from tenure.sim.cores import on_cores
from tenure.sim.history import History, Kind
from tenure.sim.mutants import find
from tenure.sim.plan import SEED_MAX, Options, Plan, draw
from tenure.sim.world import Parts, World

CHUNK_SEEDS: Final = 16  # About half a second of work: a progress bar that moves, and little time lost between chunks.
OVERLAP: Final = "one-valid-tenure"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed. ``overlap``: two tenures were valid at once, which broken clocks are allowed to cause."""

    seed: int
    tenure_count: int
    virtual_ns: int
    violations: tuple[Violation, ...]
    overlap: bool


def play(options: Options, mutant: str | None = None) -> tuple[Plan, History]:
    """Return the plan and the history of one seed."""
    plan = draw(options)
    return plan, World(plan, find(mutant).parts if mutant else Parts()).run()


def judge(options: Options, mutant: str | None = None) -> Outcome:
    """Play one seed and check its history."""
    plan, history = play(options, mutant)
    found = check(history, plan)
    overlap = any(violation.checker == OVERLAP for violation in found)
    if options.wild_clocks:
        # Clocks that break their bound break belief, and nothing else: that is what the mode is there to show.
        found = [violation for violation in found if violation.checker not in OF_CLOCKS]
    tenure_count = sum(entry.kind is Kind.BEGAN for entry in history)
    return Outcome(options.seed, tenure_count, plan.end_at, tuple(found), overlap)


def judge_chunk(chunk: tuple[Options, ...], mutant: str | None) -> list[Outcome]:
    """Judge several seeds in one go; the unit of work of a process."""
    return [judge(options, mutant) for options in chunk]


def judge_seeds(first: Options, seed_count: int | None, jobs: int, mutant: str | None = None) -> Iterator[Outcome]:
    """Yield the outcomes of ``seed_count`` seeds from ``first`` on, in order; None: for ever, until the caller stops."""
    seeds = takewhile(lambda seed: seed <= SEED_MAX, count(first.seed))
    options = (replace(first, seed=seed) for seed in islice(seeds, seed_count))
    chunks = iter(lambda: tuple(islice(options, CHUNK_SEEDS)), ())
    if jobs == 1:
        for chunk in chunks:
            for one in chunk:
                yield judge(one, mutant)
        return
    yield from on_cores(partial(judge_chunk, mutant=mutant), chunks, jobs)
