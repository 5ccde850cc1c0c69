"""How long a comparison of all ways to elect takes, on two cores: 1,000 seeds of each under each fault."""

import resource
import time

from rows import Figures, exactly, told

from tenure.lab.approaches.arena import APPROACHES
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, count
from tenure.lab.approaches.tables import broken_promises

SEEDS = 1000
JOBS = 2


def figures() -> Figures:
    began, busy_s = time.perf_counter(), _children_s()
    cells = list(count(list(APPROACHES), [*COLUMNS, PARTED], range(SEEDS), JOBS))
    elapsed_s = time.perf_counter() - began
    yield "tenure lab compare, 1,000 seeds a cell on two cores", elapsed_s, 60, "s", False
    busy_s = _children_s() - busy_s
    yield told("processor time of that", busy_s, "s", f"{busy_s / JOBS:.0f} s on each core, if nobody else wants it")
    yield told("cells of that table", len(cells), "", f"{len(cells) * SEEDS / elapsed_s:.0f} worlds a second")
    yield exactly("promises that it found broken", len(broken_promises(cells)), 0)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
