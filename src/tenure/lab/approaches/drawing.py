"""Pictures: one run as lanes along time, and a comparison as a field of colours. Values, which ``tenure.plan`` writes as SVG or PNG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.lab.approaches.arena import Approach, Played
from tenure.lab.approaches.cast import CANDIDATES
from tenure.lab.approaches.counting import PARTED, Cell
from tenure.lab.approaches.sink import OFF, OWN
from tenure.lab.approaches.tables import PER, per_thousand
from tenure.lab.approaches.telling import cut_in_words
from tenure.lab.faults import S, name_of
from tenure.lab.world import Entry
from tenure.plan.drawing import FAINT, RED, Anchor, Dot, Drawing, Line, Rect, Shape, Word

_WORKS, _LEADS, _AWAY, _PARTED, _NEVER = "#0072b2", "#b9d9ec", "#9a9a9a", "#f6ecd2", "#e8f3e8"
_LANE, _LEFT, _WIDE, _TOP = 40, 60, 860, 56
_LANES: Final = (*(name_of(number) for number in CANDIDATES), "sink")
_BOTTOM: Final = _TOP + len(_LANES) * _LANE
_STEPS_S: Final = (1, 2, 5, 10, 20, 50)
_TICKS_MAX: Final = 12
_CROSS: Final = 5


@dataclass(frozen=True, slots=True)
class _Axis:
    """Which part of a run is drawn, and where an instant of it stands."""

    since: int
    until: int

    def x(self, at: int) -> float:
        inside = min(max(at, self.since), self.until)
        return _LEFT + _WIDE * (inside - self.since) / (self.until - self.since)

    def bar(self, lane: int, span: tuple[int, int], colour: str, height: int) -> Rect:
        left, right = self.x(span[0]), self.x(span[1])
        return Rect(left, _TOP + lane * _LANE + (_LANE - height) / 2, max(right - left, 1.0), height, colour)


def run_picture(approach: Approach, played: Played, since: int = 0, until: int | None = None) -> Drawing:
    """Return one run: who led and worked when, what struck whom, and which writes the sink took."""
    end = until if until is not None else played.history[-1].at
    history = [entry for entry in played.history if entry.at <= end]
    axis = _Axis(since, max(end, since + S))
    title = f"{approach.name}, seed {played.plan.seed}: who led, who worked, and what the sink took"
    shapes = [
        Word(_LEFT, 18, f"{approach.name}: {approach.what}", size=14),
        *_faults(approach, played, axis),
        *_rails(),
        *_bars(history, axis, ("leads", "left", "crashed"), _LEADS, 26),
        *_bars(history, axis, ("began", "wrote", "dropped", "crashed"), _WORKS, 14),
        *_writes(history, axis),
        *_legend(axis),
    ]
    return Drawing(_LEFT + _WIDE + 20, _BOTTOM + 50, title, shapes)


def _faults(approach: Approach, played: Played, axis: _Axis) -> Iterator[Shape]:
    struck: dict[tuple[int, str], str] = {}  # when, and what → the servers that it struck
    for strike in played.plan.strikes:
        begin, end = strike.at, min(strike.at + strike.for_ns, played.plan.heal_at)
        if end < axis.since or begin > axis.until:
            continue
        if strike.kind in ("partition", "one-way"):
            sides = cut_in_words(strike.mask, approach)
            if sides:
                yield Rect(axis.x(begin), _TOP - 20, axis.x(end) - axis.x(begin), _BOTTOM - _TOP + 20, _PARTED)
                yield Word(axis.x(begin) + 3, _TOP - 7, sides)
        elif strike.who in CANDIDATES and strike.kind in ("pause", "crash"):
            yield axis.bar(strike.who, (begin, end), _AWAY, 34)
        elif strike.who - len(CANDIDATES) in range(len(approach.servers)) and begin >= axis.since:
            what = "dies" if strike.kind == "crash" else f"{strike.mask / S:+.0f} s"
            struck[begin, what] = struck.get((begin, what), "") + name_of(strike.who)
    for number, ((begin, what), names) in enumerate(struck.items()):
        yield Line([(axis.x(begin), _TOP - 4), (axis.x(begin), _BOTTOM)], RED, dashed=True)
        # In two rows: what happens soon after one another is read all the same.
        yield Word(axis.x(begin) + 3, _TOP - 7 - 14 * (number % 2), f"{names} {what}", RED)


def _rails() -> Iterator[Shape]:
    for lane, name in enumerate(_LANES):
        y = _TOP + lane * _LANE + _LANE / 2
        yield Line([(_LEFT, y), (_LEFT + _WIDE, y)], FAINT)
        yield Word(16, y + 4, name)


def _bars(history: list[Entry], axis: _Axis, kinds: Sequence[str], colour: str, height: int) -> Iterator[Shape]:
    """Yield a bar from each entry of the first kind to the next one, of the same candidate, of any other."""
    begins, *ends = kinds
    since: dict[int, int] = {}
    for entry in history:
        if entry.kind == begins:
            since[entry.who] = entry.at
        elif entry.kind in ends and entry.who in since:
            span = since.pop(entry.who), entry.at
            if span[1] >= axis.since:
                yield axis.bar(entry.who, span, colour, height)
    for who, at in since.items():
        yield axis.bar(who, (at, axis.until), colour, height)


def _writes(history: list[Entry], axis: _Axis) -> Iterator[Shape]:
    y = _TOP + len(CANDIDATES) * _LANE + _LANE / 2
    newest = 0
    for entry in history:
        if entry.kind == "leads":
            newest = max(newest, entry.number)
        if entry.at < axis.since or entry.kind not in ("accepted", "refused"):
            continue
        x = axis.x(entry.at)
        yield Word(x, y - 9, name_of(entry.who), anchor=Anchor.MIDDLE)
        if entry.kind == "refused":
            yield Line([(x - _CROSS, y - _CROSS), (x + _CROSS, y + _CROSS)], RED, 2)
            yield Line([(x - _CROSS, y + _CROSS), (x + _CROSS, y - _CROSS)], RED, 2)
        elif entry.number < newest:
            yield Dot(x, y, 6, RED)
        else:
            yield Dot(x, y, 4, _WORKS)


def _legend(axis: _Axis) -> Iterator[Shape]:
    span_s = (axis.until - axis.since) / S
    step = S * next((step_s for step_s in _STEPS_S if span_s / step_s <= _TICKS_MAX), 100)
    for at in range(-(-axis.since // step) * step, axis.until + 1, step):
        yield Word(axis.x(at), _BOTTOM + 14, f"{at // S} s", anchor=Anchor.MIDDLE)
    words = ((_LEADS, "leads"), (_WORKS, "works, and its write"), (_AWAY, "paused or dead"), (RED, "stale write taken"))
    for number, (colour, text) in enumerate(words):
        yield Rect(_LEFT + number * 180, _BOTTOM + 26, 12, 12, colour)
        yield Word(_LEFT + number * 180 + 18, _BOTTOM + 37, text)
    yield Word(_LEFT + 4 * 180, _BOTTOM + 37, "x  refused", RED)


_PANELS: Final = (
    ("two were at work at once", "exclusion", OFF),
    ("a stale write was taken, without a fence", "stale", OFF),
    ("a stale write was taken, with a fence", "stale", OWN),
    ("nobody gets anything done in the end", "stuck", OFF),
)
_CELL_WIDE, _CELL_TALL, _NAMES_WIDE = 78, 22, 120


def comparison_picture(cells: Sequence[Cell]) -> Drawing:
    """Return how often what was broken: approach by fault, in colours."""
    columns = list(dict.fromkeys(cell.fault for cell in cells if cell.fault != PARTED))
    rows = list(dict.fromkeys(cell.approach for cell in cells))
    found = {(cell.approach, cell.fault): cell for cell in cells}
    tall = 46 + _CELL_TALL * (len(rows) + 1)
    shapes: list[Shape] = [Word(14, 22, f"Of {PER} seeds with one kind of fault, in how many ...", size=14)]
    for number, (title, checker, fence) in enumerate(_PANELS):
        top = 40 + number * tall
        shapes.append(Word(14, top + 12, title))
        for at, column in enumerate(columns):
            middle = _NAMES_WIDE + at * _CELL_WIDE + _CELL_WIDE / 2
            shapes.append(Word(middle, top + 32, column, anchor=Anchor.MIDDLE))
            for line, row in enumerate(rows):
                y = top + 40 + line * _CELL_TALL
                cell = found[row, column]
                count = cell.of(checker, fence)
                shade = _shade(count / cell.seeds)
                shapes += [
                    Rect(_NAMES_WIDE + at * _CELL_WIDE, y, _CELL_WIDE - 2, _CELL_TALL - 2, shade),
                    Word(middle, y + 15, per_thousand(count, cell.seeds), anchor=Anchor.MIDDLE),
                ]
        shapes += [Word(14, top + 55 + line * _CELL_TALL, row) for line, row in enumerate(rows)]
    width = _NAMES_WIDE + _CELL_WIDE * len(columns) + 14
    return Drawing(width, 46 + tall * len(_PANELS), "Ways to elect under faults: violations per 1,000 seeds", shapes)


def _shade(share: float) -> str:
    """Return a colour: green for never, and red the deeper the more often. The root tells few from none."""
    depth = share**0.5
    return f"#ff{round(245 - 120 * depth):02x}{round(240 - 130 * depth):02x}" if share else _NEVER
