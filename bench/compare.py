"""How long a comparison of all ways to elect takes, on two cores: 1,000 seeds of each under each fault."""

import time

from rows import Figures, exactly, told

from tenure.lab.approaches.arena import APPROACHES
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, count
from tenure.lab.approaches.tables import broken_promises

SEEDS = 1000
JOBS = 2


def figures() -> Figures:
    began = time.perf_counter()
    cells = list(count(list(APPROACHES), [*COLUMNS, PARTED], range(SEEDS), JOBS))
    elapsed_s = time.perf_counter() - began
    yield "tenure lab compare, 1,000 seeds a cell on two cores", elapsed_s, 60, "s", False
    yield told("cells of that table", len(cells), "", f"{len(cells) * SEEDS / elapsed_s:.0f} worlds a second")
    yield exactly("promises that it found broken", len(broken_promises(cells)), 0)
