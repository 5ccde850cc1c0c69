"""Quorums, regions, shards and targets: each number follows from those before it."""

import math

import pytest

from tenure.errors import ConfigError
from tenure.plan import Budget
from tenure.plan.engines import shipped
from tenure.plan.load import Load
from tenure.plan.profiles import PROFILES
from tenure.plan.quorum import NEAR_S, Quorum, Regions
from tenure.plan.rate import curve, false_failovers, scaled
from tenure.plan.targets import best_of, recommended
from tenure.plan.whole import Disturbed
from tenure.timing import Timing

CLOUD = PROFILES["cloud"]
RATE = Disturbed.by_profile("cloud").rate
THREE = [("eu", "us", 0.08), ("eu", "ap", 0.18), ("us", "ap", 0.15)]


@pytest.mark.parametrize(
    ("members", "majority", "tolerates"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 3, 1), (5, 3, 2), (6, 4, 2), (7, 4, 3)]
)
def test_a_majority_and_what_may_fail(members: int, majority: int, tolerates: int) -> None:
    quorum = Quorum(members)
    assert (quorum.majority, quorum.tolerates) == (majority, tolerates)
    assert ("never" in quorum.advice) == (members % 2 == 0)
    assert (quorum.advice == "") == (members in {3, 5, 7})


@pytest.mark.parametrize("members", [0, -1, 100])
def test_a_number_of_members_that_cannot_be_is_refused(members: int) -> None:
    with pytest.raises(ConfigError, match=f"--members = {members}: must be from 1 to 99"):
        Quorum(members)


def test_sums_of_three_regions() -> None:
    single, best, worst, regional = Regions.of(THREE).options()
    assert "all members in us" in single.place
    assert single.renew_s == pytest.approx(0.15 + NEAR_S)
    assert best.commit_s == 0.08
    assert best.renew_s == pytest.approx(0.15 + 0.08)
    assert best.elect_s == pytest.approx(0.15 / 2 + 2 * (0.15 + 0.08))
    assert worst.commit_s == 0.15
    assert worst.renew_s == pytest.approx(0.18 + 0.15)
    assert regional.renew_s == pytest.approx(2 * NEAR_S)


def test_five_members_over_three_regions_wait_for_the_third_nearest() -> None:
    _, best, worst, _ = Regions.of(THREE).options(5)
    assert best.place == "2 in us, 2 in eu, 1 in ap; the engine's leader in us"
    assert best.commit_s == 0.08  # its neighbour, and one of the two in eu
    assert worst.commit_s == 0.15
    assert "any one region" in best.survives


@pytest.mark.parametrize(
    ("pairs", "members"), [([("a", "b", 0.08)], None), ([("a", "b", 0.08)], 5), (THREE, 4), (THREE, 1)]
)
def test_a_quorum_that_does_not_survive_each_region_is_none(
    pairs: list[tuple[str, str, float]], members: int | None
) -> None:
    stretched = [one for one in Regions.of(pairs).options(members) if one.name.startswith("stretched")]
    assert [one.commit_s for one in stretched] == [None]


@pytest.mark.parametrize("pairs", [[("a", "a", 0.1)], [("a", "b", 0.1), ("b", "c", 0.1)]])
def test_round_trips_that_are_missing_or_within_one_region_are_refused(pairs: list[tuple[str, str, float]]) -> None:
    with pytest.raises(ConfigError, match="--rtt = a-"):
        Regions.of(pairs)


def test_one_leader_is_enough_until_it_is_busy() -> None:
    assert (Load(100, 0.001).shards, Load(700, 0.001).shards, Load(701, 0.001).shards) == (1, 1, 2)
    assert Load(5000, 0.0004).shards == 3
    most = Load(5000, 0.0004).most_per_s
    assert most == pytest.approx(1750)
    assert (Load(most, 0.0004).shards, Load(most + 1, 0.0004).shards) == (1, 2)
    assert Load(500, 0.001).latency_s() == pytest.approx(0.002)
    assert Load(5000, 0.0004).latency_s() == math.inf
    assert Load(5000, 0.0004).latency_s(3) == pytest.approx(0.0012)


@pytest.mark.parametrize(("ops", "cost_s"), [(0, 0.001), (-1, 0.001), (math.inf, 0.001), (math.nan, 0.001), (1, 0)])
def test_a_load_that_cannot_be_is_refused(ops: float, cost_s: float) -> None:
    with pytest.raises(ConfigError, match="must be more than 0"):
        Load(ops, cost_s)


@pytest.mark.parametrize("per_day", [1.0, 1 / 30, 1 / 365])
def test_what_is_recommended_keeps_the_target_and_nothing_shorter_does(per_day: float) -> None:
    found = recommended(per_day, RATE, traits=None, budget=Budget.of(Timing.of()), rto_s=30)
    assert [one.timing.misses for one in found] == [2, 3, 4, 5]
    for one in found:
        assert false_failovers(one.timing, CLOUD, CLOUD.trips).per_day <= per_day
        assert false_failovers(scaled(one.timing, 0.9), CLOUD, CLOUD.trips).per_day > per_day
        assert one.fits == (one.budget.total_s <= 30)


def test_what_is_recommended_is_a_lease_that_the_engine_gives() -> None:
    consul = shipped("consul://h").traits
    found = recommended(100.0, RATE, traits=consul, budget=Budget.of(Timing.of()), rto_s=30)
    assert all(one.timing.ttl_ns >= consul.ttl_min_ns for one in found)
    assert all(not one.fits for one in found)


def test_the_n_that_was_chosen_is_taken_if_it_fits_and_the_cheapest_otherwise() -> None:
    def best(misses: int, rto_s: float) -> int | None:
        budget = Budget.of(Timing.of(), load_s=0, warm_s=0, discover_s=0)
        found = recommended(1 / 30, RATE, traits=None, budget=budget, rto_s=rto_s)
        one = best_of(found, misses)
        return None if one is None else one.timing.misses

    assert (best(3, 30), best(5, 30), best(7, 30)) == (3, 5, 2)
    assert (best(3, 4.4), best(3, 4)) == (4, None)


def test_no_target_is_never() -> None:
    with pytest.raises(ConfigError, match="must be more than 0"):
        recommended(0.0, RATE, traits=None, budget=Budget.of(Timing.of()), rto_s=30)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("misses", [2, 3, 8])
def test_a_longer_timeout_never_has_more_false_failovers(name: str, misses: int) -> None:
    points = curve(Timing.of(heartbeat=1, misses=misses), Disturbed.by_profile(name).rate)
    rates = [point.rate.per_day for point in points]
    assert rates == sorted(rates, reverse=True)
