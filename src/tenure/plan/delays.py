"""How often a process stands still for how long, and how long an answer takes: as was observed, or as a curve says. Pure.

A log of a day says nothing of what happens once a month. Beyond what it saw, a tail is fitted to its longest tenth: a generalised
Pareto distribution, which is what the excesses over a high threshold tend to whatever the pauses are of (Pickands, Balkema and
de Haan). Its shape is never taken for less than 0, which is an exponential tail: with a shape below that it would have an end, and a
plan would promise that no pause is ever longer than the longest of one day.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tenure.errors import ConfigError

DAY_S: Final = 86_400.0
_TAIL_SHARE: Final = 0.1
_TAIL_MIN: Final = 10  # Fewer excesses than this say nothing of a shape: then all are taken, as exponential.
_SHAPE_MAX: Final = 0.9  # The estimate needs a mean, which there is below 1.
# Linux waits for 200 ms at least before it sends a segment again, and doubles that each time (TCP_RTO_MIN).
_RESEND_AFTER_S: Final = 0.2


class Pauses(Protocol):
    """How often a process stands still."""

    def per_day(self, longer_than_s: float) -> float:
        """Return how many pauses a day are longer than that."""
        ...


class RoundTrips(Protocol):
    """How long an answer of the store takes."""

    @property
    def typical_s(self) -> float:
        """What every second answer takes at most."""
        ...

    def slower_than(self, s: float) -> float:
        """Return the share of answers that take longer than that."""
        ...


@dataclass(frozen=True, slots=True)
class Tail:
    """What exceeds ``from_s``: so many a day, or such a share; ``shape`` 0 is exponential, more is heavier."""

    from_s: float
    weight: float
    scale_s: float
    shape: float = 0.0

    def beyond(self, s: float) -> float:
        """Return how much of it is longer than ``s``."""
        excess_s = max(0.0, s - self.from_s)
        if self.shape < 1e-6:  # noqa: PLR2004  (below this the two formulas are one)
            return self.weight * math.exp(-excess_s / self.scale_s)
        return float(self.weight * (1 + self.shape * excess_s / self.scale_s) ** (-1 / self.shape))


def fitted(values_s: Sequence[float], weight: float) -> Tail:
    """Return a tail for the longest tenth of ``values_s``, which are sorted; ``weight`` is that of one value.

    By probability-weighted moments (Hosking and Wallis 1987), which need no iteration and are steady for few values.
    """
    count = max(_TAIL_MIN, math.ceil(len(values_s) * _TAIL_SHARE))
    if len(values_s) <= count:
        return Tail(0.0, weight * len(values_s), max(1e-9, sum(values_s) / len(values_s)))
    from_s = values_s[-count - 1]
    excesses_s = [value_s - from_s for value_s in values_s[-count:]]
    mean_s = sum(excesses_s) / count
    if (
        not mean_s
    ):  # All alike, as in a log of whole milliseconds: that says nothing of a spread, so it is taken for a wide one.
        return Tail(from_s, weight * count, max(1e-9, from_s))
    # The second moment weighs each excess with the share of those above it.
    weighed_s = sum(excess_s * (count - 1 - rank) for rank, excess_s in enumerate(excesses_s)) / (count * (count - 1))
    gap_s = mean_s - 2 * weighed_s
    shape = 2 - mean_s / gap_s if gap_s > 0 else _SHAPE_MAX
    if shape <= 0:
        return Tail(from_s, weight * count, max(1e-9, mean_s))
    shape = min(shape, _SHAPE_MAX)
    return Tail(from_s, weight * count, max(1e-9, mean_s * (1 - shape)), shape)


@dataclass(frozen=True, slots=True)
class SeenPauses:
    """Pauses that were observed, sorted, over some time; beyond the longest the fitted tail goes on."""

    pauses_s: Sequence[float]
    over_s: float
    setting: str = "--pauses"  # how it was given, for errors
    tail: Tail = field(init=False)

    def __post_init__(self) -> None:
        if not self.over_s > 0:
            raise ConfigError(f"{self.setting}-over", f"{self.over_s:g} s", "must be more than 0")
        if self.pauses_s and self.over_s < sum(self.pauses_s):
            rule = f"must be longer than all that was seen in it, which is {sum(self.pauses_s):g} s together"
            raise ConfigError(f"{self.setting}-over", f"{self.over_s:g} s", rule)
        nothing = Tail(0.0, 0.0, 1.0)
        fit = fitted(self.pauses_s, DAY_S / self.over_s) if self.pauses_s else nothing
        object.__setattr__(self, "tail", fit)

    def per_day(self, longer_than_s: float) -> float:
        """Return how many were longer, or would be. The larger of the two: a tail may run below what was seen."""
        seen = len(self.pauses_s) - bisect_left(self.pauses_s, longer_than_s)
        if longer_than_s <= self.tail.from_s:
            return seen * DAY_S / self.over_s
        return max(seen * DAY_S / self.over_s, self.tail.beyond(longer_than_s))

    @property
    def rarest_per_day(self) -> float:
        """What happens more rarely than this was not seen, but extrapolated."""
        return DAY_S / self.over_s


@dataclass(frozen=True, slots=True)
class SeenRoundTrips:
    """Round trips that were observed, sorted; those without an answer are infinite."""

    trips_s: Sequence[float]
    typical_s: float = field(init=False)  # what every second answer takes at most
    _tail: Tail = field(init=False, repr=False)
    _lost: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        answered = [trip_s for trip_s in self.trips_s if trip_s != math.inf]
        if not answered:
            raise ConfigError("--rtts", len(self.trips_s), "must have at least one answer in them")
        object.__setattr__(self, "_tail", fitted(answered, 1 / len(self.trips_s)))
        object.__setattr__(self, "_lost", 1 - len(answered) / len(self.trips_s))
        # Once, and not where it is asked for: a curve asks some hundred times, of a log that may have a million lines.
        object.__setattr__(self, "typical_s", min(self.trips_s[(len(self.trips_s) - 1) // 2], answered[-1]))

    def slower_than(self, s: float) -> float:
        """Return the share that was slower, or would be."""
        seen = (len(self.trips_s) - bisect_left(self.trips_s, s)) / len(self.trips_s)
        return seen if s <= self._tail.from_s else min(1.0, max(seen, self._tail.beyond(s) + self._lost))


@dataclass(frozen=True, slots=True)
class Ways:
    """Round trips by a median, a spread, and how many segments are lost and sent again by TCP."""

    typical_s: float
    p99_s: float
    lost: float = 0.0

    def slower_than(self, s: float) -> float:
        """Return the share that is slower. A log-normal body; each loss adds a wait that doubles."""
        slower, chance, waited_s = 0.0, 1.0, 0.0
        for resends in range(8):
            slower += chance * (1 - self.lost) * self._body(s - waited_s)
            chance *= self.lost
            waited_s += _RESEND_AFTER_S * 2**resends
            if not chance:
                break
        return min(1.0, slower + chance)

    def _body(self, s: float) -> float:
        if s <= 0:
            return 1.0
        if self.p99_s <= self.typical_s:
            return float(s < self.typical_s)
        sigma = math.log(self.p99_s / self.typical_s) / 2.3263  # the 99th percentile of the normal distribution
        return 0.5 * math.erfc(math.log(s / self.typical_s) / (sigma * math.sqrt(2)))
