"""A plan's two pictures on a terminal: where the time goes, and what a shorter timeout costs. Pure: lines of text."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tenure.plan.budget import Budget
from tenure.plan.rate import Point
from tenure.plan.words import RAREST_PER_DAY, rate_in_words

_LABEL: Final = 16  # letters before a picture, unless a number needs more
_NAME: Final = 9
_ROWS: Final = 11


class Marks(NamedTuple):
    """What is drawn with."""

    bar: str
    reserve: str
    limit: str
    curve: str
    chosen: str
    axis: str
    corner: str
    below: str


BLOCKS: Final = Marks("█", "░", "┊", "•", "◆", "│", "└", "─")
ASCII: Final = Marks("#", ".", "|", "*", "@", "|", "+", "-")


def bars(budget: Budget, rto_s: float, unnoticed_s: float, width: int, marks: Marks) -> list[str]:
    """Return one line for each part, one after the other in time, and one for all of them beside the RTO."""
    told_s = [f"{part_s:.3g} s" for _, part_s in budget.parts]
    total = f"{budget.total_s:.4g} s"
    # All lines begin with as many letters as the longest needs: 0.375 s and 1.2e+03 s have more than most numbers.
    before = max(_LABEL, _NAME + max(map(len, (*told_s, total))) + 1)
    room = max(10, width - before - 1)
    longest_s = max(budget.total_s + unnoticed_s, rto_s)
    limit = round(rto_s / longest_s * room)

    def cell(at_s: float) -> int:
        return round(at_s / longest_s * room)

    def line(name: str, told: str, drawn: str) -> str:
        cells = drawn.ljust(room + 1)
        cells = cells[:limit] + marks.limit + cells[limit + 1 :] if cells[limit] == " " else cells
        return f"{name:<{_NAME}}{told:>{before - _NAME - 1}} {cells}".rstrip()

    lines, at_s = [], 0.0
    for (name, part_s), told in zip(budget.parts, told_s, strict=True):
        begin = cell(at_s)
        at_s += part_s
        length = max(cell(at_s) - begin, 1 if part_s else 0)
        lines.append(line(name, told, " " * begin + marks.bar * length))
    end = cell(budget.total_s)
    reserve = marks.reserve * (cell(budget.total_s + unnoticed_s) - end)
    lines.append(line("total", total, marks.bar * end + reserve))
    words = f"RTO {rto_s:g} s"
    lines.append(" " * (before + max(0, min(limit + 1 - len(words), room))) + words)
    return lines


def curve(points: Sequence[Point], chosen: Point, width: int, marks: Marks) -> list[str]:
    """Return false failovers against N x H, both by powers of ten, with the chosen point."""
    shown = [point for point in points if point.rate.per_day >= RAREST_PER_DAY]
    if not shown:
        return [
            f"nowhere from {points[0].missed_s:.3g} s to {points[-1].missed_s:.3g} s more often than {rate_in_words(RAREST_PER_DAY)}"
        ]
    rates = [math.log10(point.rate.per_day) for point in shown]
    top, bottom = max(rates), min(rates)
    if top - bottom < 0.1:  # noqa: PLR2004  (a level line: it needs some height all the same)
        top, bottom = top + 0.5, bottom - 0.5
    labels = [
        rate_in_words(10 ** (top - (top - bottom) * number / (_ROWS - 1))) if number % 2 == 0 else ""
        for number in range(_ROWS)
    ]
    before = max(_LABEL, max(map(len, labels)) + 2)
    room = max(20, width - before - 1)
    from_s, to_s = math.log(points[0].missed_s), math.log(points[-1].missed_s)

    def column(missed_s: float) -> int:
        return round((math.log(missed_s) - from_s) / (to_s - from_s) * (room - 1))

    def row(per_day: float) -> int:
        height = (math.log10(max(per_day, 10**bottom)) - bottom) / (top - bottom)
        return round((1 - height) * (_ROWS - 1))

    cells = [[" "] * room for _ in range(_ROWS)]
    for point in shown:
        cells[row(point.rate.per_day)][column(point.missed_s)] = marks.curve
    cells[row(chosen.rate.per_day)][column(chosen.missed_s)] = marks.chosen
    lines = [
        f"{label:>{before - 2}} {marks.axis}{''.join(line)}".rstrip() for label, line in zip(labels, cells, strict=True)
    ]
    lines.append(" " * (before - 1) + marks.corner + marks.below * room)
    scale = [" "] * room
    for missed_s in (points[0].missed_s, chosen.missed_s, points[-1].missed_s):
        words = f"{missed_s:.3g} s"
        at = max(0, min(column(missed_s) - len(words) // 2, room - len(words)))
        scale[at : at + len(words)] = words
    lines.append(" " * before + "".join(scale).rstrip())
    return lines
