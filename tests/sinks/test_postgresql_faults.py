"""A leader that is frozen, killed or cut off inside a transaction: its successor leads within a bound, and nothing stale lands."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StoreError
from tenure.model import Token
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.testing.engines import PostgresCluster
from tests.proxy import Proxy
from tests.sinks.freezing import frozen

PATIENCE_S = 60
WRITE = "UPDATE account SET cents = cents + 1 WHERE name = '{}'"


@pytest.fixture
def account(postgresql: PostgresCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    postgresql.sql("CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, cents int)")
    postgresql.sql(f"INSERT INTO account VALUES ('{name}', 0) ON CONFLICT (name) DO UPDATE SET cents = 0")  # noqa: S608
    return name


def cents(cluster: PostgresCluster, name: str) -> int:
    return int(cluster.sql(f"SELECT cents FROM account WHERE name = '{name}'"))  # noqa: S608


def test_a_leader_frozen_after_its_check_has_its_session_ended_by_the_seal(
    postgresql: PostgresCluster, account: str
) -> None:
    async def take_over() -> float:
        async with PostgresSink(postgresql.url, wait_s=0.5) as sink:
            began = time.monotonic()
            await sink.seal(account, Token(2))
            return time.monotonic() - began

    with PsycopgSink(postgresql.url) as first:
        first.admit(account, 1)
    with frozen("psycopg-guarded", postgresql.url, account, 1, WRITE.format(account)) as leader:
        assert 0.5 <= asyncio.run(take_over()) < PATIENCE_S
        postgresql.sql(WRITE.format(account))  # Its locks are gone with it.
        assert leader.goes_on().startswith("refused")
    assert cents(postgresql, account) == 1


def test_a_leader_frozen_in_a_bound_transaction_keeps_nobody_from_sealing_and_its_locks_for_a_bounded_time(
    postgresql: PostgresCluster, account: str
) -> None:
    async def take_over() -> None:
        async with PostgresSink(postgresql.url, wait_s=PATIENCE_S) as sink, asyncio.timeout(PATIENCE_S / 2):
            await sink.seal(account, Token(2))
            async with sink.transaction(SimpleNamespace(fence=account, token=2)) as connection:
                await connection.execute(WRITE.format(account))  # Waits until the server has ended the idle session.

    with frozen("psycopg-bound", postgresql.url, account, 1, WRITE.format(account)) as leader:
        asyncio.run(take_over())
        assert leader.goes_on().startswith("refused")
    assert cents(postgresql, account) == 1


def test_a_seal_that_may_not_end_the_session_says_so_in_one_line(postgresql: PostgresCluster, account: str) -> None:
    postgresql.sql("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN")
    with PsycopgSink(postgresql.url) as first:
        first.admit(account, 1)
    postgresql.sql("GRANT USAGE ON SCHEMA tenure_fence TO weak")
    postgresql.sql("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tenure_fence TO weak")
    url = postgresql.url.replace("postgres@", "weak@")

    async def take_over() -> None:
        async with PostgresSink(url, wait_s=0.2) as sink:
            await sink.seal(account, Token(2))

    with frozen("psycopg-guarded", postgresql.url, account, 1, WRITE.format(account)) as leader:
        with pytest.raises(Refused, match="superuser") as told:
            asyncio.run(take_over())
        assert "\n" not in str(told.value)
        assert leader.goes_on() == "committed"  # Nobody has succeeded it.
    asyncio.run(take_over())
    postgresql.sql("REVOKE ALL ON ALL ROUTINES IN SCHEMA tenure_fence FROM weak; DROP OWNED BY weak; DROP ROLE weak")


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_session_that_the_server_ends_inside_is_an_error_and_the_next_transaction_has_another(
    kind: type[Any], postgresql: PostgresCluster, account: str
) -> None:
    term = SimpleNamespace(fence=account, token=1)

    async def run() -> None:
        async with kind(postgresql.url) as sink:
            await sink.seal(account, Token(1))
            with pytest.raises(StoreError):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    await connection.execute(WRITE.format(account))
                    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
                    await asyncio.to_thread(postgresql.sql, ended)
            assert cents(postgresql, account) == 0
            async with sink.transaction(term) as connection:
                await connection.execute(WRITE.format(account))

    asyncio.run(run())
    assert cents(postgresql, account) == 1


async def _dies(cluster: PostgresCluster, proxy: Proxy, *, until: Callable[[], bool]) -> None:
    """Kill the server once something is so, and let the client hear of it."""
    [node] = cluster.nodes
    while not await asyncio.to_thread(until):  # noqa: ASYNC110  (another process does it)
        await asyncio.sleep(0.01)
    await asyncio.to_thread(node.kill)
    proxy.turn_to(node.endpoint)


@pytest.mark.parametrize("arrives", [False, True], ids=["before it arrives", "after it is carried out"])
@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_commit_that_the_server_dies_in_has_no_known_outcome(
    kind: type[Any], arrives: bool, postgresql: PostgresCluster, account: str
) -> None:
    term = SimpleNamespace(fence=account, token=1)

    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            Proxy(postgresql.endpoints[0]) as proxy,
            kind(postgresql.url.replace(postgresql.endpoints[0], proxy.endpoint)) as sink,
        ):
            await sink.seal(account, Token(1))
            is_lost = (lambda: cents(postgresql, account) == 1) if arrives else (lambda: proxy.held_bytes > 0)
            with pytest.raises(OutcomeUnknown, match="commit has no known outcome"):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    await connection.execute(WRITE.format(account))
                    dying = asyncio.create_task(_dies(postgresql, proxy, until=is_lost))
                    if arrives:
                        proxy.lose_answers()
                    else:
                        proxy.hold_requests()
            await dying

    try:
        asyncio.run(run())
    finally:
        postgresql.mend()
    assert cents(postgresql, account) == int(arrives)


def test_a_commit_of_ones_own_inside_is_refused(postgresql: PostgresCluster, account: str) -> None:
    term = SimpleNamespace(fence=account, token=1)

    async def run() -> None:
        async with PostgresSink(postgresql.url) as sink:
            with pytest.raises(ConfigError, match="ended inside"):
                async with sink.transaction(term) as connection:
                    await connection.execute("COMMIT")

    asyncio.run(run())
    with PsycopgSink(postgresql.url) as sink, pytest.raises(ConfigError, match="commit"), sink.transaction(term) as own:  # noqa: PT012
        own.execute(WRITE.format(account))
        own.commit()
    assert cents(postgresql, account) == 0
