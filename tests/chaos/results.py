"""What tests of zombies have counted, carried by their reports to the end of the run, and shown there."""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

_ROW, _LINE = "zombie matrix", "zombie line"
Record = Callable[[str, object], None]


class Cell(NamedTuple):
    """One store with one sink: stale writes that were tried, those that landed, and those that landed without a fence."""

    tried: int
    accepted: int
    accepted_without: int

    def __str__(self) -> str:
        return f"{self.tried}/{self.accepted} ({self.accepted_without})"


def record_row(record: Record, store: str, row: dict[str, Cell]) -> None:
    """Let the report of a test carry a row of the matrix; as text, which is how it comes back from another process."""
    record(_ROW, json.dumps([store, row]))


def record_line(record: Record, line: str) -> None:
    """Let the report of a test carry a line."""
    record(_LINE, line)


def shown(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return what all these properties tell, as lines."""
    found = [(name, str(value)) for name, value in properties]
    return [
        *_table([json.loads(value) for name, value in found if name == _ROW]),
        *(value for name, value in found if name == _LINE),
    ]


def _table(rows: list[tuple[str, dict[str, list[int]]]]) -> list[str]:
    if not rows:
        return []
    sinks = list(rows[0][1])
    lines = [["store \\ sink", *sinks]]
    lines += [[store, *(str(Cell(*row[sink])) for sink in sinks)] for store, row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    return ["stale writes tried/accepted (accepted without a fence)", *aligned]
