"""Several hosts in one URL: one of them that is silent costs a part of the time that a request has, and not all of it."""

import asyncio

import anyio
import pytest

from tenure.stores.postgresql import from_url
from tenure.testing.engines import PostgresCluster
from tests.sql_rig import LIMIT_S, bid, wins

pytestmark = pytest.mark.anyio

TIMEOUT_S = 20  # Half of it is for the first host, and the rest, in which a busy machine has to answer, for the second.


async def test_a_host_that_is_silent_keeps_nobody_from_the_next_one() -> None:
    with PostgresCluster(2) as pair:
        first, second = pair.nodes
        await asyncio.to_thread(pair.promote, second)
        first.pause()
        try:
            url = f"postgresql://postgres@{first.endpoint},{second.endpoint}/postgres?timeout={TIMEOUT_S}"
            with anyio.fail_after(LIMIT_S):
                async with from_url(url) as store:
                    grant = await wins(store, bid("x", ttl_ns=5 * TIMEOUT_S * 10**9))
                    assert await store.engine.link.endpoint("read", TIMEOUT_S) == second.endpoint
                    assert await store.renew(grant) == grant
        finally:
            first.resume()
