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
from typing import Final

from tenure.errors import ConfigError
from tenure.plan.delays import DAY_S, Pauses, RoundTrips
from tenure.timing import Timing

_STEPS: Final = 64  # into which a heartbeat is cut for the mean over u
_STEPS_OF_TRIP: Final = 8  # and the round trip at its begin
_STEPS_OF_OUTAGE: Final = 20  # fewer: when attempts are made is spread already
_LOTS: Final = 8  # how finely the spread of the time between attempts is looked at
_NEGLIGIBLE_PER_DAY: Final = 1e-9  # once in a million years or so
_CELLS_MAX: Final = 2048  # and the time up to D, for the attempts
_CELLS_OF_HEARTBEAT: Final = 32
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
    """Return how many tenures a day are lost to outages of the way to the store, on average over when each begins."""
    heartbeat_s = timing.renew_every_ns / 1e9
    lasts = _last_attempts(timing, trip_s)
    lost = 0.0
    for step in range(_STEPS_OF_OUTAGE):
        # Since the last renewal that was answered. The one after it may have been sent, but not answered, when it begins.
        begun_s = trip_s + (step + 0.5) / _STEPS_OF_OUTAGE * heartbeat_s
        lost += sum(chance * outages.per_day(max(0.0, last_s - begun_s)) for last_s, chance in lasts)
    return lost / _STEPS_OF_OUTAGE


def _last_attempts(timing: Timing, trip_s: float) -> list[tuple[float, float]]:
    """Return when the last attempt may be made that is answered before D, and how likely each is. All attempts before it are silent."""
    end_s, first_s = stop_after_s(timing) - trip_s, timing.renew_every_ns / 1e9
    cell_s = max(timing.renew_every_ns / 1e9 / _CELLS_OF_HEARTBEAT, end_s / _CELLS_MAX)
    now, last = {0: 1.0}, dict[int, float]()  # cells after the first attempt
    failed = 0
    while now:
        waits_s = [timing.answer_within_ns(failed, (lot + 0.5) / _LOTS) / 1e9 for lot in range(_LOTS)]
        later = dict[int, float]()
        for cell, chance in now.items():
            for wait_s in waits_s:
                after = cell + max(1, round(wait_s / cell_s))
                is_last = first_s + after * cell_s >= end_s
                place, at = (last, cell) if is_last else (later, after)
                place[at] = place.get(at, 0.0) + chance / _LOTS
        now, failed = later, failed + 1
    return [(first_s + cell * cell_s, chance) for cell, chance in last.items()]


def lost_by_answers(timing: Timing, trips: RoundTrips) -> float:
    """Return how many tenures a day are lost because no answer came in time, though nothing stood still.

    Backwards over the time since the last renewal that was answered, in cells: ``lost[i]`` is the chance that an attempt that is
    made in cell i and all after it are late, ``ends[i]`` when the attempt that is answered is made, on average.
    """
    heartbeat_s, end_s = timing.renew_every_ns / 1e9, stop_after_s(timing)
    # The first two attempts at their latest: where already these are never both late, the rest need not be looked at.
    at_most = trips.slower_than(end_s - heartbeat_s) * trips.slower_than(max(0.0, end_s - 2 * heartbeat_s))
    if at_most * DAY_S / heartbeat_s < _NEGLIGIBLE_PER_DAY:
        return at_most * DAY_S / heartbeat_s
    cell_s = max(heartbeat_s / _CELLS_OF_HEARTBEAT, end_s / _CELLS_MAX)
    first, count = round(heartbeat_s / cell_s), math.ceil(end_s / cell_s)
    # The first answer is waited for as long as any that follows no failure, those after it as after one.
    waits = [[timing.answer_within_ns(failed, (lot + 0.5) / _LOTS) / 1e9 for lot in range(_LOTS)] for failed in (0, 1)]
    unheard = trips.slower_than(waits[0][_LOTS // 2])  # Any other is answered before it is made again.
    lost, ends = [1.0] * count, [end_s] * count
    for cell in range(count - 1, first - 1, -1):
        later = [cell + max(1, round(wait_s / cell_s)) for wait_s in waits[cell > first]]
        in_time = [after for after in later if after < count]
        too_late = len(later) - len(in_time)
        late = trips.slower_than(end_s - cell * cell_s)
        lost[cell] = late * (too_late + sum(lost[after] for after in in_time)) / _LOTS
        then_s = (too_late * end_s + sum(ends[after] for after in in_time)) / _LOTS
        ends[cell] = (1 - unheard) * cell * cell_s + unheard * then_s
    return DAY_S / ends[first] * lost[first]


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
