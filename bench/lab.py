"""How many elections of Raft the laboratory holds in a second on one core, and whether any of ten thousand seeds breaks a promise.

An election is a whole trial of figure 16, in a world of its own.
"""

import os
import time

from rows import Figures, exactly

from tenure.lab.raft.figure16 import trial
from tenure.lab.raft.seeds import Options, judge_seeds

_TRIALS, _SEEDS = 4000, 10_000


def figures() -> Figures:
    """The rows for run.py."""
    began = time.process_time()
    times_ms = [trial(150, 300, seed) for seed in range(_TRIALS)]
    elapsed_s = time.process_time() - began
    assert max(times_ms) < 12_000, "a trial had no leader: that is no election"
    yield "Raft lab: elections a second and core, five servers, 150-300 ms", _TRIALS / elapsed_s, 2000, "/s", True
    seed_count = violation_count = 0
    for outcome in judge_seeds(0, _SEEDS, len(os.sched_getaffinity(0)), Options()):
        seed_count += 1
        violation_count += len(outcome.violations)
    yield exactly("seeds of Raft with faults that were judged", seed_count, _SEEDS)
    yield exactly("    violations of its promises in all of them", violation_count, 0)
