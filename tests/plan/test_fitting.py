"""Whether a failover fits, and what is said if not: the arithmetic is right, and what is called enough is enough."""

import pytest

from tenure.errors import ConfigError
from tenure.plan import RTO_S, Budget
from tenure.plan.engines import shipped
from tenure.plan.fitting import Fit, fitting, heartbeat_for
from tenure.plan.rate import scaled
from tenure.plan.whole import planned, timing_of
from tenure.stores.base import Traits
from tenure.timing import Timing

DESIGN = timing_of(heartbeat=2, misses=3, ttl=8)


def fit_of(rto_s: float, timing: Timing = DESIGN, traits: Traits | None = None, **parts: float) -> Fit:
    return fitting(Budget.of(timing, traits, **parts), timing, traits, rto_s).fit


def test_the_budget_of_the_design_is_reproduced() -> None:
    plan = planned(DESIGN)
    assert plan.budget.parts == (("detect", 6), ("elect", 1), ("load", 2), ("warm", 13), ("discover", 5))
    assert (plan.budget.total_s, plan.rto_s, plan.fitting.fit) == (27, 30, Fit.FITS)
    assert RTO_S == 30


@pytest.mark.parametrize(
    ("rto_s", "fit"),
    [(29, Fit.FITS), (28.9, Fit.TIGHT), (27, Fit.TIGHT), (26.9, Fit.OVER), (6, Fit.CANNOT), (5, Fit.CANNOT)],
)
def test_a_reserve_of_one_heartbeat_is_what_tells_tight_from_fitting(rto_s: float, fit: Fit) -> None:
    assert fit_of(rto_s) is fit


def test_the_largest_part_is_named_first_with_what_it_may_take() -> None:
    advice = fitting(Budget.of(DESIGN), DESIGN, None, 20).advice
    assert advice[0].change == "warm"
    assert advice[0].arithmetic == "warm at most 6 s instead of 13 s: 27 - 13 + 6 = 20 s"
    assert (advice[1].change, advice[1].total_s) == ("warm standby", 12)


@pytest.mark.parametrize("rto_s", [4, 5, 7, 12, 18, 20, 24, 26.5])
@pytest.mark.parametrize("url", [None, "etcd://h", "consul://h", "zookeeper://h"])
@pytest.mark.parametrize("misses", [1, 3, 6])
def test_a_heartbeat_that_is_called_enough_is_one_that_the_engine_gives_and_that_fits(
    rto_s: float, url: str | None, misses: int
) -> None:
    traits = None if url is None else shipped(url).traits
    timing = timing_of(heartbeat=12.0 / misses, misses=misses, ttl=30.0 if misses == 1 else None)
    asked = [
        one for one in fitting(Budget.of(timing, traits), timing, traits, rto_s).advice if one.heartbeat_s is not None
    ]
    for one in asked:
        assert one.heartbeat_s is not None
        changed = scaled(timing, one.heartbeat_s * 1e9 / timing.renew_every_ns)
        assert one.total_s is not None
        assert one.enough
        assert one.total_s <= rto_s + 1e-6
        if traits is not None:
            assert traits.ttl_min_ns <= changed.ttl_ns + 1000
        if one.change == "H x N":
            assert Budget.of(changed, traits).total_s == pytest.approx(one.total_s)


def test_where_detection_alone_is_too_long_the_ways_out_have_their_arithmetic() -> None:
    found = fitting(Budget.of(DESIGN), DESIGN, None, 5)
    told = {one.change: one for one in found.advice}
    assert found.fit is Fit.CANNOT
    assert list(told) == ["H x N", "warm standby", "all of it", "shard"]
    assert "all else is 21 s" in told["H x N"].arithmetic
    assert "27 - 2 - 13 = 12 > 5 s" in told["warm standby"].arithmetic
    assert "H = 1 s x N = 3, L = 4 s, 5 s in all" in told["all of it"].arithmetic
    assert "27 / 6 = 4.5 s" in told["shard"].arithmetic
    # And it is so: with these numbers it fits.
    assert fit_of(5, timing_of(heartbeat=1), load_s=0, warm_s=0, discover_s=1) is Fit.TIGHT


def test_what_the_store_itself_takes_is_told_where_it_is_most_of_it() -> None:
    consul = shipped("consul://h").traits
    advice = fitting(Budget.of(timing_of(ttl=10), consul), timing_of(ttl=10), consul, 30).advice
    assert advice[0].change == "store"
    assert "54.5 - 26 = 28.5 <= 30 s" in advice[0].arithmetic


def test_an_engine_with_a_longest_wait_has_a_shortest_detection() -> None:
    consul = shipped("consul://h", fenced=True).traits
    assert heartbeat_for(18.5, DESIGN, consul) == 2.5  # its shortest lease, 10 s
    assert heartbeat_for(18.4, DESIGN, consul) is None
    assert heartbeat_for(3, DESIGN, None) == 1
    assert heartbeat_for(6.5, timing_of(heartbeat=2, ttl=15), None) == 1  # 15 - 2 = 13 s, and half of it


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"heartbeat": 0}, "heartbeat (H) = 0 s: must be more than 0"),
        ({"heartbeat": -1}, "heartbeat (H) = -1 s: must be more than 0"),
        ({"misses": 0}, "misses (N) = 0: must be at least 1"),
        ({"ttl": 0}, "ttl (L) = 0 s: must be more than 0"),
        ({"ttl": 6, "heartbeat": 2}, "ttl (L) = 6 s: must be more than N x H = 3 x 2 s = 6 s: L > N x H"),
        ({"ttl": 5, "heartbeat": 2}, "ttl (L) = 5 s: must be more than N x H"),
    ],
)
def test_numbers_that_cannot_be_are_named_with_the_relation(numbers: dict[str, int], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        timing_of(**numbers)
    assert str(refused.value).startswith(told)


def test_a_lease_that_the_engine_does_not_give_is_refused() -> None:
    with pytest.raises(ConfigError, match="ttl = 8 s: must be from 10 s to 86400 s: Consul gives no other leases"):
        planned(DESIGN, engine=shipped("consul://h"))


def test_an_rto_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="--rto = 0 s: must be more than 0"):
        planned(DESIGN, rto_s=0)
