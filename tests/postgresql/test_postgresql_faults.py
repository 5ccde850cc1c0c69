"""What becomes of an office when the server, a connection or a clock fails."""

import asyncio
from datetime import timedelta
from secrets import token_hex

import anyio
import psycopg
import pytest

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.model import Ended, Grant, Holder
from tenure.stores.postgresql import PostgresStore, from_url
from tenure.stores.postgresql.settings import settings_of
from tenure.stores.sql.rows import epoch_of
from tenure.testing.engines import PostgresCluster
from tests.leaping import LeapingClock
from tests.postgresql.scuffle import scuffle
from tests.postgresql.stepping import SteppingPostgres
from tests.sql_rig import LIMIT_S, TTL_NS, at, bid, sql, until, waits, wins, wins_in_time

pytestmark = pytest.mark.anyio

OBSERVER = "?expiry=observer&poll=0.1"
LONG_NS = 60 * 10**9
OURS = "pid <> pg_backend_pid() AND application_name = 'tenure'"


def a_name() -> str:
    return f"faults/{token_hex(4)}"


async def test_a_tenure_outlives_a_server_that_is_killed_and_started_again(cluster: PostgresCluster) -> None:
    async with from_url(cluster.url) as store:
        asked = bid(a_name(), ttl_ns=60 * 10**9)
        grant = await wins(store, asked)
        await asyncio.to_thread(cluster.restart)
        answers: list[object] = []

        async def renewed() -> bool:
            try:
                answers.append(await store.renew(grant))
            except StoreError:
                return False
            return True

        await until(renewed)
        assert answers == [grant]


