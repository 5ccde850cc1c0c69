"""Ways by which something could be committed unchecked, or a seal be lost, are closed."""

import asyncio
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, text

from tenure.errors import ConfigError, UnverifiedToken
from tenure.model import Token
from tenure.sinks.postgresql import PsycopgSink, fenced_engine
from tenure.testing.engines import PostgresCluster


@pytest.fixture
def fence(postgresql: PostgresCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    postgresql.sql("CREATE TABLE IF NOT EXISTS out_of (name text)")
    postgresql.sql(f"DELETE FROM out_of WHERE name = '{name}'")  # noqa: S608
    return name


def write(fence: str) -> str:
    return f"INSERT INTO out_of VALUES ('{fence}')"  # noqa: S608


def written(postgresql: PostgresCluster, fence: str) -> int:
    return int(postgresql.sql(f"SELECT count(*) FROM out_of WHERE name = '{fence}'"))  # noqa: S608


@pytest.mark.parametrize("token", [1, 2])
def test_two_phases_are_refused(token: int, postgresql: PostgresCluster, fence: str) -> None:
    engine = create_engine(postgresql.url.replace("postgresql:", "postgresql+psycopg:"))
    with PsycopgSink(postgresql.url) as sink:
        sink.admit(fence, 2)
    fenced = fenced_engine(engine, SimpleNamespace(fence=fence, token=token))
    with fenced.connect() as connection:  # noqa: SIM117
        with pytest.raises(ConfigError, match="two phases"):  # noqa: PT012
            transaction = connection.begin_twophase()
            connection.execute(text(write(fence)))
            transaction.commit()
    engine.dispose()
    assert written(postgresql, fence) == 0


def test_a_seal_outlives_a_crash_whatever_the_role_has_set(postgresql: PostgresCluster, fence: str) -> None:
    [node] = postgresql.nodes
    postgresql.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")
    postgresql.sql("SELECT pg_reload_conf()")
    with PsycopgSink(postgresql.url) as sink:
        sink.admit(fence, 1)
    try:
        with PsycopgSink(postgresql.url, options="-c synchronous_commit=off") as sink:
            sink.admit(fence, 2)
            with sink.transaction(SimpleNamespace(fence=fence, token=3)) as connection:  # It raises the fence.
                assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
            with sink.transaction(SimpleNamespace(fence=fence, token=3)) as connection:
                assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
            sink.admit(fence, 4)
            node.kill()
    finally:
        postgresql.mend()
        postgresql.sql("ALTER SYSTEM RESET wal_writer_delay")
    with PsycopgSink(postgresql.url) as sink:
        assert sink.highest(fence) == 4


def test_a_leader_whose_seal_was_lost_seals_again(postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=3)
    with PsycopgSink(postgresql.url) as sink:
        asyncio.run(sink.seal(fence, Token(3)))
        postgresql.sql(f"UPDATE tenure_fence.fences SET highest = 2 WHERE fence = '{fence}'")  # noqa: S608
        with pytest.raises(UnverifiedToken), sink.transaction(term):
            pass
        with sink.transaction(term) as connection:
            connection.execute(write(fence))
        assert sink.highest(fence) == 3
    assert written(postgresql, fence) == 1
