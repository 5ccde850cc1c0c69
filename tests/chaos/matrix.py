"""What the rows of the matrix found, carried by the reports of the tests to the end of the run, and shown there."""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

PROPERTY = "zombie matrix"


class Cell(NamedTuple):
    """One store with one sink: stale writes that were tried, those that landed, and those that landed without a fence."""

    tried: int
    accepted: int
    accepted_without: int

    def __str__(self) -> str:
        return f"{self.tried}/{self.accepted} ({self.accepted_without})"


def record(record_property: Callable[[str, object], None], store: str, row: dict[str, Cell]) -> None:
    """Let the report of a test carry its row; as text, which is how it comes back from another process."""
    record_property(PROPERTY, json.dumps([store, row]))


def table(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return the lines that show all rows which are among these properties; none if there is none."""
    rows = [json.loads(str(value)) for name, value in properties if name == PROPERTY]
    if not rows:
        return []
    sinks = list(rows[0][1])
    lines = [["store \\ sink", *sinks]]
    lines += [[store, *(str(Cell(*row[sink])) for sink in sinks)] for store, row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return ["stale writes tried/accepted (accepted without a fence)", *shown]