async def test_a_backend_that_is_ended_from_outside_costs_a_question_and_no_office(cluster: PostgresCluster) -> None:
    async with from_url(cluster.url) as store:
        asked = bid(a_name())
        grant = await wins(store, asked)
        await sql(cluster, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
        assert await wins_in_time(store, asked) == grant


async def test_a_server_that_stands_still_is_not_waited_for_and_its_answer_is_unknown(cluster: PostgresCluster) -> None:
    async with from_url(f"{cluster.url}?timeout=1") as store:
        asked = bid(a_name(), ttl_ns=60 * 10**9)
        await store.read(asked.election)
        cluster.nodes[0].pause()
        try:
            with anyio.fail_after(LIMIT_S), pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
                await store.claim(asked)
        finally:
            cluster.nodes[0].resume()
        # The claim was carried out when the server went on, or was not: asking again finds out.
        grant = await wins_in_time(store, asked)
        assert await store.renew(grant) == grant


async def test_a_claim_that_arrives_after_its_release_has_no_effect(cluster: PostgresCluster) -> None:
    election = a_name()
    async with from_url(f"{cluster.url}?timeout=1") as store, from_url(cluster.url) as other:
        late = bid(election, ttl_ns=60 * 10**9)
        await wins(other, bid(election, first := Holder.fresh()))
        await other.release(bid(election, first))
        for serial in (1, 2):  # twice: the second one finds the mark of the first in the row
            again = bid(election, late.holder, serial, late.ttl_ns)
            cluster.nodes[0].pause()
            try:
                with pytest.raises(OutcomeUnknown):
                    await store.claim(again)
            finally:
                cluster.nodes[0].resume()

            async def released(again: object = again) -> bool:
                try:
                    await store.release(again)  # type: ignore[arg-type]
                except StoreError:
                    return False
                return True

            await until(released)
            repeated = from_url(cluster.url)
            async with repeated:  # What was on its way, sent once more by hand: it comes too late.
                assert not isinstance(await repeated.claim(again), Grant)
        await wins(other, bid(election))


async def test_a_row_that_somebody_keeps_locked_is_told_of_and_others_go_on(cluster: PostgresCluster) -> None:
    election = a_name()
    async with from_url(f"{cluster.url}?timeout=1") as store:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        async with await psycopg.AsyncConnection.connect(cluster.url) as somebody:
            await somebody.execute("SELECT 1 FROM tenure.office WHERE election = %s FOR UPDATE", (election,))
            with pytest.raises(Refused, match="keeps the row locked"):
                await store.renew(grant)
            await wins(store, bid(a_name()))
        assert await store.renew(grant) == grant


async def test_a_standby_is_refused_and_once_promoted_gives_higher_tokens_though_it_missed_the_last_ones() -> None:
    with PostgresCluster(2) as pair:
        election = a_name()
        first, second = pair.nodes
        with pytest.raises(Refused, match="is a standby, which takes no writes"):
            async with from_url(at(pair, 1)):
                pass
        # Named beside the primary, it is passed over, wherever it stands.
        both = f"postgresql://postgres@{pair.endpoints[1]},{pair.endpoints[0]}/postgres?target_session_attrs=read-write"
        async with from_url(both) as store:
            assert await store.read(election) is None
        async with from_url(at(pair, 0)) as store:
            known = await wins(store, bid(election, holder := Holder.fresh()))
            copied = f"SELECT count(*) FROM tenure.office WHERE token = {known.token}"

            async def is_copied() -> bool:  # It may not have the table yet, of which it says nothing.
                return await asyncio.to_thread(pair.says, second, copied) == "1"

            await until(is_copied)
            await sql(pair, "ALTER SYSTEM SET primary_conninfo = ''", second)
            await sql(pair, "SELECT pg_reload_conf()", second)
            await until(lambda: _copies_no_more(pair))
            missed = [await wins(store, bid(election, holder, serial)) for serial in range(2, 60)]
            await asyncio.to_thread(first.kill)
        assert await sql(pair, copied, second) == "1"  # It knows nothing of what came after that.
        await asyncio.to_thread(pair.promote, second)
        await sql(pair, "UPDATE tenure.office SET expires = clock_timestamp()", second)  # and a ttl has passed
        async with from_url(pair.url) as store:
            grant = await wins_in_time(store, bid(election))
        assert (epoch_of(missed[-1].token), epoch_of(grant.token)) == (1, 2)
        assert grant.token > missed[-1].token > known.token


async def test_of_two_primaries_the_later_one_is_kept_to_and_its_tokens_are_higher() -> None:
    with PostgresCluster(2) as pair:
        election = a_name()
        first, second = pair.nodes
        async with from_url(at(pair, 0)) as old, from_url(pair.url) as both:
            stale = await wins(old, bid(election))
            await until(lambda: _is_there(pair, election))
            await asyncio.to_thread(pair.promote, second)
            # The old one runs on and knows nothing of it: its leader is renewed there, and only a fence tells them apart.
            assert await old.renew(stale) == stale
            await sql(pair, "UPDATE tenure.office SET expires = clock_timestamp()", second)  # and a ttl has passed
            async with from_url(at(pair, 1)) as new:
                fresh = await wins_in_time(new, bid(election))
            assert fresh.token > stale.token
            # Whoever has been at the later one does not go back.
            await asyncio.to_thread(first.kill)
            await wins_in_time(both, bid(a_name()))
            await asyncio.to_thread(first.start)
            await asyncio.to_thread(second.kill)
            with pytest.raises(Unreachable, match="is on timeline 1, and another server was on 2 already"):
                await both.read(election)
            await asyncio.to_thread(second.start)


async def _copies_no_more(pair: PostgresCluster) -> bool:
    return await sql(pair, "SELECT count(*) FROM pg_stat_wal_receiver", pair.nodes[1]) == "0"


async def _is_there(pair: PostgresCluster, election: str) -> bool:
    asked = f"SELECT count(*) FROM tenure.office WHERE election = '{election}'"
    return await asyncio.to_thread(pair.says, pair.nodes[1], asked) == "1"


async def test_a_step_of_the_servers_clock_ends_a_lease_early_unless_observers_judge() -> None:
    clock = LeapingClock()
    with SteppingPostgres() as cluster:
        at_observer = f"{cluster.url}{OBSERVER}"
        leaper = PostgresStore(settings_of(at_observer), clock=clock)
        async with (
            from_url(cluster.url) as store,
            from_url(cluster.url) as rival,
            from_url(at_observer) as calm,
            leaper,
        ):
            early, kept = await wins(store, bid("early", ttl_ns=LONG_NS)), await wins(calm, bid("kept", ttl_ns=LONG_NS))
            await waits(rival, bid("early"))
            await waits(leaper, bid("kept"))
            cluster.step_to(timedelta(hours=1))
            # Where the server judges, that hands the office over; the token rises, so that a fence knows.
            assert (await wins(rival, bid("early"))).token > early.token
            assert await store.renew(early) == Ended(early.bid, early.token)
            # The same step, where observers judge.
            await waits(leaper, bid("kept"))
            assert await calm.renew(kept) == kept
            await waits(leaper, bid("kept"))
            # Nor does a clock that goes back keep an office for one who is gone.
            cluster.step_to(timedelta(hours=-1))
            clock.ahead_ns += LONG_NS + 10**9
            assert (await wins(leaper, bid("kept"))).token > kept.token


async def test_an_observer_whose_own_clock_leaps_takes_nothing_that_it_has_not_seen_unchanged(
    cluster: PostgresCluster,
) -> None:
    election, clock = a_name(), LeapingClock()
    leaper = PostgresStore(settings_of(f"{cluster.url}{OBSERVER}"), clock=clock)
    async with from_url(f"{cluster.url}{OBSERVER}") as store, leaper:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        await waits(leaper, bid(election))
        assert await store.renew(grant) == grant
        clock.ahead_ns += 3600 * 10**9
        # The row was renewed while it slept, so it begins to count anew.
        await waits(leaper, bid(election))
        clock.ahead_ns += 61 * 10**9
        taken = await wins(leaper, bid(election))
        assert taken.token > grant.token
        own = await wins(leaper, bid(f"{election}/own", ttl_ns=TTL_NS))
        clock.ahead_ns += 3600 * 10**9
        assert await leaper.renew(own) == Ended(own.bid, own.token)  # It may have been anybody's meanwhile.


async def test_a_leap_of_our_clock_changes_nothing_where_the_server_judges(cluster: PostgresCluster) -> None:
    clock = LeapingClock()
    async with PostgresStore(settings_of(cluster.url), clock=clock) as store:
        grant = await wins(store, bid(a_name()))
        clock.ahead_ns += 3600 * 10**9
        assert await store.renew(grant) == grant


async def test_a_role_that_is_set_to_careless_commits_and_strict_isolation_is_overruled(
    cluster: PostgresCluster,
) -> None:
    careless = f"careless_{token_hex(4)}"
    await sql(cluster, f"CREATE ROLE {careless} SUPERUSER LOGIN; ALTER ROLE {careless} SET synchronous_commit = off")
    await sql(cluster, f"ALTER ROLE {careless} SET default_transaction_isolation = 'serializable'")
    async with from_url(cluster.url.replace("postgres@", f"{careless}@")) as store:
        await wins(store, bid(a_name()))
        set_to, _, _ = await store.engine.about(
            "SELECT current_setting('synchronous_commit') AS sync, current_setting('transaction_isolation') AS level"
        )
        assert set_to == {"sync": "on", "level": "read committed"}


async def test_a_disk_that_is_put_back_is_noticed_by_who_has_seen_more(cluster: PostgresCluster) -> None:
    schema = f"back_{token_hex(4)}"
    async with from_url(f"{cluster.url}?schema={schema}") as store:
        grant = await wins(store, bid("x"))
        await wins(store, bid("y"))
        await sql(cluster, f"SELECT setval('{schema}.token', 1)")
        await sql(cluster, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
        said: list[str] = []

        async def refused() -> bool:
            try:
                await store.renew(grant)
            except Refused as error:
                said.append(str(error))
            except StoreError:
                pass
            return bool(said)

        await until(refused)
        assert f"{schema}.token has gone back" in said[0]
        await sql(cluster, f"SELECT setval('{schema}.token', 2)")
        again = await wins_in_time(store, bid("z"))
        assert again.token > grant.token + 1


async def test_a_table_that_is_altered_costs_a_question_and_no_more(cluster: PostgresCluster) -> None:
    schema = f"altered_{token_hex(4)}"
    async with from_url(f"{cluster.url}?schema={schema}") as store:
        asked = bid("x")
        grant = await wins(store, asked)
        await sql(cluster, f"ALTER TABLE {schema}.office ALTER advertised TYPE varchar(4096), ADD note text")
        assert await wins_in_time(store, asked) == grant


@pytest.mark.timeout(120)
async def test_no_two_are_in_office_while_connections_are_ended_at_any_moment(cluster: PostgresCluster) -> None:
    url = f"{cluster.url}?schema=scuffle_{token_hex(4)}"
    end_all = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}"
    tokens = await scuffle(lambda: from_url(url), lambda: sql(cluster, end_all), rounds=8)
    assert tokens == sorted(set(tokens))
    assert len(tokens) >= 40
