"""What becomes of an office when the server, a connection or a clock fails. All of it was run on MariaDB."""

import asyncio
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import timedelta
from secrets import token_hex

import anyio
import pytest

from tenure.errors import OutcomeUnknown, Refused, StoreError
from tenure.model import Bid, Ended, Grant, Holder
from tenure.stores.mysql import MySqlStore, from_url
from tenure.stores.mysql.session import MySqlSession
from tenure.stores.mysql.settings import settings_of
from tenure.stores.sql.rows import epoch_of, packed
from tenure.testing.engines import EngineFailed, MariaDbCluster
from tests.leaping import LeapingClock
from tests.postgresql.scuffle import scuffle
from tests.postgresql.stepping import SteppingMariaDb
from tests.sinks.mysql_rig import connected
from tests.sql_rig import LIMIT_S, at, bid, sql, until, waits, wins, wins_in_time

pytestmark = pytest.mark.anyio

OBSERVER = "?expiry=observer&poll=0.1"
LONG_NS = 60 * 10**9


def a_name() -> str:
    return f"faults/{token_hex(4)}"


async def test_a_tenure_outlives_a_server_that_is_killed_and_started_again(cluster: MariaDbCluster) -> None:
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid(a_name(), ttl_ns=60 * 10**9))
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


async def test_a_connection_that_is_killed_costs_a_question_and_no_office(cluster: MariaDbCluster) -> None:
    async with from_url(cluster.url) as store:
        asked = bid(a_name(), ttl_ns=LONG_NS)
        grant = await wins(store, asked)
        ids = await sql(cluster, "SELECT id FROM information_schema.processlist WHERE db = 'test'")
        for number in ids.split():
            with suppress(EngineFailed):  # It has ended by itself.
                await sql(cluster, f"KILL {number}")
        assert await wins_in_time(store, asked) == grant


async def test_a_server_that_stands_still_is_not_waited_for_and_a_late_claim_has_no_effect(
    cluster: MariaDbCluster,
) -> None:
    async with from_url(f"{cluster.url}?timeout=1") as store, from_url(cluster.url) as other:
        asked = bid(a_name(), ttl_ns=60 * 10**9)
        await store.read(asked.election)
        cluster.nodes[0].pause()
        try:
            with anyio.fail_after(LIMIT_S), pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
                await store.claim(asked)
        finally:
            cluster.nodes[0].resume()

        async def released() -> bool:
            try:
                await store.release(asked)
            except StoreError:
                return False
            return True

        await until(released)
        assert not isinstance(await other.claim(asked), Grant)  # What was on its way, once more: it comes too late.
        await wins(other, bid(asked.election))


async def test_a_row_that_somebody_keeps_locked_is_told_of_and_others_go_on(cluster: MariaDbCluster) -> None:
    election = a_name()
    async with from_url(f"{cluster.url}?timeout=2") as store:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        with closing(connected(cluster.url)) as somebody:
            lock = "SELECT 1 FROM tenure_office WHERE election = %s FOR UPDATE"
            await asyncio.to_thread(somebody.cursor().execute, lock, (election.encode(),))
            with pytest.raises(Refused, match="keeps the row locked"):
                await store.renew(grant)
            await wins(store, bid(a_name()))
            await asyncio.to_thread(somebody.rollback)
        assert await store.renew(grant) == grant


async def _count(pair: MariaDbCluster, election: str) -> bool:
    # It may not have the table yet, of which it says nothing.
    asked = f"SELECT COUNT(*) FROM test.tenure_office WHERE election = '{election}'"
    return await asyncio.to_thread(pair.says, pair.nodes[1], asked) == "1"


