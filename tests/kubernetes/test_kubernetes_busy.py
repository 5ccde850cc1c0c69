"""A Lease about which one request hangs: whoever renews many does not wait for it."""

import asyncio

import pytest
from aiohttp import web

from tenure.clients.kubernetes.client import AT_ONCE
from tenure.errors import Unreachable
from tenure.model import Grant
from tenure.stores.base import No, Unknown
from tenure.stores.kubernetes import KubernetesStore
from tenure.stores.kubernetes.group import LeaseGroup
from tests.kubernetes.kubernetes_rig import LIMIT_S, bid, wins
from tests.kubernetes.stub import stub

pytestmark = pytest.mark.anyio

LONG_NS = 1200 * 10**9  # What hangs has a third of it, which is more than any test waits.
ROUND_NS = 5 * 10**9


async def test_one_about_which_something_else_hangs_is_told_so_in_time_and_takes_no_other_with_it() -> None:
    hangs, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/busy-3"):
            hangs.set()
            await go_on.wait()
        return None

    async with stub() as api, KubernetesStore(api.settings(timeout_s=600)) as store:
        grants = [await wins(store, bid(f"busy-{number}", ttl_ns=LONG_NS)) for number in range(AT_ONCE + 2)]
        api.answer = answer
        proclaiming = asyncio.create_task(store.proclaim(grants[3], "http://here"))
        await hangs.wait()
        async with asyncio.timeout(LIMIT_S):
            missed = await _missed(store, grants)
        assert [(election, type(outcome)) for election, outcome in missed.items()] == [("busy-3", No)]
        assert isinstance(missed["busy-3"].error, Unreachable)
        go_on.set()
        assert await proclaiming == grants[3]
        assert await _missed(store, grants) == {}


async def test_a_renewal_waits_for_what_is_before_it_and_is_carried_out_then() -> None:
    hangs, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse | None:
        hangs.set()
        await go_on.wait()
        return None

    async with stub() as api, KubernetesStore(api.settings(timeout_s=600)) as store:
        grant = await wins(store, bid("before", ttl_ns=LONG_NS))
        api.answer = answer
        proclaiming = asyncio.create_task(store.proclaim(grant, "http://here"))
        await hangs.wait()
        renewing = asyncio.create_task(store.renew(grant))
        await asyncio.sleep(0)
        assert api.requests.count("PUT") == 1
        go_on.set()
        assert (await proclaiming, await renewing) == (grant, grant)
        assert api.requests.count("PUT") == 2


async def _missed(store: KubernetesStore, grants: list[Grant]) -> dict[str, No | Unknown]:
    """Renew all of them together, and return what became of those that were missed, by election. Nobody is deposed."""
    group = LeaseGroup(store, ROUND_NS)
    for grant in grants:
        group.add(grant)
    roll = await group.renew()
    assert not roll.ended
    return {bid.election: outcome for bid, outcome in roll.missed.items()}
