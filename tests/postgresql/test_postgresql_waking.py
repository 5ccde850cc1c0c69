"""Who waits is told by NOTIFY, over one session that listens; all else goes over one more.

With SELDOM they look by themselves after 30 s at the earliest, and no lease ends within the hour: what wakes them sooner is NOTIFY.
"""

import asyncio
from secrets import token_hex

import anyio
import pytest

from tenure.errors import StoreError, Unreachable
from tenure.stores.base import Wake
from tenure.stores.postgresql import PostgresStore, from_url
from tenure.testing.engines import PgBouncer, PostgresCluster
from tests.postgresql.watching import stands_by, watched
from tests.sql_rig import LIMIT_S, bid, sql, until, waits, wins, wins_in_time

pytestmark = pytest.mark.anyio

SELDOM = "?poll=60"
SOON_S = 25  # A look comes after 30 s to 60 s.
OURS = "pid <> pg_backend_pid() AND application_name = 'tenure'"
HOUR_NS = 3600 * 10**9


async def hands_over(cluster: PostgresCluster, waiter: PostgresStore) -> None:
    """Let the waiter wait for an office, leave it, and see that it is told long before it would look."""
    election = token_hex(4)
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid(election, ttl_ns=HOUR_NS))
        wait = await waits(waiter, bid(election))
        waiting = asyncio.create_task(waiter.changed(wait))
        await stands_by(waiter, election)
        await store.release(grant.bid)
        with anyio.fail_after(SOON_S):
            await waiting
        assert (await wins(waiter, wait.bid)).token > grant.token


async def test_a_release_wakes_who_would_not_have_looked_for_long(cluster: PostgresCluster) -> None:
    async with watched(cluster, SELDOM) as waiter:
        for _ in range(3):
            await hands_over(cluster, waiter.store)
        assert waiter.store.traits.wake is Wake.NOTIFY


async def test_a_release_wakes_likewise_behind_a_pooler_of_sessions(cluster: PostgresCluster) -> None:
    with PgBouncer(cluster, mode="session") as pooler:
        async with from_url(pooler.url + SELDOM) as store:
            await hands_over(cluster, store)
            assert store.traits.wake is Wake.NOTIFY


async def test_a_session_that_listens_and_is_ended_is_replaced_and_hears_again(cluster: PostgresCluster) -> None:
    async with watched(cluster, SELDOM) as waiter:
        await hands_over(cluster, waiter.store)
        before = await waiter.listens()
        await sql(cluster, f"SELECT pg_terminate_backend({before})")
        assert await waiter.listens(except_pid=before) != before
        await hands_over(cluster, waiter.store)


async def test_all_elections_of_a_store_share_one_session_and_those_who_wait_one_more(cluster: PostgresCluster) -> None:
    async with from_url(cluster.url) as holder, watched(cluster, f"{SELDOM}&timeout=30") as one:
        names = [token_hex(4) for _ in range(12)]
        await asyncio.gather(*(wins(one.store, bid(name, ttl_ns=HOUR_NS)) for name in names))
        assert await one.sessions() == 1
        others = [token_hex(4) for _ in range(12)]
        grants = [await wins(holder, bid(name, ttl_ns=HOUR_NS)) for name in others]
        asked = [await waits(one.store, bid(name)) for name in others]
        waiting = [asyncio.create_task(one.store.changed(wait)) for wait in asked]
        for name in others:
            await stands_by(one.store, name)
        assert await one.sessions() == 2
        assert await one.sessions("query LIKE 'LISTEN%'") == 1
        for grant in grants:
            await holder.release(grant.bid)
        with anyio.fail_after(SOON_S):
            await asyncio.gather(*waiting)

    async def gone() -> bool:
        return await one.sessions() == 0

    with anyio.fail_after(LIMIT_S):
        await until(gone)


async def test_whoever_waits_is_told_by_a_look_where_all_sessions_were_ended(cluster: PostgresCluster) -> None:
    async with from_url(cluster.url) as store, from_url(cluster.url) as waiter:
        for serial in (1, 2):
            # Not the same again: news of the last release may come late, and would end this wait.
            election = token_hex(4)
            grant = await wins(store, bid(election, ttl_ns=HOUR_NS))
            wait = await waits(waiter, bid(election))
            waiting = asyncio.create_task(waiter.changed(wait))
            await stands_by(waiter, election)
            if serial == 2:
                await sql(cluster, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
            await wins_in_time(store, grant.bid)
            await store.release(grant.bid)
            with anyio.fail_after(LIMIT_S):
                try:
                    await waiting
                except StoreError:  # It was looking when its connection was ended. Whoever hears that asks again.
                    await waiter.changed(wait)
            taken = await wins_in_time(waiter, wait.bid)
            assert taken.token > grant.token
            await waiter.release(wait.bid)


async def test_a_store_that_is_closed_lets_go_of_who_waits_and_takes_no_more(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(cluster.url) as store:
        await wins(store, bid(election))
        async with from_url(cluster.url) as waiter:
            wait = await waits(waiter, bid(election))
            waiting = asyncio.create_task(waiter.changed(wait))
            await stands_by(waiter, election)
        with pytest.raises(Unreachable, match="the store was closed"):
            await waiting
        with pytest.raises(Unreachable, match="the store is not open"):
            await waiter.claim(wait.bid)


async def test_a_store_that_is_closed_while_it_begins_to_listen_lets_go_of_who_waits(cluster: PostgresCluster) -> None:
    begun = asyncio.Event()

    async def never() -> object:
        begun.set()
        return await asyncio.Event().wait()

    async with from_url(cluster.url) as store:
        election = token_hex(4)
        await wins(store, bid(election))
        wait = await waits(store, bid(election))
        store.engine._listening._connect = never
        waiting = asyncio.create_task(store.changed(wait))
        await begun.wait()
    with anyio.fail_after(LIMIT_S), pytest.raises(Unreachable, match="the store is not open"):
        await waiting