async def test_tokens_rise_through_the_promotion_of_a_replica_that_missed_the_last_ones() -> None:
    with MariaDbCluster(2) as pair:
        election = a_name()
        first, second = pair.nodes
        with pytest.raises(Refused, match="is read-only, as a replica is"):
            async with from_url(at(pair, 1)):
                pass
        async with from_url(at(pair, 0)) as store:
            known = await wins(store, bid(election, holder := Holder.fresh()))
            await until(lambda: _count(pair, election))
            await sql(pair, "STOP SLAVE", second)
            missed = [await wins(store, bid(election, holder, serial)) for serial in range(2, 30)]
            await asyncio.to_thread(first.kill)
        await asyncio.to_thread(pair.promote, second)
        await sql(pair, "UPDATE test.tenure_office SET expires_us = 0", second)  # and a ttl has passed
        async with from_url(pair.url) as store:
            grant = await wins_in_time(store, bid(election))
            assert (epoch_of(missed[-1].token), epoch_of(grant.token)) == (1, 2)
            assert grant.token > missed[-1].token > known.token
            later = await wins(store, bid(a_name()))
            assert epoch_of(later.token) == 2  # It is the same primary still.
            # Whoever has been at the later primary does not go back to the one before it.
            await asyncio.to_thread(second.kill)
            await asyncio.to_thread(first.start)

            async def refused() -> bool:
                try:
                    await store.read(election)
                except StoreError as error:
                    return "has gone back" in str(error)
                return False

            await until(refused)


async def test_a_primary_that_is_made_read_only_is_left(cluster: MariaDbCluster) -> None:
    user = f"app_{token_hex(4)}"
    await sql(cluster, f"CREATE USER {user}@'%'; GRANT ALL ON test.* TO {user}@'%'")
    async with from_url(cluster.url.replace("root@", f"{user}@")) as store, from_url(cluster.url) as root:
        grants = [await wins(each, bid(a_name())) for each in (store, root)]
        await sql(cluster, "SET GLOBAL read_only = 1")
        try:
            for each, grant in zip((store, root), grants, strict=True):
                with pytest.raises(Refused, match="read-only"):
                    await each.renew(grant)
                with pytest.raises(Refused, match="read-only"):
                    await each.read(grant.bid.election)
        finally:
            await sql(cluster, "SET GLOBAL read_only = 0")
        assert await store.renew(grants[0]) == grants[0]


async def test_an_election_without_a_row_is_not_won_on_a_server_that_was_made_read_only(
    cluster: MariaDbCluster,
) -> None:
    async with from_url(cluster.url) as root:
        await root.read(a_name())
        await sql(
            cluster, "SET GLOBAL read_only = 1"
        )  # under a connection that is open, and of one who may write still
        try:
            with pytest.raises(Refused, match="read-only"):
                await root.claim(bid(election := a_name()))
        finally:
            await sql(cluster, "SET GLOBAL read_only = 0")
        await wins(root, bid(election))


async def test_a_row_above_the_counter_is_refused_until_the_counter_is_put_above_it(cluster: MariaDbCluster) -> None:
    """Counting on from a row gives a token again, once a replica that missed it was promoted and has counted another election."""
    prefix = f"above_{token_hex(4)}_"
    async with from_url(f"{cluster.url}?prefix={prefix}") as store:
        asked = bid("x")
        await wins(store, asked)
        await sql(cluster, f"UPDATE test.{prefix}office SET token = {packed(5, 7)}, nonce = NULL")
        with pytest.raises(Refused, match=f"Set last_token to {packed(6, 0)} or more"):
            await store.claim(asked)
        await sql(cluster, f"UPDATE test.{prefix}store SET last_token = {packed(6, 0)}")
        assert (await wins(store, asked)).token == packed(6, 1)
        # Another server begins above both.
        await sql(cluster, f"UPDATE test.{prefix}office SET token = {packed(7, 7)}, nonce = NULL")
        await sql(cluster, f"UPDATE test.{prefix}store SET server = 'before'")
        assert (await wins(store, asked)).token == packed(8, 1)


