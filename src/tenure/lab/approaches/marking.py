"""A mark of how a cell of the comparison is played, by which a page knows that its figures are old.

A count changes only if a seed breaks what it did not before. A mark changes with anything that happens at another instant, so that a
few seeds are enough to see that a thousand would have to be counted anew.
"""

from hashlib import sha256
from typing import Final

from tenure.lab.approaches.arena import find, play
from tenure.lab.approaches.counting import PARTED, faults_of
from tenure.lab.approaches.parting import answers
from tenure.lab.approaches.sink import FENCES

SEEDS: Final = range(6)


def mark(approach: str, fault: str) -> str:
    """Return the mark of a cell, made by playing its first seeds with each fence."""
    if fault == PARTED:
        played = [answers(find(approach), seed) for seed in SEEDS]
    else:
        faults = faults_of(fault)
        runs = (play(find(approach), seed, faults, fence) for seed in SEEDS for fence in FENCES)
        played = [f"{entry.at} {entry.kind} {entry.who} {entry.number}" for run in runs for entry in run.history]
    return sha256("\n".join(played).encode()).hexdigest()[:16]
