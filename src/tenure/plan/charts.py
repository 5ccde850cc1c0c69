"""Pictures of a plan: where the time of a failover goes, and what a shorter timeout costs. Pure."""

import math
from collections.abc import Iterator, Sequence
from itertools import count, takewhile
from typing import Final

from tenure.plan.budget import Budget
from tenure.plan.drawing import BLUE, FAINT, GREY, INK, PARTS, RED, Anchor, Dot, Drawing, Line, Rect, Shape, Word
from tenure.plan.rate import Point
from tenure.plan.words import RAREST_PER_DAY, rate_in_words

_WIDTH: Final = 760
_LEFT, _RIGHT = 110, 730
_ROW: Final = 24
_CURVE_HEIGHT: Final = 260
_SOURCE_MAX: Final = 88  # letters of a line


def picture(  # noqa: PLR0913  (each by its name)
    budget: Budget,
    rto_s: float,
    unnoticed_s: float,
    *,
    points: Sequence[Point],
    chosen: Point,
    assumed: str,
) -> Drawing:
    """Return both, one below the other. ``assumed`` says where the pauses are from."""
    bars = list(_bars(budget, rto_s, unnoticed_s))
    top = 40 + _ROW * 8 + 30
    curve = list(_curve(points, chosen, top, assumed))
    title = (
        f"A failover takes {budget.total_s:g} s of an RTO of {rto_s:g} s: "
        + ", ".join(f"{name} {part_s:g} s" for name, part_s in budget.parts)
        + f". With N x H = {chosen.missed_s:g} s, {rate_in_words(chosen.rate.per_day)} for nothing."
    )
    return Drawing(_WIDTH, top + _CURVE_HEIGHT + 78, title, [*bars, *curve])


def _bars(budget: Budget, rto_s: float, unnoticed_s: float) -> Iterator[Shape]:
    longest_s = max(budget.total_s + unnoticed_s, rto_s) * 1.02
    scale = (_RIGHT - _LEFT) / longest_s
    yield Word(_LEFT, 24, f"Time without a leader: {budget.total_s:g} s of {rto_s:g} s", size=14)
    for second in _ticks(longest_s):
        x = _LEFT + second * scale
        yield Line([(x, 40), (x, 40 + _ROW * 7)], FAINT)
        yield Word(x, 40 + _ROW * 7 + 16, f"{second:g} s", GREY, Anchor.MIDDLE, 11)
    at_s, y = 0.0, 44.0
    for (name, part_s), colour in zip(budget.parts, PARTS, strict=True):
        yield Word(_LEFT - 8, y + 13, name, INK, Anchor.END)
        yield Rect(_LEFT + at_s * scale, y, max(part_s * scale, 1.0), _ROW - 6, colour)
        yield from _told(_LEFT + at_s * scale, _LEFT + (at_s + part_s) * scale, y + 13, f"{part_s:g} s")
        at_s += part_s
        y += _ROW
    yield Word(_LEFT - 8, y + 13, "total", INK, Anchor.END)
    yield Rect(_LEFT, y, budget.total_s * scale, _ROW - 6, INK if budget.total_s <= rto_s else RED)
    yield Rect(_LEFT + budget.total_s * scale, y + 5, unnoticed_s * scale, _ROW - 16, GREY)
    yield Word(_LEFT - 8, y + _ROW + 10, "RTO", RED, Anchor.END)
    x = _LEFT + rto_s * scale
    yield Line([(x, 40), (x, y + _ROW + 6)], RED, 2, dashed=True)
    note = f"{rto_s:g} s; the thin bar is up to one heartbeat until it is missed"
    is_late = x > (_LEFT + _RIGHT) / 2  # Beside the line, where there is room.
    yield Word(x - 6 if is_late else x + 6, y + _ROW + 10, note, RED, Anchor.END if is_late else Anchor.START, 11)


def _told(from_x: float, to_x: float, y: float, text: str) -> Iterator[Shape]:
    """A word beside a bar: behind it, or before it where the page ends."""
    width = 7.5 * len(text) + 6
    if to_x + width <= _RIGHT:
        yield Word(to_x + 6, y, text)
    else:
        yield Word(from_x - 6, y, text, anchor=Anchor.END)


def _curve(points: Sequence[Point], chosen: Point, top: float, assumed: str) -> Iterator[Shape]:
    yield Word(_LEFT, top, "False failovers against N x H", size=14)
    source = assumed if len(assumed) <= _SOURCE_MAX else f"{assumed[: _SOURCE_MAX - 3]}..."
    yield Word(_LEFT, top + 18, f"by {source}", GREY, size=11)
    drawn = [point for point in points if point.rate.per_day >= RAREST_PER_DAY]
    upper, lower = top + 34, top + 34 + _CURVE_HEIGHT
    if not drawn:
        yield Word(_LEFT, upper + 20, f"all of it is rarer than {rate_in_words(RAREST_PER_DAY)}", GREY)
        return
    decades = _decades(drawn)
    from_s, to_s = points[0].missed_s, points[-1].missed_s

    def place(missed_s: float, per_day: float) -> tuple[float, float]:
        across = math.log(missed_s / from_s) / math.log(to_s / from_s)
        up = (math.log10(max(per_day, RAREST_PER_DAY)) - decades[0]) / (decades[-1] - decades[0])
        return _LEFT + across * (_RIGHT - _LEFT), lower - up * _CURVE_HEIGHT

    for decade in decades:
        _, y = place(from_s, 10.0**decade)
        yield Line([(_LEFT, y), (_RIGHT, y)], FAINT)
        yield Word(_LEFT - 6, y + 4, rate_in_words(10.0**decade), GREY, Anchor.END, 11)
    for seconds in _log_ticks(from_s, to_s):
        x, _ = place(seconds, 1.0)
        yield Line([(x, upper), (x, lower)], FAINT)
        yield Word(x, lower + 16, f"{seconds:g} s", GREY, Anchor.MIDDLE, 11)
    yield Word((_LEFT + _RIGHT) / 2, lower + 34, "N x H", GREY, Anchor.MIDDLE, 11)
    yield Line([place(point.missed_s, point.rate.per_day) for point in drawn], BLUE, 2)
    x, y = place(chosen.missed_s, chosen.rate.per_day)
    yield Line([(x, y), (x, lower)], RED, 1, dashed=True)
    yield Dot(x, y, 5, RED)
    words = f"{chosen.missed_s:g} s: {rate_in_words(chosen.rate.per_day)}"
    yield Word(x + 9, max(y - 6, upper + 12), words, RED)


def _decades(points: Sequence[Point]) -> range:
    rates = [point.rate.per_day for point in points]
    lowest, highest = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    return range(lowest, max(highest, lowest + 1) + 1)


def _ticks(longest_s: float) -> Iterator[float]:
    step_s = next(step for step in _round_numbers() if longest_s / step <= 10)  # noqa: PLR2004  (more are not read)
    for number in range(int(longest_s / step_s) + 1):
        yield round(number * step_s, 6)


def _round_numbers() -> Iterator[float]:
    """Without an end: how long an RTO may be is for others to say."""
    for power in count(-3):
        for digit in (1, 2, 5):
            yield digit * 10.0**power


def _log_ticks(from_s: float, to_s: float) -> Iterator[float]:
    for number in takewhile(lambda number: number <= to_s * 1.0001, _round_numbers()):
        if from_s <= number * 1.0001:
            yield round(number, 6)
