"""A comparison as text and as JSON: approach by fault, what was broken in how many of a thousand seeds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.lab.approaches.arena import APPROACHES
from tenure.lab.approaches.counting import PARTED, Cell
from tenure.lab.approaches.parting import SIDES
from tenure.lab.approaches.sink import FENCES, OFF

# Checker → what its table is called.
TITLES: Final = {
    "exclusion": "two were at work at once",
    "stale": "the sink took a stale write",
    "twice": "the sink took one task twice",
    "redone": "two worked on one task, one after the other or at once",
    "stuck": "nobody gets anything done in the end",
}
PER: Final = 1000


def per_thousand(count: int, seeds: int) -> str:
    """Return a count as seeds of a thousand. What has happened at all is never shown as nothing."""
    rounded = round(count * PER / seeds)
    return "<1" if count and not rounded else str(rounded)


def cell_text(cell: Cell, checker: str) -> str:
    """Return what stands in a table: one number, or without a fence / with its own number / with a number of the sink."""
    shown = [per_thousand(cell.of(checker, fence), cell.seeds) for fence in FENCES]
    return shown[0] if len(set(shown)) == 1 else "/".join(shown)


def tables(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the lines of all tables."""
    yield f"{cells[0].seeds} seeds a cell, one kind of fault in each. Of {PER} seeds, in how many …"
    yield "(a / b / c: without a fence, with the number of the approach, with a number that the sink gives out)"
    for checker, title in TITLES.items():
        yield ""
        yield f"… {title} ({checker})"
        yield from table(cells, checker)
    if any(cell.fault == PARTED for cell in cells):
        yield ""
        yield "… during a long partition, which side answers"
        yield from table(cells, PARTED)


def table(cells: Sequence[Cell], what: str) -> Iterator[str]:
    """Yield the lines of one table: of a checker, or who answers during a partition."""
    found = {(cell.approach, cell.fault): cell for cell in cells}
    rows = list(dict.fromkeys(cell.approach for cell in cells))
    if what == PARTED:
        yield from aligned([["", *SIDES], *([row, *_sides(found[row, PARTED])] for row in rows)])
        return
    columns = list(dict.fromkeys(cell.fault for cell in cells if cell.fault != PARTED))
    lines = [[row, *(cell_text(found[row, column], what) for column in columns)] for row in rows]
    yield from aligned([["", *columns], *lines])


def _sides(cell: Cell) -> list[str]:
    return [per_thousand(cell.counts["", side], cell.seeds) for side in SIDES]


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of cells as columns: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        yield "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()


def as_object(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON shows it: how many seeds, and not of a thousand."""
    if cell.fault == PARTED:
        answered: dict[str, Any] = {side: cell.counts["", side] for side in SIDES}
    else:
        answered = {fence: {checker: cell.of(checker, fence) for checker in TITLES} for fence in FENCES}
    return {"approach": cell.approach, "fault": cell.fault, "seeds": cell.seeds, "counts": answered}


def of_object(told: Mapping[str, Any]) -> Cell:
    """Return the cell that ``as_object`` made this of."""
    counts = told["counts"]
    if told["fault"] == PARTED:
        found = Counter({("", side): number for side, number in counts.items()})
    else:
        found = Counter(
            {(fence, checker): number for fence, by in counts.items() for checker, number in by.items() if number}
        )
    return Cell(told["approach"], told["fault"], told["seeds"], found)


def broken_promises(cells: Sequence[Cell]) -> list[str]:
    """Return what was promised and is not so: of every approach without faults, and of ours under any."""
    found = []
    for cell in cells:
        if cell.fault == PARTED:
            continue
        ours = cell.approach == "tenure"
        for checker in TITLES:
            for fence in FENCES:
                quiet = cell.fault == "none"
                promised = quiet or (ours and ((checker == "stale" and fence != OFF) or checker == "stuck"))
                if promised and cell.of(checker, fence):
                    found.append(f"{cell.approach}, {cell.fault}, fence {fence}: {TITLES[checker]}")
    return found


def legend() -> Iterator[str]:
    """Yield what each approach is, a line each."""
    width = max(map(len, APPROACHES))
    yield from (f"{approach.name.ljust(width)}  {approach.what}" for approach in APPROACHES.values())
