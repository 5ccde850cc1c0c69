"""Nothing of what is promised depends on how the server is set, and nothing of a store lives on at the server for long."""

import asyncio
from secrets import token_hex

import pytest

from tenure.errors import StoreError
from tenure.stores.mysql import from_url
from tenure.testing.engines import MariaDbCluster
from tests.sql_rig import bid, sql, until, waits, wins

pytestmark = pytest.mark.anyio

# It computes for hours, and does not notice that its client has gone, as SLEEP would.
BUSY = "SELECT BENCHMARK(1000000000000, MD5(1))"
CARELESS = "SET GLOBAL tx_isolation = '{}', sql_mode = '{}', time_zone = '{}'"
SHOWN = (
    "SELECT @@tx_isolation AS level, @@sql_mode AS mode, @@time_zone AS zone,"
    " @@innodb_lock_wait_timeout AS lock_s, @@max_statement_time AS statement_s"
)


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE-READ", "READ-UNCOMMITTED"])
async def test_a_server_that_is_set_to_another_isolation_language_or_time_is_overruled(
    level: str, cluster: MariaDbCluster
) -> None:
    before = await sql(cluster, "SELECT @@global.tx_isolation, @@global.sql_mode, @@global.time_zone")
    await sql(cluster, CARELESS.format(level, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "+05:00"))
    try:
        async with from_url(f"{cluster.url}?timeout=4") as store, from_url(cluster.url) as rival:
            shown = await store.engine.about(SHOWN)
            assert shown == {
                "level": "READ-COMMITTED",
                "mode": "STRICT_ALL_TABLES",
                "zone": "+00:00",
                "lock_s": 2,
                "statement_s": pytest.approx(4.0),
            }
            grant = await wins(store, bid(f"o'{token_hex(4)}\\"))
            await waits(rival, bid(grant.bid.election))
            assert await store.renew(grant) == grant
    finally:
        await sql(cluster, CARELESS.format(*before.split("\t")))


async def test_a_statement_that_nobody_waits_for_any_more_is_ended_by_the_server(cluster: MariaDbCluster) -> None:
    running = f"SELECT count(*) FROM information_schema.processlist WHERE info = '{BUSY}'"

    async def ended() -> bool:
        return await sql(cluster, running) == "0"

    async with from_url(f"{cluster.url}?timeout=1") as store:
        with pytest.raises(StoreError, match=r"no answer within 1 s|max_statement_time"):
            await store.engine.about(BUSY)
        await until(ended)


async def test_all_elections_of_a_store_and_those_who_wait_share_one_connection(cluster: MariaDbCluster) -> None:
    user = f"one_{token_hex(4)}"
    await sql(cluster, f"CREATE USER {user}@'%'; GRANT ALL ON test.* TO {user}@'%'")

    async def connections() -> int:
        listed = (await sql(cluster, "SHOW PROCESSLIST")).splitlines()
        return sum(line.split("\t")[1] == user for line in listed)

    async def gone() -> bool:
        return await connections() == 0

    async with (
        from_url(cluster.url) as holder,
        from_url(cluster.url.replace("root@", f"{user}@") + "?timeout=30") as one,
    ):
        await asyncio.gather(*(wins(one, bid(token_hex(4), ttl_ns=60 * 10**9)) for _ in range(12)))
        assert await connections() == 1
        grants = [await wins(holder, bid(token_hex(4), ttl_ns=60 * 10**9)) for _ in range(12)]
        asked = [await waits(one, bid(grant.bid.election)) for grant in grants]
        waiting = [asyncio.create_task(one.changed(wait)) for wait in asked]

        async def all_wait() -> bool:
            return len(one._lookout._waiting) == len(waiting)

        await until(all_wait)
        assert await connections() == 1
        for grant in grants:
            await holder.release(grant.bid)
        await asyncio.gather(*waiting)
        assert await connections() == 1
    await until(gone)
