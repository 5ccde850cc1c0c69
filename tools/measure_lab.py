"""Measure the comparison of ways to elect anew: ``python tools/measure_lab.py``, about a minute on two cores.

It writes ``docs/explanation/ways-to-elect.json``, which is what ``tenure lab compare --json`` prints and a mark of how the first seeds of each
cell were played, and the picture beside it. ``make docs`` makes the tables of the pages of it. A test plays the first seeds again: if
the marks differ, the laboratory has changed, and what the pages say is old.
"""

import json
import sys
from pathlib import Path

from tenure.lab.approaches.arena import APPROACHES
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, count
from tenure.lab.approaches.drawing import comparison_picture
from tenure.lab.approaches.marking import mark
from tenure.lab.approaches.tables import as_object
from tenure.plan.svg import svg

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "explanation"
SEEDS = 1000
JOBS = 2


def main() -> int:
    """Write both files."""
    cells = list(count(list(APPROACHES), [*COLUMNS, PARTED], range(SEEDS), JOBS))
    told = [as_object(cell) | {"mark": mark(cell.approach, cell.fault)} for cell in cells]
    lines = ",\n".join(json.dumps(one) for one in told)
    (FOLDER / "ways-to-elect.json").write_text(f'{{"cells": [\n{lines}\n]}}\n', encoding="utf-8")
    (FOLDER / "ways-to-elect.svg").write_text(svg(comparison_picture(cells)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
