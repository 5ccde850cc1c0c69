"""Nothing of a store lives on at the server for long, whatever stands still; and nothing is left for who shares a session."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import anyio
import psycopg
import pytest

from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Ended
from tenure.stores.postgresql import PostgresStore, from_url
from tenure.testing.engines import PgBouncer, PostgresCluster
from tenure.testing.engines.processes import wait_for
from tests.sql_rig import LIMIT_S, bid, sql, until, waits, wins, wins_in_time

pytestmark = pytest.mark.anyio

LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
SHOWN = ", ".join(f"current_setting('{name}') AS {name}" for name in LIMITS)
SLEEP = "SELECT pg_sleep(600)"


async def backend_of(store: PostgresStore) -> int:
    about, _, _ = await store.engine.about("SELECT pg_backend_pid() AS pid")
    return int(about["pid"])


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Stop one process of the server, while all others of it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        assert wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T", LIMIT_S)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def is_gone(cluster: PostgresCluster, pid: int) -> bool:
    return await sql(cluster, f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}") == "0"


async def test_a_backend_that_stands_still_costs_its_store_one_answer_and_others_nothing(
    cluster: PostgresCluster,
) -> None:
    election = token_hex(4)
    async with from_url(f"{cluster.url}?timeout=1") as store, from_url(cluster.url) as rival:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        with standing_still(pid := await backend_of(store)):
            with anyio.fail_after(LIMIT_S), pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
                await store.renew(grant)
            await waits(rival, bid(election))
            assert await store.renew(grant) == grant  # over another one
            assert await backend_of(store) != pid
        await until(lambda: is_gone(cluster, pid))
        assert await store.renew(grant) == grant


async def test_an_office_whose_holders_backend_stands_still_is_taken_and_a_renewal_that_comes_late_has_no_effect(
    cluster: PostgresCluster,
) -> None:
    election = token_hex(4)
    async with from_url(cluster.url) as store, from_url(cluster.url) as rival:
        grant = await wins(store, bid(election))
        with standing_still(pid := await backend_of(store)):
            with pytest.raises(OutcomeUnknown):
                await store.renew(grant)  # which is with the server, and is carried out once the backend goes on
            taken = await wins_in_time(rival, bid(election, ttl_ns=60 * 10**9))
            assert taken.token > grant.token
        await until(lambda: is_gone(cluster, pid))
        assert await rival.renew(taken) == taken
        assert await store.renew(grant) == Ended(grant.bid, grant.token)


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_sessions_have_limits_and_a_pooler_is_given_back_one_without(
    pooled: bool, cluster: PostgresCluster
) -> None:
    with PgBouncer(cluster) as pooler:
        url = pooler.url if pooled else cluster.url
        async with from_url(f"{url}?timeout=4") as store:
            about, _, through_pooler = await store.engine.about(f"SELECT {SHOWN}")
            assert through_pooler is pooled
            assert tuple(about[name] for name in LIMITS) == ("4s", "2s", "4s")
            await wins(store, bid(token_hex(4)))
            stranger = await psycopg.AsyncConnection.connect(url, autocommit=True)
            async with stranger:
                found = await (await stranger.execute(f"SELECT {SHOWN}".encode())).fetchone()
            assert found == ("0", "0", "0")


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_a_statement_that_nobody_waits_for_any_more_is_ended_by_the_server(
    pooled: bool, cluster: PostgresCluster
) -> None:
    active = f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '{SLEEP}'"

    async def runs() -> bool:
        return await sql(cluster, active) == "1"

    async def ended() -> bool:
        return await sql(cluster, active) == "0"

    with PgBouncer(cluster) as pooler:
        async with from_url(f"{pooler.url if pooled else cluster.url}?timeout=5") as store:
            asking = asyncio.create_task(store.engine.about(SLEEP))
            await until(runs)
            with pytest.raises(StoreError):
                await asking
            await until(ended)