async def test_a_tenure_that_was_not_prolonged_is_not_called_renewed_by_a_clock_that_steps_back(
    cluster: MariaDbCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = a_name()
    where = f"WHERE election = '{election}'"
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        before = int(await sql(cluster, f"SELECT expires_us FROM test.tenure_office {where}"))
        run, steps = MySqlSession.run, [f"expires_us - {10**12}", f"expires_us + {10**12}"]

        async def stepping(session: MySqlSession, statement: str, arguments: Sequence[object] = ()) -> tuple[int, int]:
            if not steps:
                return await run(session, statement, arguments)
            await sql(cluster, f"UPDATE test.tenure_office SET expires_us = {steps.pop(0)} {where}")
            changed = await run(session, statement, arguments)
            await sql(cluster, f"UPDATE test.tenure_office SET expires_us = {steps.pop(0)} {where}")
            return changed

        monkeypatch.setattr(MySqlSession, "run", stepping)
        assert await store.renew(grant) == grant
        assert steps == []
        assert int(await sql(cluster, f"SELECT expires_us FROM test.tenure_office {where}")) > before


async def test_a_backup_that_is_put_back_is_noticed_by_who_has_seen_more(cluster: MariaDbCluster) -> None:
    prefix = f"back_{token_hex(4)}_"
    async with from_url(f"{cluster.url}?prefix={prefix}") as store:
        asked = bid("x")
        await wins(store, asked)
        await sql(cluster, f"UPDATE test.{prefix}store SET last_token = last_token - 1")
        await asyncio.to_thread(cluster.restart)
        said: list[str] = []

        async def refused() -> bool:
            try:
                await store.claim(Bid("y", asked.holder, 1, asked.ttl_ns))
            except Refused as error:
                said.append(str(error))
            except StoreError:
                pass
            return bool(said)

        await until(refused)
        assert "has gone back to" in said[0]


async def test_a_step_of_the_servers_clock_ends_a_lease_early_unless_observers_judge() -> None:
    clock = LeapingClock()
    with SteppingMariaDb() as cluster:
        at_observer = f"{cluster.url}{OBSERVER}"
        leaper = MySqlStore(settings_of(at_observer), clock=clock)
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


async def test_a_leap_of_our_clock_changes_nothing_where_the_server_judges(cluster: MariaDbCluster) -> None:
    clock = LeapingClock()
    async with MySqlStore(settings_of(cluster.url), clock=clock) as store:
        grant = await wins(store, bid(a_name()))
        clock.ahead_ns += 3600 * 10**9
        assert await store.renew(grant) == grant


async def test_an_observer_whose_own_clock_leaps_counts_anew_what_has_changed(cluster: MariaDbCluster) -> None:
    election, clock = a_name(), LeapingClock()
    leaper = MySqlStore(settings_of(f"{cluster.url}{OBSERVER}"), clock=clock)
    async with from_url(f"{cluster.url}{OBSERVER}") as store, leaper:
        grant = await wins(store, bid(election, ttl_ns=60 * 10**9))
        await waits(leaper, bid(election))
        assert await store.renew(grant) == grant
        clock.ahead_ns += 3600 * 10**9
        await waits(leaper, bid(election))
        clock.ahead_ns += 61 * 10**9
        taken = await wins(leaper, bid(election))
        assert taken.token > grant.token


@pytest.mark.timeout(120)
async def test_no_two_are_in_office_while_connections_are_ended_at_any_moment(cluster: MariaDbCluster) -> None:
    url = f"{cluster.url}?prefix=scuffle_{token_hex(4)}_"

    async def end_all() -> None:
        ids = await sql(cluster, "SELECT id FROM information_schema.processlist WHERE db = 'test'")
        for number in ids.split():
            with suppress(EngineFailed):  # It has ended by itself.
                await sql(cluster, f"KILL {number}")

    tokens = await scuffle(lambda: from_url(url), end_all, rounds=6)
    assert tokens == sorted(set(tokens))
    assert len(tokens) >= 30
