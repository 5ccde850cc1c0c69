"""How many elections of Raft the laboratory holds in a second on one core: whole trials of figure 16, each in a world of its own."""

import time

from rows import Figures

from tenure.lab.raft.figure16 import trial
from tenure.lab.raft.seeds import Options, judge_seeds

_TRIALS, _SEEDS = 4000, 200


def figures() -> Figures:
    """The rows for run.py."""
    began = time.process_time()
    times_ms = [trial(150, 300, seed) for seed in range(_TRIALS)]
    elapsed_s = time.process_time() - began
    assert max(times_ms) < 12_000, "a trial had no leader: that is no election"
    yield "Raft lab: elections a second and core, five servers, 150-300 ms", _TRIALS / elapsed_s, 2000, "/s", True
    outcomes = list(judge_seeds(0, _SEEDS, 1, Options()))
    yield (
        "violations of Raft's promises in 200 seeds with faults",
        sum(len(one.violations) for one in outcomes),
        0,
        "",
        False,
    )
