"""Which numbers keep false failovers as rare as is wanted, and how that fits an RTO. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError
from tenure.plan.budget import Budget
from tenure.plan.rate import Rate
from tenure.stores.base import Traits
from tenure.timing import Timing

# With one miss a single lost answer is half of the way to the end, and beyond five the request that is spared is a small one.
MISSES: Final = (2, 3, 4, 5)
# Two digits, from 10 ms to ten minutes: nobody writes 1.8374 s into a file.
_HEARTBEATS_S: Final = tuple(
    round(digits * 10.0**power, 6)
    for power in range(-3, 2)
    for digits in range(10, 100)
    if 0.01 <= digits * 10.0**power <= 600  # noqa: PLR2004  (as it says above)
)


@dataclass(frozen=True, slots=True)
class Recommended:
    """Numbers that keep the target."""

    timing: Timing
    rate: Rate
    budget: Budget
    fits: bool

    @property
    def renewals_per_s(self) -> float:
        """What they cost the store, for each election."""
        return 1e9 / self.timing.renew_every_ns


def recommended(  # noqa: PLR0913  (each by its name)
    per_day: float,
    rate_of: Callable[[Timing], Rate],
    *,
    traits: Traits | None,
    budget: Budget,
    rto_s: float,
    misses: Sequence[int] = MISSES,
) -> Sequence[Recommended]:
    """Return for each N the shortest H and L with at most so many false failovers a day, if there is such.

    ``rate_of`` says how many there are with a timing; ``budget`` is for what does not depend on the timing.
    """
    if not per_day > 0:
        raise ConfigError("--target", f"{per_day:g} a day", "must be more than 0: no timeout makes them impossible")
    found = (_shortest(per_day, rate_of, count, traits) for count in misses)
    return [_judged(one, budget, traits, rto_s) for one in found if one is not None]


def best_of(found: Sequence[Recommended], misses: int) -> Recommended | None:
    """Return the one to take: with the N that was chosen if it fits the RTO, or the fewest renewals that do; None: none fits."""
    fitting = [one for one in found if one.fits]
    same = (one for one in fitting if one.timing.misses == misses)
    return next(same, None) or min(fitting, key=lambda one: one.renewals_per_s, default=None)


def _shortest(
    per_day: float, rate_of: Callable[[Timing], Rate], misses: int, traits: Traits | None
) -> tuple[Timing, Rate] | None:
    """By halves: a longer heartbeat never has more false failovers."""
    given = [heartbeat_s for heartbeat_s in _HEARTBEATS_S if _is_given(heartbeat_s * (misses + 1), traits)]
    low, high, best = 0, len(given) - 1, None
    while low <= high:
        middle = (low + high) // 2
        timing = Timing.of(heartbeat=given[middle], misses=misses)
        rate = rate_of(timing)
        if rate.per_day <= per_day:
            best, high = (timing, rate), middle - 1
        else:
            low = middle + 1
    return best


def _is_given(ttl_s: float, traits: Traits | None) -> bool:
    return traits is None or traits.ttl_min_ns <= round(ttl_s * 1e9) <= traits.ttl_max_ns


def _judged(found: tuple[Timing, Rate], budget: Budget, traits: Traits | None, rto_s: float) -> Recommended:
    timing, rate = found
    whole = Budget.of(
        timing,
        traits,
        elect_s=budget.elect_s,
        load_s=budget.load_s,
        warm_s=budget.warm_s,
        discover_s=budget.discover_s,
    )
    return Recommended(timing, rate, whole, whole.total_s <= rto_s)
