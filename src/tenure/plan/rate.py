"""How many leaders a day lose the office though they live: what a shorter timeout costs. Pure.

It follows from the rules of the machine (``core/candidate.py``), with D = ttl x (1 - drift) - grace:

- Validity is dated from the send, and the body is told to stop D after the sending of the last renewal that was answered.
- While all is well a renewal is sent every H, and its answer comes r later.
- Time comes first: whoever wakes up when D has passed stops, also if an answer has come meanwhile.

A pause of length p begins u after a renewal was sent; u is uniform in [0, H). It costs the office

- if r <= u, so that this renewal was answered, iff u + p + r >= D: whoever wakes up renews at once, and that must be answered before D;
- if u < r, so that the answer had not come, iff u + p >= D - H: what counts is the renewal before it.

The rate of pauses longer than the one that is needed, averaged over u, is the rate of false failovers. Pauses are taken to be rare: that a
second one falls into the moment in which the first is made good is not counted.

An outage is not a pause: the process goes on and asks again and again, unheard, and the next attempt after the end of it is up to a heartbeat
away. It costs the office iff it lasts beyond the last attempt that could still be answered before D. Whatever was under way when it began is lost.

Answers that take too long cost the office by themselves iff none of the attempts that are made before D is answered by then. An attempt
that is silent is made again after ``Timing.answer_within_ns``; each answer is taken to be late by a lot of its own.
``tests/plan/test_rate_on_the_machine.py`` compares both with the machine itself, in virtual time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tenure.errors import ConfigError
from tenure.plan.delays import DAY_S, Pauses, RoundTrips
from tenure.timing import Timing

_STEPS: Final = 64  # into which a heartbeat is cut for the mean over u
_STEPS_OF_TRIP: Final = 8  # and the round trip at its begin
_LOTS: Final = 8  # how finely the spread of the time between attempts is looked at
_NEGLIGIBLE_PER_DAY: Final = 1e-9  # once in a million years or so
_CELLS_OF_HEARTBEAT: Final = 32  # and for the attempts
_CELLS_MAX: Final = 2048  # up to D, for those that are answered late
_FAILED_OFTEN: Final = 64  # Times between attempts have long ceased to double.
_SETTLED_AFTER: Final = 64
_ATTEMPT_MAX_NS: Final = 5_000_000_000  # as ``Timing.of`` has it


@dataclass(frozen=True, slots=True)
class Rate:
    """False failovers a day, by what they are due to."""

    pauses_per_day: float
    answers_per_day: float
    outages_per_day: float = 0.0

    @property
    def per_day(self) -> float:
        """All of them."""
        return self.pauses_per_day + self.answers_per_day + self.outages_per_day


def false_failovers(timing: Timing, pauses: Pauses, trips: RoundTrips, outages: Pauses | None = None) -> Rate:
    """Return how many failovers a day there are for nothing. ``outages`` are of the way to the store; None: there are none."""
    return Rate(
        pauses_per_day=lost_by_pauses(timing, pauses, trips.typical_s),
        answers_per_day=lost_by_answers(timing, trips),
        outages_per_day=0.0 if outages is None else lost_by_outages(timing, outages, trips.typical_s),
    )


def stop_after_s(timing: Timing) -> float:
    """Return D: how long after the sending of the last renewal that was answered the body is told to stop."""
    return (timing.valid_for_ns - timing.grace_ns) / 1e9


def needed_s(timing: Timing, trip_s: float, since_sent_s: float) -> float:
    """Return how long a pause has to be to cost the office, if it begins that long after a renewal was sent."""
    if since_sent_s < trip_s:
        return stop_after_s(timing) - timing.renew_every_ns / 1e9 - since_sent_s
    return stop_after_s(timing) - trip_s - since_sent_s


def lost_by_pauses(timing: Timing, pauses: Pauses, trip_s: float) -> float:
    """Return how many tenures a day are lost to pauses."""
    heartbeat_s = timing.renew_every_ns / 1e9
    early_s = min(trip_s, heartbeat_s)
    early = _integral(timing, pauses, trip_s, (0.0, early_s), _STEPS_OF_TRIP)
    return (early + _integral(timing, pauses, trip_s, (early_s, heartbeat_s), _STEPS)) / heartbeat_s


def _integral(timing: Timing, pauses: Pauses, trip_s: float, over: tuple[float, float], steps: int) -> float:
    width_s = (over[1] - over[0]) / steps
    starts = (over[0] + (step + 0.5) * width_s for step in range(steps))
    return sum(pauses.per_day(max(0.0, needed_s(timing, trip_s, start_s))) for start_s in starts) * width_s


def lost_by_outages(timing: Timing, outages: Pauses, trip_s: float) -> float:
    """Return how many tenures a day are lost to outages of the way to the store, on average over when each begins.

    One that begins in one cell of a heartbeat and has to last beyond an attempt in another is as long as these two are apart: so it is
    asked how many are so long for each distance, and not for each two.
    """
    heartbeat_s = timing.renew_every_ns / 1e9
    cell_s = heartbeat_s / _CELLS_OF_HEARTBEAT
    lasts = _last_attempts(timing, trip_s)
    first = min(lasts) - _CELLS_OF_HEARTBEAT + 1
    chances = [lasts.get(cell, 0.0) for cell in range(first, max(lasts) + _CELLS_OF_HEARTBEAT)]
    lost = 0.0
    for number in range(len(chances) - _CELLS_OF_HEARTBEAT + 1):
        # Begun in the middle of a cell, between two answers. A renewal may have been sent, but not answered, when it begins.
        apart_s = heartbeat_s - trip_s + (first + number - 0.5) * cell_s
        lost += sum(chances[number : number + _CELLS_OF_HEARTBEAT]) * outages.per_day(max(0.0, apart_s))
    return lost / _CELLS_OF_HEARTBEAT


def _last_attempts(timing: Timing, trip_s: float) -> dict[int, float]:
    """Return when the last attempt may be made that is answered before D, and how likely each is. All attempts before it are silent.

    In cells of a heartbeat after the first attempt. The times between attempts double up to a heartbeat, and have one spread from then
    on: it is the last attempt if it is made at all, and the next would be too late.
    """
    cell_s = timing.renew_every_ns / 1e9 / _CELLS_OF_HEARTBEAT
    end = max(1, math.ceil((stop_after_s(timing) - trip_s) / cell_s) - _CELLS_OF_HEARTBEAT)
    now, last, failed = {0: 1.0}, dict[int, float](), 0
    settled = _waits(timing, _FAILED_OFTEN)
    while now and (waits := _waits(timing, failed)) != settled:
        later = dict[int, float]()
        for cell, chance in now.items():
            for wait, share in waits:
                place, at = (last, cell) if cell + wait >= end else (later, cell + wait)
                place[at] = place.get(at, 0.0) + chance * share
        now, failed = later, failed + 1
    longest = settled[-1][0]
    # A power of two, so that one list serves all the points of a curve.
    made = _made(settled, min(_SETTLED_AFTER * longest, 1 << end.bit_length()))
    for cell in range(max(0, end - longest), end):
        here = sum(chance * made[min(cell - begun, len(made) - 1)] for begun, chance in now.items() if begun <= cell)
        last[cell] = last.get(cell, 0.0) + here * sum(share for wait, share in settled if cell + wait >= end)
    return last


def _waits(timing: Timing, failed: int) -> tuple[tuple[int, float], ...]:
    """Return after how many cells an attempt is made again, the soonest first, and how likely each is."""
    waits = dict[int, float]()
    for lot in range(_LOTS):
        wait = timing.answer_within_ns(failed, (lot + 0.5) / _LOTS) / timing.renew_every_ns * _CELLS_OF_HEARTBEAT
        wait = max(1.0, round(wait, 2))  # The same for all that differ by a nanosecond.
        sooner, later_share = int(wait), round(wait % 1, 2)
        for cells, share in ((sooner, 1 - later_share), (sooner + 1, later_share)):
            if share:
                waits[cells] = waits.get(cells, 0.0) + share / _LOTS
    return tuple(sorted(waits.items()))


@lru_cache(maxsize=32)
def _made(waits: tuple[tuple[int, float], ...], count: int) -> Sequence[float]:
    """Return how likely an attempt is made so many cells after another one, if each is followed by one after such a wait.

    After ``_SETTLED_AFTER`` waits that is the same for all cells, but for a ten-thousandth: nothing is left of when the first was made.
    """
    made = [1.0]
    for cell in range(1, count):
        made.append(sum(share * made[cell - wait] for wait, share in waits if wait <= cell))
    return made


def lost_by_answers(timing: Timing, trips: RoundTrips) -> float:
    """Return how many tenures a day are lost because no answer came in time, though nothing stood still.

    Backwards over the time since the last renewal that was answered, in cells: ``lost[i]`` is the chance that an attempt that is
    made in cell i and all after it are late, ``ends[i]`` when the attempt that is answered is made, on average.
    """
    heartbeat_s, end_s = timing.renew_every_ns / 1e9, stop_after_s(timing)
    at_most = _answers_lost_at_most(timing, trips)
    if at_most < _NEGLIGIBLE_PER_DAY:
        return at_most
    cell_s = max(heartbeat_s / _CELLS_OF_HEARTBEAT, end_s / _CELLS_MAX)
    first, count = round(heartbeat_s / cell_s), math.ceil(end_s / cell_s)
    # The first answer is waited for as long as any that follows no failure, those after it as after one.
    waits = [[timing.answer_within_ns(failed, (lot + 0.5) / _LOTS) / 1e9 for lot in range(_LOTS)] for failed in (0, 1)]
    unheard = trips.slower_than(waits[0][_LOTS // 2])  # Any other is answered before it is made again.
    steps = [[max(1, round(wait_s / cell_s)) for wait_s in some] for some in waits]
    # What would be made after the end is late.
    beyond = max(map(max, steps))
    lost, ends = [1.0] * (count + beyond), [end_s] * (count + beyond)
    for cell in range(count - 1, first - 1, -1):
        later = [cell + step for step in steps[cell > first]]
        late = trips.slower_than(end_s - cell * cell_s)
        lost[cell] = late * sum([lost[after] for after in later]) / _LOTS
        then_s = sum([ends[after] for after in later]) / _LOTS
        ends[cell] = (1 - unheard) * cell * cell_s + unheard * then_s
    return DAY_S / ends[first] * lost[first]


def _answers_lost_at_most(timing: Timing, trips: RoundTrips) -> float:
    """Return a bound for it: all attempts are made at their latest. Where already these are never all late, the rest need not be looked at."""
    heartbeat_s, end_s = timing.renew_every_ns / 1e9, stop_after_s(timing)
    lost_per_day, made_s = DAY_S / heartbeat_s, heartbeat_s
    while made_s < end_s and lost_per_day >= _NEGLIGIBLE_PER_DAY:
        lost_per_day *= trips.slower_than(end_s - made_s)
        made_s += max(heartbeat_s, timing.attempt_timeout_ns / 1e9)
    return lost_per_day


def scaled(timing: Timing, factor: float) -> Timing:
    """Return a timing with all durations longer by a factor. Raises ConfigError if no engine keeps such."""
    grown = {name: max(1, round(getattr(timing, name) * factor)) for name in ("ttl_ns", "renew_every_ns", "grace_ns")}
    attempt_ns = min(max(1, round(timing.attempt_timeout_ns * factor)), max(_ATTEMPT_MAX_NS, timing.attempt_timeout_ns))
    return replace(timing, attempt_timeout_ns=attempt_ns, **grown)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the curve."""

    timing: Timing
    rate: Rate

    @property
    def missed_s(self) -> float:
        """N x H: for how long a leader is silent before others may take its office."""
        return self.timing.misses * self.timing.renew_every_ns / 1e9


def curve(timing: Timing, rate_of: Callable[[Timing], Rate], count: int = 65, span: float = 4.0) -> Sequence[Point]:
    """Return false failovers against N x H, from a ``span``-th of the chosen one to ``span`` times it; H changes, N does not."""
    points = []
    for number in range(count):
        factor = span ** (2 * number / (count - 1) - 1)
        try:
            changed = timing if number * 2 == count - 1 else scaled(timing, factor)
        except ConfigError:
            continue  # Shorter than any engine keeps, or longer than anybody waits: the curve ends there.
        points.append(Point(changed, rate_of(changed)))
    return points
