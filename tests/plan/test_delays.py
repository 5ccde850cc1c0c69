"""What was observed is told as it was; beyond it a tail goes on that does not promise too much."""

import math
import random
from itertools import pairwise

import pytest

from tenure.errors import ConfigError
from tenure.plan.delays import DAY_S, SeenPauses, SeenRoundTrips, Tail, fitted
from tenure.plan.profiles import PROFILES, profile_of


def test_within_what_was_seen_pauses_are_counted() -> None:
    pauses = SeenPauses([0.1] * 80 + [0.5] * 15 + [2.0] * 5, over_s=DAY_S / 2)
    assert pauses.per_day(0.05) == 200
    assert pauses.per_day(0.3) == 40
    assert pauses.per_day(2.0) >= 10


def test_beyond_the_longest_there_is_always_something() -> None:
    pauses = SeenPauses(sorted(random.Random(1).uniform(0.1, 1.0) for _ in range(500)), over_s=DAY_S)
    rates = [pauses.per_day(s) for s in (1.0, 2.0, 4.0, 8.0)]
    assert rates == sorted(rates, reverse=True)
    assert all(rate > 0 for rate in rates)


@pytest.mark.parametrize("shape", [0.0, 0.2, 0.4])
def test_a_tail_is_found_again_from_what_was_drawn_of_it(shape: float) -> None:
    lots, scale_s = random.Random(shape), 0.3
    draws = [lots.random() for _ in range(20_000)]
    values_s = sorted(-scale_s * math.log(u) if not shape else scale_s / shape * (u**-shape - 1) for u in draws)
    whole = Tail(0.0, 1.0, scale_s, shape)
    found = fitted(values_s, 1 / len(values_s))
    assert found.shape == pytest.approx(shape, abs=0.08)
    far_s = values_s[-1] * 2
    assert math.log10(found.beyond(far_s)) == pytest.approx(math.log10(whole.beyond(far_s)), abs=0.7)


def test_a_few_pauses_are_taken_as_exponential() -> None:
    tail = fitted([0.1, 0.2, 0.3], 1.0)
    assert (tail.shape, tail.weight) == (0.0, 3.0)
    assert tail.scale_s == pytest.approx(0.2)


def test_pauses_that_are_all_alike_do_not_promise_that_none_is_longer() -> None:
    pauses = SeenPauses([0.5] * 100, over_s=DAY_S)
    assert pauses.per_day(0.5) == 100
    assert 0 < pauses.per_day(5.0) < pauses.per_day(0.6) < 10


@pytest.mark.parametrize(
    ("over_s", "rule"), [(0.0, "must be more than 0"), (1.0, "must be longer than all that was seen")]
)
def test_a_time_that_cannot_hold_the_pauses_is_refused(over_s: float, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        SeenPauses([1.0, 2.0], over_s)


def test_answers_that_never_came_are_late_however_long_one_waits() -> None:
    trips = SeenRoundTrips([0.001] * 50 + [0.01] * 40 + [math.inf] * 10)
    assert trips.typical_s == 0.001
    assert trips.slower_than(0.005) == pytest.approx(0.5)
    assert trips.slower_than(60) == pytest.approx(0.1)


def test_what_is_typical_is_an_answer_even_if_most_were_lost() -> None:
    assert SeenRoundTrips([0.001, 0.002, math.inf, math.inf, math.inf]).typical_s == 0.002
    assert SeenRoundTrips([0.001, 0.002, 0.003]).typical_s == 0.002


def test_round_trips_without_any_answer_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one answer"):
        SeenRoundTrips([math.inf])


def test_a_worse_place_has_more_stalls_and_slower_answers() -> None:
    places = [PROFILES[name] for name in ("lan", "cloud", "wan", "cross-region")]
    for better, worse in pairwise(places):
        assert better.per_day(3.0) < worse.per_day(3.0)
        assert better.trips.typical_s < worse.trips.typical_s
    assert 0.05 <= PROFILES["cross-region"].trips.typical_s <= PROFILES["cross-region"].trips.p99_s <= 0.2


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="--profile = moon: must be one of lan, cloud, wan, cross-region"):
        profile_of("moon")
