"""What a bench tells of: figures with a goal, lines without one, and figures that could not be measured.

Most figures have a goal on one side and are plain tuples: what, value, goal, unit, and whether the goal is the least that it
must be. Whatever zero would pass, though zero means that nothing was measured, has a goal on both sides: ``exactly``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Bound(Enum):
    """On which side of its goal a figure has to be."""

    AT_MOST = "<="
    AT_LEAST = ">="
    EXACTLY = "=="


@dataclass(frozen=True)
class Figure:
    """Something measured. ``note`` says what a reader must know to judge it."""

    what: str
    value: float
    goal: float | None  # None: there is none, and it stands beside one that has
    unit: str = ""
    bound: Bound = Bound.AT_MOST
    note: str = ""

    @property
    def reached(self) -> bool:
        if self.goal is None:
            return True
        match self.bound:
            case Bound.AT_MOST:
                return self.value <= self.goal
            case Bound.AT_LEAST:
                return self.value >= self.goal
            case Bound.EXACTLY:
                return self.value == self.goal

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return "no goal"
        return "reached" if self.reached else "MISSED"


@dataclass(frozen=True)
class NotMeasured:
    """A figure, or all of one kind, that this run has nothing to say about, and the reason."""

    what: str
    reason: str


Row = tuple[str, float, float, str, bool] | Figure | NotMeasured
Figures = Iterator[Row]


def exactly(what: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(what, value, goal, unit, Bound.EXACTLY)


def told(what: str, value: float, unit: str, note: str = "") -> Figure:
    """Make a line without a goal: what a figure beside it is to be read with."""
    return Figure(what, value, None, unit, note=note)


def figure_of(row: tuple[str, float, float, str, bool] | Figure) -> Figure:
    if isinstance(row, Figure):
        return row
    what, value, goal, unit, at_least = row
    return Figure(what, value, goal, unit, Bound.AT_LEAST if at_least else Bound.AT_MOST)


def table(rows: list[Figure | NotMeasured]) -> Iterator[str]:
    """Lay the rows out as lines, in their order; what stands below a row belongs to it."""
    width = max((len(row.what) for row in rows), default=0)
    yield f"{'figure':<{width}}  {'measured':>14}  {'goal':>14}"
    for row in rows:
        if isinstance(row, NotMeasured):
            yield f"{row.what:<{width}}  NOT MEASURED: {row.reason}"
            continue
        goal = f"{row.bound.value} {row.goal:>7g} {row.unit:<3}" if row.goal is not None else " " * 14
        yield f"{row.what:<{width}}  {row.value:>10.2f} {row.unit:<3}  {goal}  {row.verdict}"
        if row.note:
            yield f"    {row.note}"


def exit_code(rows: list[Figure | NotMeasured]) -> int:
    """Return 0 if every figure was measured and reached its goal, and there is one at all."""
    return 0 if rows and all(isinstance(row, Figure) and row.reached for row in rows) else 1
