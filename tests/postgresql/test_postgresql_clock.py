"""A statement that waited for a row goes by the time at which it is carried out, not by that at which it came."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from secrets import token_hex
from typing import TypeVar

import anyio
import psycopg
import pytest

from tenure.model import Ended, Grant
from tenure.stores.postgresql import from_url
from tenure.testing.engines import PostgresCluster
from tests.leaping_wall import OUTLIVED, leapt
from tests.sql_rig import LIMIT_S, bid, sql, until, wins

pytestmark = pytest.mark.anyio

T = TypeVar("T")

# A fifth of it is what one request has, and half of that one that waits for a row.
TTL_S = 300
TIMEOUT = f"?timeout={TTL_S // 5}"
asked = partial(bid, ttl_ns=TTL_S * 10**9)

LAPSES = "expires = clock_timestamp()"
IS_TAKEN_AND_LAPSES = f"host = 'h', pid = 1, nonce = 'n', serial = 1, ttl_us = 1, since = clock_timestamp(), {LAPSES}"


async def overtaken(cluster: PostgresCluster, election: str, changes: str, asking: Awaitable[T]) -> T:
    """Return what comes of a request that waits while ``changes`` are made to its row."""
    where = f"WHERE election = '{election}'"
    async with await psycopg.AsyncConnection.connect(cluster.url) as somebody:
        await somebody.execute(f"SELECT 1 FROM tenure.office {where} FOR UPDATE".encode())
        pid = somebody.info.backend_pid

        async def is_waited_for() -> bool:
            waiting = f"SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"
            return await sql(cluster, waiting) == "1"

        task = asyncio.ensure_future(asking)
        await until(is_waited_for)
        await somebody.execute(f"UPDATE tenure.office SET {changes} {where}".encode())
    with anyio.fail_after(LIMIT_S):
        return await task


async def test_an_office_that_was_taken_and_lapsed_while_a_claim_waited_is_granted(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}{TIMEOUT}") as store, from_url(f"{cluster.url}{TIMEOUT}") as rival:
        before = await wins(store, asked(election))
        await store.release(before.bid)
        grant = await overtaken(cluster, election, IS_TAKEN_AND_LAPSES, rival.claim(asked(election)))
        assert isinstance(grant, Grant)
        assert grant.token > before.token
        assert await rival.renew(grant) == grant


async def test_a_lease_begins_when_its_claim_is_carried_out(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}{TIMEOUT}") as store:
        await store.release((await wins(store, asked(election))).bid)
        # The moment after which it is carried out, kept where it does no harm.
        changes = "withdrawn = clock_timestamp()::text"
        await overtaken(cluster, election, changes, store.claim(asked(election)))
        lasts = f"expires > withdrawn::timestamptz + interval '{TTL_S} s' AND since > withdrawn::timestamptz"
        assert await sql(cluster, f"SELECT {lasts} FROM tenure.office WHERE election = '{election}'") == "t"


async def test_a_tenure_that_lapsed_while_its_renewal_waited_has_ended(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}{TIMEOUT}") as store:
        grant = await wins(store, asked(election))
        answer = await overtaken(cluster, election, LAPSES, store.renew(grant))
        assert answer == Ended(grant.bid, grant.token)


async def test_a_tenure_that_lapsed_while_its_word_waited_proclaims_nothing(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}{TIMEOUT}") as store:
        grant = await wins(store, asked(election))
        answer = await overtaken(cluster, election, LAPSES, store.proclaim(grant, "http://h"))
        assert answer == Ended(grant.bid, grant.token)


async def test_a_bid_whose_tenure_lapsed_while_it_was_repeated_gets_another_token(cluster: PostgresCluster) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}{TIMEOUT}") as store:
        grant = await wins(store, asked(election))
        again = await overtaken(cluster, election, LAPSES, store.claim(grant.bid))
        assert isinstance(again, Grant)
        assert again.token > grant.token


def test_a_wall_clock_that_leaps_by_hours_ends_no_tenure(cluster: PostgresCluster) -> None:
    told = leapt(cluster.url)
    assert told.stdout.splitlines() == OUTLIVED, told.stderr
    assert told.returncode == 0
