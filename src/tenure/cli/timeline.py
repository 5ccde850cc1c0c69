"""Tenures as bars on one line of time, for a terminal. Pure: lines of parts, each a text and its style.

The bars are true to scale but for what would be too short to see: a tenure, and a time without a leader, is one cell wide at
least.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from tenure.apps.history.told import Clocks, Span, TenureRecord
from tenure.cli.output import duration, shown

_BAR_MIN: Final = 10  # Narrower than this it shows nothing, and the other columns give way.
_HOLDER_MAX: Final = 24
_TENTHS_FROM_S: Final = 1.0


class Part(NamedTuple):
    """A text, and how it looks."""

    text: str
    style: str = ""


class Marks(NamedTuple):
    """What the parts of a bar are drawn with."""

    led: str
    perhaps: str  # it may have led, and vanished at an unknown time
    gap: str
    refused: str
    on: str  # it is in office


BLOCKS: Final = Marks("█", "▒", "·", "✗", "▶")
ASCII: Final = Marks("#", "?", ".", "x", ">")

Line = Sequence[Part]


def timeline(tenures: Sequence[TenureRecord], now_s: float, width: int, marks: Marks = BLOCKS) -> list[Line]:
    """Return one line for each tenure, and one with the time below them."""
    if not tenures:
        return []
    labels = [_label(tenure) for tenure in tenures]
    label_width = max(map(len, labels))
    columns = zip(*map(_facts, tenures), strict=True)
    facts = list(zip(*(column for column in columns if any(column)), strict=True))
    while facts[0] and width - label_width - 4 - _width(facts) < _BAR_MIN:
        facts = [line[:-1] for line in facts]
    widths = [max(len(cell) for cell in column) for column in zip(*facts, strict=True)]
    scale = _Scale(tenures, now_s, max(_BAR_MIN, width - label_width - 4 - _width(facts)))
    lines: list[Line] = []
    for number, tenure in enumerate(tenures):
        before = tenures[number - 1] if number else None
        cells = "  ".join(map(str.rjust, facts[number], widths))
        bar = scale.bar(before, tenure, marks)
        lines.append([Part(labels[number].ljust(label_width) + "  "), *bar, Part(f"  {cells}".rstrip())])
    lines.append([Part(" " * (label_width + 2)), Part(scale.legend(), "dim")])
    return lines


class _Scale:
    """Which instant is which cell."""

    def __init__(self, tenures: Sequence[TenureRecord], now_s: float, width: int) -> None:
        self._width, self._now_s = width, now_s
        self._from_s = min(tenure.began_s for tenure in tenures)
        self._to_s = max(self._from_s + 0.001, *(self.end_s(tenure) for tenure in tenures))

    def end_s(self, tenure: TenureRecord) -> float:
        """Return up to when a tenure may have lasted."""
        return max(tenure.began_s, _ended(tenure, self._now_s).most_s)

    def bar(self, before: TenureRecord | None, tenure: TenureRecord, marks: Marks) -> Line:
        """Return the bar of a tenure, with the time without a leader before it."""
        cells = [Part(" ")] * self._width
        began, ended = self._cell(tenure.began_s), _ended(tenure, self._now_s)
        if before is not None and not tenure.unrecorded:  # In between others led.
            free = self._cell(_ended(before, self._now_s).most_s)
            for cell in range(min(free, began - 1), began):
                cells[max(cell, 0)] = Part(marks.gap, "red")
        surely, at_most = self._cell(ended.least_s), self._cell(ended.most_s)
        for cell in range(began, max(began, at_most) + 1):
            cells[cell] = Part(marks.led, "green") if cell <= max(began, surely) else Part(marks.perhaps, "yellow")
        if tenure.in_office:
            cells[at_most] = Part(marks.on, "green")
        if tenure.refused_count:
            cells[max(began, at_most)] = Part(marks.refused, "bold red")
        return [
            Part("".join(part.text for part in run), style) for style, run in groupby(cells, lambda part: part.style)
        ]

    def legend(self) -> str:
        """Return when the first cell is and when the last one, as far as there is room."""
        first, latest = _clock(self._from_s, self._to_s), _clock(self._to_s, self._from_s)
        room = self._width - len(first) - len(latest)
        return first if room < 1 else first + " " * room + latest

    def _cell(self, at_s: float) -> int:
        share = (at_s - self._from_s) / (self._to_s - self._from_s)
        return min(self._width - 1, max(0, int(share * self._width)))


def _ended(tenure: TenureRecord, now_s: float) -> Span:
    """Return between which instants a tenure ended, for a picture."""
    if tenure.ended_between is not None:
        return tenure.ended_between
    at_s = now_s if tenure.ended_s is None else tenure.ended_s
    return Span(at_s, at_s, Clocks.ONE)


def brief(holder: str) -> str:
    """Return a holder without its nonce, which tells a person nothing, and of bounded length."""
    name = shown(holder.rpartition("/")[0] or holder)
    return name if len(name) <= _HOLDER_MAX else f"{name[: _HOLDER_MAX - 11]}…{name[-10:]}"


def _label(tenure: TenureRecord) -> str:
    return f"{tenure.token} {brief(tenure.holder)}"


def lasted(tenure: TenureRecord, now_s: float) -> str:
    """Return for how long a tenure lasted, in words for people."""
    if tenure.ended_between is not None:
        between = tenure.ended_between
        return span(Span(between.least_s - tenure.began_s, between.most_s - tenure.began_s, between.clocks))
    return seconds((now_s if tenure.ended_s is None else tenure.ended_s) - tenure.began_s)


def span(found: Span | None) -> str:
    """Return a span for people: 3.2s, or 1.0s to 3.2s."""
    if found is None:
        return "-"
    least, most = seconds(found.least_s), seconds(found.most_s)
    return most if least == most else f"{least} to {most}"


def seconds(value: float | None) -> str:
    """Return a duration for people; in milliseconds where tenths of a second would say nothing."""
    if value is None:
        return "-"
    return f"{max(0, round(value * 1000))}ms" if value < _TENTHS_FROM_S else duration(round(value * 1e9))


def why(tenure: TenureRecord) -> str:
    """Return how a tenure ended, in words for people."""
    said = [tenure.reason or "in office"]
    if tenure.overstay_s is not None:
        said.append(f"overstayed by {seconds(tenure.overstay_s)} or more")
    if tenure.refused_count:
        said.append(f"{tenure.refused_count} stale {'write' if tenure.refused_count == 1 else 'writes'} refused")
    return ", ".join(said)


def _facts(tenure: TenureRecord) -> list[str]:
    """Return what stands beside a bar, the most important first."""
    return [
        tenure.reason or "in office",
        f"{tenure.refused_count} refused" if tenure.refused_count else "",
        "" if tenure.overstay_s is None else f"overstay {seconds(tenure.overstay_s)}",
        "" if tenure.gap is None else f"gap {span(tenure.gap)}",
        "" if tenure.margin_min_s is None else f"margin {seconds(tenure.margin_min_s)}",
    ]


def _width(lines: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*lines, strict=True))


def instant(at_s: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return an instant in this machine's time, for people."""
    try:
        return datetime.fromtimestamp(at_s).astimezone().strftime(form)
    except (OverflowError, ValueError, OSError):  # A clock, or a hand, that wrote the year 300,000.
        return "-"


def _clock(at_s: float, other_s: float) -> str:
    """Return an instant, with its date if the other is on another day."""
    same_day = instant(at_s, "%x") == instant(other_s, "%x")
    return instant(at_s, "%H:%M:%S" if same_day else "%Y-%m-%d %H:%M")
