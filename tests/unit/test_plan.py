"""The time without a leader: how long it takes to notice that one is gone depends on the engine that ends its lease."""

import pytest

from tenure.plan import Budget
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.consul.agent import traits_of as consul
from tenure.stores.kubernetes.leases import traits_of as kubernetes
from tenure.timing import Timing

PROMPT = Traits(False, Wake.WATCH, Expiry.ENGINE, "", 1, 10**15, expiry_slack_ns=0)


@pytest.mark.parametrize("traits", [None, PROMPT], ids=["none", "no slack"])
def test_where_a_lease_ends_with_its_ttl_the_misses_tell_that_a_leader_is_gone(traits: Traits | None) -> None:
    assert Budget.of(Timing.of(), traits).detect_s == 6
    assert Budget.of(Timing.of(heartbeat=1, misses=5), traits).detect_s == 5
    # A lease that was made longer than its misses is waited for to its end all the same.
    assert Budget.of(Timing.of(ttl=15, heartbeat=2), traits).detect_s == 13


@pytest.mark.parametrize(
    ("traits", "since_last_renewal_s"),
    [
        # Two ttl, and the lock-delay that there is without sinks, and what it takes to be told: docs/how-to/use-consul.md.
        pytest.param(consul(None, None), 2 * 10 + 15 + 1, id="Consul"),
        pytest.param(consul(None, 0), 2 * 10 + 1, id="Consul with sinks"),
        pytest.param(kubernetes(by_version=False), 10 + 1, id="Kubernetes"),
    ],
)
def test_what_an_engine_takes_beyond_the_ttl_is_in_the_budget(traits: Traits, since_last_renewal_s: float) -> None:
    timing = Timing.of(ttl=10)
    budget = Budget.of(timing, traits, load_s=0)
    assert budget.detect_s + timing.renew_every_ns / 1e9 == since_last_renewal_s
    assert budget.total_s == pytest.approx(budget.detect_s + 1 + 13 + 5)
