"""A picture as values: rectangles, lines, dots and words on a white page. ``svg`` and ``png`` write it. Pure.

Both writers draw the same shapes. A word is ASCII, since the font of ``png`` is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

INK: Final = "#222222"
FAINT: Final = "#d8d8d8"
GREY: Final = "#666666"
RED: Final = "#b2182b"
BLUE: Final = "#2166ac"
# Told apart by people who do not see red and green as two (Okabe and Ito), and by their words in any case.
PARTS: Final = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7")


class Anchor(StrEnum):
    """Which end of a word stands at its point."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class Rect:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: Sequence[tuple[float, float]]
    colour: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class Word:
    """Text; ``y`` is its base line."""

    x: float
    y: float
    text: str
    colour: str = INK
    anchor: Anchor = Anchor.START
    size: float = 12.0


Shape = Rect | Line | Dot | Word


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes, the first at the bottom."""

    width: int
    height: int
    title: str  # what it shows, in words, for whoever cannot see it
    shapes: Sequence[Shape]
