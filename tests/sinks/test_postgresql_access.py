"""Wrong passwords, missing rights, servers that take no writes, and input that makes no sense: one clear line, nothing written."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import ConfigError, Refused, StaleToken, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import fences_of
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink, grants_sql, set_up_sql
from tenure.sinks.sql.flow import Limits
from tenure.testing.engines import EngineFailed, PostgresCluster

KINDS = [PostgresSink, AsyncPsycopgSink, PsycopgSink]
ASYNC_KINDS = KINDS[:2]


def sealed(kind: type[Any], url: str, fence: str, token: int) -> None:
    async def run() -> None:
        sink = kind(url)
        try:
            await sink.seal(fence, Token(token))
        finally:
            if kind is PsycopgSink:
                sink.close()
            else:
                await sink.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_is_unreachable(kind: type[Any]) -> None:
    with pytest.raises(Unreachable, match=r"postgresql sink 127.0.0.1:1/books: seal was not sent") as told:
        sealed(kind, "postgresql://me:geheim@127.0.0.1:1/books", "f", 1)
    assert "geheim" not in repr(told.value) + str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_password_is_refused_and_not_shown(kind: type[Any]) -> None:
    with PostgresCluster(password="geheim") as cluster:
        with pytest.raises(Refused, match="password authentication failed") as told:
            sealed(kind, cluster.url.replace("geheim", "verkehrt"), "f", 1)
        assert "verkehrt" not in repr(told.value) + str(told.value)
        with pytest.raises(Refused, match="password authentication failed") as told:
            fences_of(cluster.url.replace("geheim", "verkehrt"))
        assert "verkehrt" not in repr(told.value) + str(told.value)
        sealed(kind, cluster.url, "f", 1)
        assert fences_of(cluster.url).highest == {"f": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_role_needs_the_rights_that_are_printed_and_no_more(kind: type[Any], postgresql: PostgresCluster) -> None:
    postgresql.sql(set_up_sql())
    postgresql.sql('CREATE ROLE "Leader" LOGIN')
    url = postgresql.url.replace("postgres@", "Leader@")
    fence = f"rights/{kind.__name__}"
    try:
        with pytest.raises(Refused, match=r"permission denied for schema tenure_fence.*grants_sql"):
            sealed(kind, url, fence, 1)
        postgresql.sql(grants_sql("Leader"))
        sealed(kind, url, fence, 2)
        with pytest.raises(StaleToken):
            sealed(kind, url, fence, 1)
        who = postgresql.sql(f"SELECT raised_by FROM tenure_fence.fences WHERE fence = '{fence}'")  # noqa: S608
        assert who == "Leader"
    finally:
        postgresql.sql('DROP OWNED BY "Leader"; DROP ROLE "Leader"')


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_takes_no_writes_is_refused(kind: type[Any], postgresql: PostgresCluster) -> None:
    sealed(kind, postgresql.url, "read-only", 1)
    postgresql.sql("ALTER ROLE postgres SET default_transaction_read_only = on")
    try:
        with pytest.raises(Refused, match="the server is read-only: name the primary"):
            sealed(kind, postgresql.url, "read-only", 2)
    finally:
        postgresql.sql(
            "SET default_transaction_read_only = off; ALTER ROLE postgres RESET default_transaction_read_only"
        )


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, "7", 7.0, None, True])
@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_what_is_no_token_is_refused_before_anything_is_asked(kind: type[Any], token: Any) -> None:
    with pytest.raises(ConfigError, match="token"):
        sealed(kind, "postgresql://127.0.0.1:1/", "f", token)
    with pytest.raises(ConfigError, match="token"):
        kind("postgresql://127.0.0.1:1/").transaction(SimpleNamespace(fence="f", token=token))


@pytest.mark.parametrize("fence", ["", "a\0b", "x" * 1001])
def test_what_is_no_fence_is_refused_before_anything_is_asked(fence: str) -> None:
    with pytest.raises(ConfigError, match="fence"):
        sealed(PostgresSink, "postgresql://127.0.0.1:1/", fence, 1)


@pytest.mark.parametrize("nonsense", ["0", "-7", "NULL", "9223372036854775808", "'seven'"])
def test_a_fence_cannot_be_edited_into_nonsense(nonsense: str, postgresql: PostgresCluster) -> None:
    sealed(PostgresSink, postgresql.url, "by hand", 3)
    with pytest.raises(EngineFailed):
        postgresql.sql(f"UPDATE tenure_fence.fences SET highest = {nonsense} WHERE fence = 'by hand'")  # noqa: S608
    with pytest.raises(StaleToken, match="highest seen is 3"):
        sealed(PostgresSink, postgresql.url, "by hand", 2)


def test_a_fence_that_somebody_deleted_refuses_whoever_was_sealed_until_the_next_seal(
    postgresql: PostgresCluster,
) -> None:
    term = SimpleNamespace(fence="deleted", token=7)
    postgresql.sql("CREATE TABLE IF NOT EXISTS kept (value int)")

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            await sink.seal(term.fence, Token(7))
            await asyncio.to_thread(postgresql.sql, "DELETE FROM tenure_fence.fences WHERE fence = 'deleted'")
            with pytest.raises(UnverifiedToken, match="highest seen is 0"):
                async with sink.transaction(term) as connection:
                    await connection.execute("INSERT INTO kept VALUES (1)")
            await sink.seal(term.fence, Token(7))
            async with sink.transaction(term) as connection:
                await connection.execute("INSERT INTO kept VALUES (2)")

    asyncio.run(run())
    assert postgresql.sql("SELECT value FROM kept") == "2"


def test_many_may_set_up_at_once(postgresql: PostgresCluster) -> None:
    postgresql.sql("CREATE DATABASE fresh")
    url = postgresql.url.removesuffix("postgres") + "fresh"

    async def run() -> list[int]:
        sinks = [PostgresSink(url) for _ in range(8)]
        await asyncio.gather(*(sink.seal("f", Token(5)) for sink in sinks))
        highest = [await sink.highest("f") for sink in sinks]
        for sink in sinks:
            await sink.close()
        return highest

    assert asyncio.run(run()) == [5] * 8
    postgresql.sql("DROP DATABASE fresh")


@pytest.mark.parametrize("limit", ["connections_max", "wait_s", "idle_s"])
def test_a_limit_must_be_one(limit: str) -> None:
    with pytest.raises(ConfigError, match=limit):
        Limits.of(**{"connections_max": 1, "wait_s": 1.0, "idle_s": 1.0, limit: 0})  # type: ignore[arg-type]
