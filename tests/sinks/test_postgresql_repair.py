"""A fence in PostgreSQL is lowered by its owner, in one step with the record, and by nobody else."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from anyio import to_thread

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound
from tenure.sinks.postgresql import PostgresSink, PsycopgSink, grants_sql, guard, set_up_sql
from tenure.testing.engines import PostgresCluster
from tenure.testing.engines.processes import wait_for
from tests.sinks.repairs import POISON, WHY, Place, check_command, check_race, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    async with sink.transaction(term):
        pass


def place_at(cluster: PostgresCluster, fence: str) -> Place:
    return Place(cluster.url, f"repair/{fence}", lambda verify=None: PostgresSink(cluster.url, verify=verify), write)


@pytest.fixture
def leader(postgresql: PostgresCluster) -> Iterator[str]:
    """The URL of a role that has what leaders are given."""
    postgresql.sql(set_up_sql())
    postgresql.sql("CREATE ROLE leader LOGIN")
    postgresql.sql(grants_sql("leader"))
    yield postgresql.url.replace("postgres@", "leader@")
    postgresql.sql("DROP OWNED BY leader; DROP ROLE leader")


def test_a_fence_is_lowered_and_sinks_that_remember_are_right(postgresql: PostgresCluster) -> None:
    asyncio.run(check_repair(place_at(postgresql, "story")))
    row = postgresql.sql(
        "SELECT lowered_by, lowered_at > now() - interval '1 hour' FROM tenure_fence.repairs WHERE fence = 'repair/story' LIMIT 1"
    )
    assert row == "postgres|t"


def test_by_the_command_line(postgresql: PostgresCluster) -> None:
    place, secret = place_at(postgresql, "command"), "geheim"  # which this server does not ask for
    check_command(place._replace(target=place.target.replace("postgres@", f"postgres:{secret}@")), secret)


def test_a_role_of_leaders_may_not(leader: str, postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "role")

    async def run() -> None:
        async with PostgresSink(leader) as sink:
            await sink.seal(place.fence, Token(POISON))
        with pytest.raises(Refused, match=r"leader may not lower a fence: only who owns the schema tenure_fence"):
            await place._replace(target=leader).lower(POISON, 7)
        raw = await asyncpg.connect(leader)
        try:
            for sql in (
                f"SELECT tenure_fence.lower_fence('{place.fence}', {POISON}, 7, 'me', 'now', 'why', 2000)",
                "UPDATE tenure_fence.fences SET highest = 7",
                "DELETE FROM tenure_fence.fences",
                "DELETE FROM tenure_fence.repairs",
                "INSERT INTO tenure_fence.repairs (fence, was, now, who, \"when\", why) VALUES ('f', 2, 1, '', '', '')",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await raw.execute(sql)
        finally:
            await raw.close()
        assert await place.look() == ({place.fence: POISON}, ())

    asyncio.run(run())
    told = refused_in_one_line(69, "show", leader)
    assert "only who owns the schema tenure_fence, or a superuser, may look" in told


def test_it_waits_for_transactions_that_have_checked_and_refuses_who_checks_later(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "checked")
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        raw = await asyncpg.connect(postgresql.url)
        try:
            held = raw.transaction()
            await held.start()
            await guard(raw, place.term(POISON), sealed_only=True)
            lowering = asyncio.create_task(place.lower(POISON, 7))
            assert await to_thread.run_sync(wait_for, lambda: postgresql.sql(waiting) == "1", 30)
            assert (await place.look()).highest == {place.fence: POISON}
            await held.commit()
            await lowering
            assert (await place.look()).highest == {place.fence: 7}
            with pytest.raises(UnverifiedToken):
                async with raw.transaction():
                    await guard(raw, place.term(POISON), sealed_only=True)
        finally:
            await raw.close()

    asyncio.run(run())


def test_who_keeps_the_fence_is_named_and_nothing_is_changed(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "kept")

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        raw = await asyncpg.connect(postgresql.url)
        try:
            async with raw.transaction():
                await guard(raw, place.term(POISON), sealed_only=True)
                with pytest.raises(Refused, match="a transaction that has checked its token keeps the fence"):
                    await place.lower(POISON, 7)
        finally:
            await raw.close()
        assert await place.look() == ({place.fence: POISON}, ())
        await place.lower(POISON, 7)

    asyncio.run(run())


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_an_old_view_of_the_fence_lets_nobody_in(level: str, postgresql: PostgresCluster) -> None:
    """The poisoner began before the lowering and checks after it: in its view, the fence stands where it was."""
    place = place_at(postgresql, level)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        raw = await asyncpg.connect(postgresql.url)
        try:
            for now in (7, 0):
                before = (await place.look()).highest[place.fence]
                old = raw.transaction(isolation=level)
                await old.start()
                await raw.fetch("SELECT count(*) FROM pg_class")  # Its view is taken here.
                await place.lower(before, now)
                with pytest.raises(asyncpg.SerializationError):
                    await guard(raw, place.term(before), sealed_only=True)
                await old.rollback()
        finally:
            await raw.close()

    asyncio.run(run())


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_whatever_level_the_owner_has_by_default(level: str, postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, f"default/{level}")
    postgresql.sql(f"ALTER ROLE postgres SET default_transaction_isolation = '{level}'")
    try:
        asyncio.run(check_race(place))
    finally:
        postgresql.sql("ALTER ROLE postgres RESET default_transaction_isolation")


def test_a_seal_at_the_same_time_and_the_repair_are_one_after_the_other(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "seals")

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            for turn in range(10):
                top = POISON + 2 * turn
                await sink.seal(place.fence, Token(top))
                both = asyncio.gather(
                    sink.seal(place.fence, Token(top + 1)), place.lower(top, 7), return_exceptions=True
                )
                _, repaired = await both
                found = await place.look()
                # Before the seal, which then has the last word; or after it, and then the fence was elsewhere.
                assert found.highest == {place.fence: top + 1}
                assert isinstance(repaired, ConfigError) or repaired == found.repairs[-1]

    asyncio.run(run())


def test_a_database_that_was_set_up_before_there_were_repairs(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "older")

    async def run() -> None:
        async with place.open() as sink:
            await sink.seal(place.fence, Token(POISON))
        postgresql.sql("DROP FUNCTION tenure_fence.lower_fence; DROP TABLE tenure_fence.repairs")
        assert await place.look() == ({place.fence: POISON}, ())
        repair = await place.lower(POISON, 7)
        assert await place.look() == ({place.fence: 7}, (repair,))

    asyncio.run(run())


def test_threads_that_remember_are_right_too(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "threads")
    with PsycopgSink(postgresql.url, verify=lambda _, token: token < POISON) as sink:
        asyncio.run(PostgresSink(postgresql.url).seal(place.fence, Token(POISON)))
        with sink.transaction(place.term(POISON)):
            pass
        asyncio.run(place.lower(POISON, 7))
        with pytest.raises(UnverifiedToken), sink.transaction(place.term(POISON)):
            pass
        with pytest.raises(UnverifiedToken), sink.transaction(place.term(POISON)):
            pass
        with sink.transaction(place.term(8)):
            pass
        with pytest.raises(StaleToken), sink.transaction(place.term(7)):
            pass


def test_what_cannot_be_asked_is_told_in_one_line(postgresql: PostgresCluster) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    dead = "postgresql://me:geheim@127.0.0.1:1/books"
    assert "was not sent" in refused_in_one_line(69, "show", dead, secret="geheim")
    assert "was not sent" in refused_in_one_line(69, "lower", dead, *lower, secret="geheim")
    broken = "postgresql://me:ge#he/im@127.0.0.1:port/books"
    assert "cannot be read" in refused_in_one_line(69, "show", broken, secret="he/im")
    unknown = "oracle://me:geheim@127.0.0.1/books"
    assert "must be a folder, the file of a database, or one of" in refused_in_one_line(
        2, "show", unknown, secret="geheim"
    )
    postgresql.sql("CREATE DATABASE empty")
    empty = postgresql.url.rpartition("/")[0] + "/empty"
    assert "has no fences" in refused_in_one_line(2, "show", empty)
    assert "has no fences" in refused_in_one_line(2, "lower", empty, *lower)
    assert postgresql.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'tenure_fence'", database="empty") == "0"
    assert "is for places whose sinks take it" in refused_in_one_line(2, "show", empty, "--fences", "x")


def test_a_server_that_ends_the_session_leaves_the_outcome_unknown(postgresql: PostgresCluster) -> None:
    place = place_at(postgresql, "ended")
    end = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(place.fence, Token(POISON))
        raw = await asyncpg.connect(postgresql.url)
        try:
            async with raw.transaction():
                await guard(raw, place.term(POISON), sealed_only=True)
                lowering = asyncio.create_task(place.lower(POISON, 7))
                assert await to_thread.run_sync(wait_for, lambda: postgresql.sql(end) == "1", 30)
                with pytest.raises(OutcomeUnknown, match="repair has no known outcome"):
                    await lowering
        finally:
            await raw.close()
        assert await place.look() == ({place.fence: POISON}, ())

    asyncio.run(run())
