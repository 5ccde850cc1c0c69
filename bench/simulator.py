"""How fast the simulator is: virtual time over real time with five candidates and all faults, on one core."""

import time
from collections.abc import Iterator

from tenure.sim.plan import Options
from tenure.sim.run import judge_seeds

SEEDS = 400


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    began = time.perf_counter()
    outcomes = list(judge_seeds(Options(0, candidates=5), SEEDS, jobs=1))
    elapsed_s = time.perf_counter() - began
    virtual_s = sum(outcome.virtual_ns for outcome in outcomes) / 1e9
    tenures = sum(outcome.tenure_count for outcome in outcomes)
    violations = sum(len(outcome.violations) for outcome in outcomes)
    yield "simulator, 5 candidates, checked: virtual / real time", virtual_s / elapsed_s, 5000, "x", True
    # A million in ten minutes on two cores is 833 a second on each.
    yield "simulator, 5 candidates, checked: tenures a second and core", tenures / elapsed_s, 833, "/s", True
    yield "violations in that run", violations, 0, "", False
