"""Pictures of the laboratory: curves in SVG by a few lines of our own, and spreads as text for a terminal.

Colours are told apart by those who see none of red and green as well (Okabe and Ito), every line also by its dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Final
from xml.sax.saxutils import escape

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES: Final = ("", "7 3", "2 2", "9 3 2 3", "4 4", "1 3")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 300, 64, 40, 150, 44
_POINTS: Final = 120  # of a curve: more cannot be seen


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: shares of trials from 0 to 1 over time in ms, on a logarithmic scale."""

    title: str
    curves: Sequence[tuple[str, Sequence[float]]]  # name, and values in rising order
    low: float
    high: float


def cdf_svg(panels: Sequence[Panel], title: str) -> str:
    """Return the picture of several panels, one below the other: for each time, the share that was done by then."""
    height = _HEIGHT * len(panels)
    parts = [
        svg_head(_WIDTH, height, title),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate(0 {number * _HEIGHT})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def svg_head(width: int, height: int, title: str) -> str:
    """Return the first lines of a picture, with its title for those who cannot see it."""
    size = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{escape(title)}</title>'


def _panel(panel: Panel) -> list[str]:
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    span = log10(panel.high / panel.low)

    def x(value: float) -> float:
        return _LEFT + (right - _LEFT) * min(max(log10(max(value, panel.low) / panel.low) / span, 0), 1)

    def y(share: float) -> float:
        return floor - (floor - _TOP) * share

    parts = [f'<text x="{_LEFT}" y="24" font-size="14">{escape(panel.title)}</text>']
    for tick in _ticks(panel.low, panel.high):
        parts.append(f'<path d="M{x(tick):.1f} {_TOP}V{floor}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{floor + 18}" text-anchor="middle">{_time(tick)}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{_LEFT} {y(share):.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{floor + 36}" text-anchor="middle">time without a leader</text>')
    for number, (name, values) in enumerate(panel.curves):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        points = [f"M{x(values[0]):.1f} {y(0):.1f}"]
        for step in range(1, _POINTS + 1):
            rank = max(round(step / _POINTS * len(values)) - 1, 0)
            if values[rank] <= panel.high:  # What was given up has not been done at any time.
                points.append(f"L{x(values[rank]):.1f} {y((rank + 1) / len(values)):.1f}")
        line = f'stroke="{colour}" stroke-width="2" fill="none"' + (f' stroke-dasharray="{dash}"' if dash else "")
        parts.append(f'<path d="{"".join(points)}" {line}/>')
        at = _TOP + 12 + 20 * number
        parts.append(
            f'<path d="M{right + 12} {at}h28" {line}/><text x="{right + 46}" y="{at + 4}">{escape(name)}</text>'
        )
    return parts


def _ticks(low: float, high: float) -> list[float]:
    found = [base * 10.0**power for power in range(6) for base in (1, 2, 5)]
    return [tick for tick in found if low <= tick <= high]


def _time(value_ms: float) -> str:
    return f"{value_ms:g} ms" if value_ms < 1000 else f"{value_ms / 1000:g} s"  # noqa: PLR2004  (ms in a second)


def spreads(rows: Sequence[tuple[str, Sequence[float]]], low: float, high: float, width: int = 64) -> list[str]:
    """Return a line of text for each row: from its least to its greatest value, half of all between [ and ], | the median."""
    label = max(len(name) for name, _ in rows)
    span = log10(high / low)

    def column(value: float) -> int:
        return min(max(int(log10(max(value, low) / low) / span * (width - 1)), 0), width - 1)

    lines = []
    for name, values in rows:
        quartiles = [values[min(int(share * len(values)), len(values) - 1)] for share in (0, 0.25, 0.5, 0.75, 1)]
        least, lower, middle, upper, greatest = map(column, quartiles)
        cells = [" "] * width
        cells[least : greatest + 1] = "-" * (greatest + 1 - least)
        cells[lower : upper + 1] = "=" * (upper + 1 - lower)
        cells[lower], cells[upper] = "[", "]"
        cells[middle] = "|"
        lines.append(f"{name:>{label}}  {''.join(cells)}".rstrip())
    axis, named = [" "] * width, [" "] * (width + 8)
    for tick in _ticks(low, high):
        at, text = column(tick), _time(tick)
        axis[at] = "+"
        if all(cell == " " for cell in named[max(at - 1, 0) : at + len(text)]):
            named[at : at + len(text)] = text
    return [*lines, f"{'':>{label}}  {''.join(axis).rstrip()}", f"{'':>{label}}  {''.join(named).rstrip()}"]
