"""Rows that were made elsewhere: a dump in other servers, in the same one, or a copy of the whole database."""

import asyncio
from secrets import token_hex

import pytest

from tenure.errors import Refused
from tenure.stores.postgresql import from_url
from tenure.stores.postgresql.schema import creation
from tenure.stores.sql.rows import epoch_of, packed
from tenure.testing.engines import PostgresCluster
from tests.sql_rig import at, bid, sql, until, wins, wins_in_time

pytestmark = pytest.mark.anyio

ABOVE = packed(5, 100)  # of a server that was promoted four times


async def _put_back(cluster: PostgresCluster, schema: str) -> None:
    """Do what the restoring of a dump does: the same rows and the same count, in tables that are new."""
    old = f"old_{token_hex(4)}"
    await sql(
        cluster,
        f"BEGIN; ALTER SCHEMA {schema} RENAME TO {old}; {creation(schema)}; DELETE FROM {schema}.store;"
        f" INSERT INTO {schema}.store SELECT * FROM {old}.store; INSERT INTO {schema}.office SELECT * FROM {old}.office;"
        f" SELECT setval('{schema}.token', (SELECT last_value FROM {old}.token)); DROP SCHEMA {old} CASCADE; COMMIT",
    )


async def test_a_token_is_not_given_twice_by_a_failover_below_the_timeline_of_the_rows() -> None:
    with PostgresCluster(2) as pair:
        first, second = pair.nodes
        async with from_url(at(pair, 0)) as store:
            identity = store.identity
            row = f"INSERT INTO tenure.office (election, token, version, expires) VALUES ('x', {ABOVE}, 1, now())"
            await sql(pair, row, first)

            async def is_copied() -> bool:
                asked = f"SELECT count(*) FROM tenure.office WHERE token = {ABOVE}"
                return await asyncio.to_thread(pair.says, second, asked) == "1"

            async def copies_no_more() -> bool:
                return await sql(pair, "SELECT count(*) FROM pg_stat_wal_receiver", second) == "0"

            await until(is_copied)
            await sql(pair, "ALTER SYSTEM SET primary_conninfo = ''", second)
            await sql(pair, "SELECT pg_reload_conf()", second)
            await until(copies_no_more)
            asked = bid("x")
            missed = await wins(store, asked)
            await store.release(asked)
            again = await wins(store, bid("x", asked.holder, 2))
            assert again.token > missed.token
            await asyncio.to_thread(first.kill)
        await asyncio.to_thread(pair.promote, second)
        async with from_url(at(pair, 1)) as store:
            assert store.identity == identity  # so these fences are the same ones
            grant = await wins_in_time(store, bid("x"))
        assert (epoch_of(missed.token), epoch_of(again.token), epoch_of(grant.token)) == (1, 1, 2)
        assert grant.token > again.token


async def test_a_tenure_from_above_the_timeline_is_not_gone_on_with(cluster: PostgresCluster) -> None:
    async with from_url(f"{cluster.url}?schema=above_{token_hex(4)}") as store:
        grant = await wins(store, bid("x"))
        assert await wins(store, grant.bid) == grant
        await sql(cluster, f"UPDATE {store.settings.schema}.office SET token = {ABOVE}")
        anew = await wins(store, grant.bid)
        assert ABOVE > anew.token > grant.token


async def test_rows_above_a_counter_that_was_put_back_are_gone_on_from(cluster: PostgresCluster) -> None:
    async with from_url(f"{cluster.url}?schema=counted_{token_hex(4)}") as store:
        asked = bid("x")
        grants = [await wins(store, bid("x", asked.holder, serial)) for serial in range(1, 5)]
        await sql(cluster, f"SELECT setval('{store.settings.schema}.token', 1)")
        assert (await wins(store, bid("x", asked.holder, 5))).token == grants[-1].token + 1


async def test_a_dump_in_the_same_cluster_is_another_store_and_who_was_there_before_is_refused(
    cluster: PostgresCluster,
) -> None:
    url = f"{cluster.url}?schema=again_{token_hex(4)}"
    async with from_url(url) as claims, from_url(url) as renews:
        await wins(claims, bid("x"))
        grant = await wins(renews, bid("y"))
        await _put_back(cluster, claims.settings.schema)
        # Their connections are the same ones, and what they have prepared finds the new tables.
        for election in ("x", "new"):
            with pytest.raises(Refused, match="another database than before"):
                await claims.claim(bid(election))
        with pytest.raises(Refused, match="another database than before"):
            await renews.renew(grant)
        async with from_url(url) as store:
            assert store.identity != claims.identity
            assert store.identity.rpartition("/")[2] == claims.identity.rpartition("/")[2]


async def test_a_copy_of_the_database_is_another_store(cluster: PostgresCluster) -> None:
    one, two = f"one_{token_hex(4)}", f"two_{token_hex(4)}"
    await sql(cluster, f"CREATE DATABASE {one}")
    async with from_url(f"postgresql://postgres@{cluster.endpoints[0]}/{one}") as store:
        before = store.identity

    async def left() -> bool:  # once the server has seen that we left
        return await sql(cluster, f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{one}'") == "0"

    await until(left)
    await sql(cluster, f"CREATE DATABASE {two} TEMPLATE {one}")
    async with from_url(f"postgresql://postgres@{cluster.endpoints[0]}/{two}") as store:
        assert store.identity != before
