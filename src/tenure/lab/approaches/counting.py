"""How often an approach breaks what, over many seeds: with each kind of fence, and on several cores."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tenure.errors import ConfigError
from tenure.lab.approaches.arena import Approach, find, play
from tenure.lab.approaches.checkers import CHECKERS, check
from tenure.lab.approaches.parting import answers
from tenure.lab.approaches.sink import FENCES, OFF
from tenure.lab.faults import SEED_MAX
from tenure.sim.checkers import Violation
from tenure.sim.cores import on_cores

CHUNK_SEEDS: Final = 50  # About a tenth of a second: little is lost at the end, when one core has nothing left.
SEEDS_MAX: Final = 1_000_000
PARTED: Final = "parted"  # instead of a fault: one long partition, and who answers on which side of it


class Part(NamedTuple):
    """A piece of the work: some seeds of one cell."""

    approach: str
    fault: str
    seeds: range


@dataclass(frozen=True, slots=True)
class Cell:
    """One approach under one fault: in how many seeds what was broken, by fence and checker; or who answered, by side."""

    approach: str
    fault: str
    seeds: int
    counts: Counter[tuple[str, str]]

    def of(self, checker: str, fence: str = OFF) -> int:
        return self.counts[fence, checker]


def verdicts(approach: Approach, seed: int, faults: Collection[str]) -> dict[str, list[Violation]]:
    """Return what is broken with each fence. A fence that refuses nothing changes nothing, and is not played again."""
    bare = play(approach, seed, faults)
    found = {OFF: check(bare.history, bare.plan)}
    for fence in FENCES[1:]:
        if fence in bare.would_refuse:
            fenced = play(approach, seed, faults, fence)
            found[fence] = check(fenced.history, fenced.plan)
        else:
            found[fence] = found[OFF]
    return found


def count_part(part: Part) -> list[Cell]:
    """Count one piece."""
    approach, counts = find(part.approach), Counter[tuple[str, str]]()
    if part.fault == PARTED:
        for seed in part.seeds:
            counts["", answers(approach, seed)] += 1
    else:
        faults = faults_of(part.fault)
        for seed in part.seeds:
            for fence, found in verdicts(approach, seed, faults).items():
                counts.update((fence, violation.checker) for violation in found)
    return [Cell(part.approach, part.fault, len(part.seeds), counts)]


def faults_of(column: str) -> tuple[str, ...]:
    """Return the faults of a column: several are joined by a plus sign."""
    return () if column == "none" else tuple(column.split("+"))


def count(approaches: Sequence[str], columns: Sequence[str], seeds: range, jobs: int) -> Iterator[Cell]:
    """Yield the cells of a table, row by row. How many cores there are changes nothing but the time that it takes."""
    parts = [
        Part(approach, column, seeds[at : at + CHUNK_SEEDS])
        for approach in approaches
        for column in columns
        for at in range(0, len(seeds), CHUNK_SEEDS)
    ]
    done = on_cores(count_part, parts, jobs) if jobs > 1 else (count_part(part)[0] for part in parts)
    whole: Cell | None = None
    for cell in done:
        if whole is None:
            whole = cell
        else:
            whole = Cell(cell.approach, cell.fault, whole.seeds + cell.seeds, whole.counts + cell.counts)
        if whole.seeds == len(seeds):
            yield whole
            whole = None


def check_seeds(first: int, seeds: int) -> range:
    """Return the seeds to play, or refuse."""
    if not 1 <= seeds <= SEEDS_MAX:
        raise ConfigError("--seeds", seeds, f"must lie between 1 and {SEEDS_MAX}")
    if not 0 <= first <= SEED_MAX - seeds:
        raise ConfigError("--first-seed", first, f"must lie between 0 and {SEED_MAX - seeds}")
    return range(first, first + seeds)


def smallest(approach: Approach, faults: Collection[str], fence: str, checker: str, seeds: range) -> int | None:
    """Return the first seed in which that is broken."""
    for seed in seeds:
        played = play(approach, seed, faults, fence)
        if CHECKERS[checker](played.history, played.plan) is not None:
            return seed
    return None
