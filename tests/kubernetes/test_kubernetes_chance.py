"""Those who wait for an office hear together that it is free, and do not ask for it together."""

import time

import pytest

from tenure.model import Wait
from tenure.stores.kubernetes import KubernetesStore
from tenure.stores.kubernetes.places import asks_after_s
from tests.kubernetes.kubernetes_rig import bid
from tests.kubernetes.stub import stub

CALLS = 40


def test_who_may_claim_does_so_at_a_time_that_is_spread_evenly_by_chance() -> None:
    lots = [number / 8 for number in range(9)]
    assert [asks_after_s(chance) for chance in lots] == pytest.approx([chance * 0.03 for chance in lots])


@pytest.mark.anyio
async def test_who_hears_that_an_office_is_free_does_not_claim_it_at_that_moment() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.write("free", {"metadata": {}, "spec": {}})
        assert await store.read("free") is None
        wait, began_s = Wait(bid("free"), None), time.monotonic()
        for _ in range(CALLS):
            await store.changed(wait)
        # The pauses are 0.6 s together on average, and less than this in one of some thousand million runs.
        assert time.monotonic() - began_s > 0.27
