"""Leases that are renewed together: each is a request of its own, some are under way at once, and each fails by itself."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tenure.clients.kubernetes.client import AT_ONCE
from tenure.errors import Unreachable
from tenure.model import Grant
from tenure.office.crews import Crew
from tenure.stores.base import Group, No, Unknown
from tenure.stores.kubernetes import KubernetesStore
from tenure.timing import Timing
from tests.kubernetes.kubernetes_rig import bid, wins
from tests.kubernetes.stub import Stub, status, stub

pytestmark = pytest.mark.anyio

COUNT = 3 * AT_ONCE
PATIENT = Timing.of(ttl=600)
# An attempt has five seconds: what is measured is a quarter of that.
TIMINGS = [
    Timing.of(ttl=40),
    Timing.of_client_go(lease_duration=60, renew_deadline=40, retry_period=8),
]


@asynccontextmanager
async def crowd(timing: Timing = PATIENT, count: int = COUNT) -> AsyncIterator[tuple[Stub, Group, list[Grant]]]:
    async with stub() as api, KubernetesStore(api.settings(timeout_s=60)) as store:
        grants = [await wins(store, bid(f"one-{number}", ttl_ns=timing.ttl_ns)) for number in range(count)]
        group = Crew(store, timing).group
        for grant in grants:
            group.add(grant)
        api.requests.clear()
        yield api, group, grants


async def test_a_renewal_that_fails_takes_no_other_with_it() -> None:
    async with crowd() as (api, group, grants):
        failing = {"one-3": status(500), "one-5": status(403)}

        async def answer(request: web.Request) -> web.StreamResponse | None:
            return failing.get(request.path.rpartition("/")[2])

        api.answer = answer
        api.write("one-7", {**api.leases["one-7"], "spec": {"holderIdentity": "another"}})
        before = {name: lease["metadata"]["resourceVersion"] for name, lease in api.leases.items()}
        roll = await group.renew()
        assert {grant.bid.election for grant in grants if grant.bid in roll.ended} == {"one-7"}
        kinds = {bid.election: type(outcome) for bid, outcome in roll.missed.items()}
        assert kinds == {"one-3": Unknown, "one-5": No}
        unchanged = {
            name for name, version in before.items() if api.leases[name]["metadata"]["resourceVersion"] == version
        }
        assert unchanged == {"one-3", "one-5", "one-7"}
        api.answer = None
        assert not (await group.renew()).missed


async def test_a_renewal_leaves_nothing_of_ours_to_a_search_for_cycles() -> None:
    async with crowd() as (_, group, _):
        await group.renew()  # by connections that stay
        gc.collect()
        gc.disable()
        gc.freeze()  # What is older is not looked at: other tests of this process may have left it, on other threads.
        try:
            await group.renew()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = {type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("tenure.")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.unfreeze()
            gc.enable()
        assert not found


async def test_only_some_are_under_way_at_once() -> None:
    async with crowd() as (api, group, _):
        under_way, most = 0, 0

        async def answer(_: web.Request) -> web.StreamResponse | None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1
            return None

        api.answer = answer
        roll = await group.renew()
        assert (roll.ended, roll.missed, most) == (set(), {}, AT_ONCE)
        assert api.requests == ["PUT"] * COUNT


@pytest.mark.parametrize("timing", TIMINGS, ids=["ours", "client-go"])
async def test_those_whose_turn_does_not_come_in_time_are_told_so_before_anybody_stops_waiting(timing: Timing) -> None:
    async with crowd(timing) as (api, group, grants):

        async def answer(_: web.Request) -> web.StreamResponse | None:
            await asyncio.Event().wait()
            return None

        api.answer = answer
        began_s = time.monotonic()
        roll = await group.renew()
        took_s = time.monotonic() - began_s
        assert set(roll.missed) == {grant.bid for grant in grants}
        # What was sent has no known outcome; the others were never sent.
        sent = [outcome for outcome in roll.missed.values() if isinstance(outcome, Unknown)]
        unsent = [outcome.error for outcome in roll.missed.values() if isinstance(outcome, No)]
        assert (len(sent), len(unsent)) == (AT_ONCE, COUNT - AT_ONCE)
        assert all(isinstance(error, Unreachable) for error in unsent)
        assert timing.attempt_timeout_ns / 2e9 <= took_s < timing.attempt_timeout_ns * 0.75e-9
