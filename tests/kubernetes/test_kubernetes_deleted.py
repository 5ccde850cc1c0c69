"""Whose clock ends a Lease: ours, from when we saw its last change, also if it was deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.clock import VirtualClock
from tenure.model import Ended, Wait
from tenure.stores.kubernetes import KubernetesStore
from tenure.stores.kubernetes.lease import micro_time
from tests.kubernetes.kubernetes_rig import bid, until, waits, wins
from tests.kubernetes.stub import stub

pytestmark = pytest.mark.anyio

LONG_NS = 600 * 10**9  # far more than any test waits: whoever goes by another clock fails
HOUR = timedelta(hours=1)


def strangers(duration_s: int, renewed: datetime) -> dict[str, Any]:
    """A Lease of client-go, by whose clock it was renewed then."""
    spec = {"holderIdentity": "go-a", "leaseDurationSeconds": duration_s, "leaseTransitions": 4}
    return {"metadata": {}, "spec": spec | {"renewTime": micro_time(renewed)}}


@pytest.mark.parametrize(
    ("name", "duration_s", "off"),
    [("old", 600, -HOUR), ("ahead", 1, HOUR), ("old-short", 1, -HOUR), ("ahead-long", 600, HOUR)],
)
async def test_whatever_a_holder_wrote_as_the_time_of_its_renewal_its_lease_is_over_when_we_have_seen_none_for_so_long(
    name: str, duration_s: int, off: timedelta
) -> None:
    clock = VirtualClock(10**12)
    async with stub() as api, KubernetesStore(api.settings(), clock=clock) as store:
        api.write(name, strangers(duration_s, datetime.now(UTC) + off))
        asked = bid(name, ttl_ns=LONG_NS)
        await waits(store, asked)
        clock.advance(duration_s * 10**9 - 1)
        await waits(store, asked)
        clock.advance(1)
        assert (await wins(store, asked)).token == 5


async def test_a_lease_that_is_deleted_is_nobody_elses_for_as_long_as_its_holder_may_not_have_heard() -> None:
    clock = VirtualClock(10**12)
    async with (
        stub() as api,
        KubernetesStore(api.settings()) as store,
        KubernetesStore(api.settings(), clock=clock) as other,
    ):
        grant, rival = await wins(store, bid("deleted", ttl_ns=LONG_NS)), bid("deleted", ttl_ns=LONG_NS)
        await waits(other, rival)
        api.delete("deleted")

        async def heard() -> bool:
            sighting = other._seen.find("deleted")
            return sighting is not None and sighting.lease is None

        await until(heard)
        for passed_ns in (LONG_NS - 1, 1):
            wait = await waits(other, rival)
            assert wait.incumbent is not None
            assert (wait.incumbent.holder, wait.incumbent.token) == (grant.bid.holder, grant.token)
            clock.advance(passed_ns)
        assert (await wins(other, rival)).token == grant.token + 1
        assert await store.renew(grant) == Ended(grant.bid, grant.token)


async def test_who_led_by_a_lease_that_was_deleted_need_not_wait_to_lead_again() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        grant = await wins(store, bid("again", ttl_ns=LONG_NS))
        api.delete("again")
        assert await store.renew(grant) == Ended(grant.bid, grant.token)
        later = bid("again", grant.bid.holder, serial=2, ttl_ns=LONG_NS)
        await store.changed(Wait(later, None))  # returns
        assert (await wins(store, later)).token == grant.token + 1


async def test_who_has_not_seen_a_lease_that_was_deleted_waits_for_nobody() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store, KubernetesStore(api.settings()) as newcomer:
        grant = await wins(store, bid("unseen", ttl_ns=LONG_NS))
        api.delete("unseen")
        assert (await wins(newcomer, bid("unseen", ttl_ns=LONG_NS))).token == grant.token + 1
