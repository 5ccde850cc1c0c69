"""A store that is closed leaves nothing behind, also if nobody waits for it to end."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from tenure.errors import StoreError
from tenure.stores.kubernetes import KubernetesStore
from tests.kubernetes.kubernetes_rig import LIMIT_S, bid, wins
from tests.kubernetes.stub import stub

pytestmark = pytest.mark.anyio


async def test_a_store_whose_closing_is_cancelled_leaves_no_connection() -> None:
    begun, hung_up = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.method == "PUT":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:  # The client has hung up.
                hung_up.set()
        return None

    async with stub() as api:
        api.answer = answer
        opened = AsyncExitStack()
        store = await opened.enter_async_context(KubernetesStore(api.settings(timeout_s=600)))
        grant = await wins(store, bid("closing", ttl_ns=1800 * 10**9))
        releasing = asyncio.create_task(store.release(grant.bid))
        await begun.wait()
        closing = asyncio.create_task(opened.aclose())
        await asyncio.sleep(0)  # It has begun, and waits for the release.
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        async with asyncio.timeout(LIMIT_S):
            await hung_up.wait()
            with pytest.raises(StoreError):
                await releasing
        assert store.client._http._all == set()
