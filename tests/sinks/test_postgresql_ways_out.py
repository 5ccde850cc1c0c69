"""Ways by which something could be committed unchecked, or a seal be lost, are closed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, Unreachable, UnverifiedToken
from tenure.model import Token
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink, fenced_engine
from tenure.sinks.postgresql.schema import setting_of
from tenure.sinks.sql.address import address_of
from tenure.testing.engines import PgBouncer, PostgresCluster


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


@pytest.mark.parametrize("words", ["COMMIT AND CHAIN", "COMMIT; BEGIN", "ROLLBACK AND CHAIN"])
@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_transaction_that_was_ended_inside_and_begun_anew_is_noticed(
    kind: type[Any], words: str, postgresql: PostgresCluster, fence: str
) -> None:
    async def run() -> None:
        async with kind(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            with pytest.raises(ConfigError, match="ended inside"):  # noqa: PT012
                async with sink.transaction(SimpleNamespace(fence=fence, token=1)) as connection:
                    await connection.execute(words)
                    await connection.execute(write(fence))
            assert not sink._idle  # Who knows what else was done to it, when no transaction was open?

    asyncio.run(run())
    assert written(postgresql, fence) == 0


@pytest.mark.parametrize("words", ["COMMIT", "ROLLBACK", "SET {} = 1; COMMIT"])
def test_a_transaction_that_was_ended_inside_is_noticed_by_every_driver(
    words: str, postgresql: PostgresCluster, fence: str
) -> None:
    term, ends = SimpleNamespace(fence=fence, token=1), words.format(setting_of(fence))

    async def run(kind: type[Any]) -> None:
        async with kind(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            with pytest.raises(ConfigError, match="ended inside"):
                async with sink.transaction(term) as connection:
                    await connection.execute(ends)
            assert not sink._idle  # Who knows what else was done to it?
            async with sink.transaction(term) as connection:
                await connection.execute(write(fence))

    for kind in (PostgresSink, AsyncPsycopgSink):
        asyncio.run(run(kind))
    with PsycopgSink(postgresql.url) as sink:
        with pytest.raises(ConfigError, match="ended inside"), sink.transaction(term) as connection:
            connection.execute(ends)
        assert not sink._idle
        with sink.transaction(term) as connection:
            connection.execute(write(fence))
    assert written(postgresql, fence) == 3


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_an_idle_session_that_the_server_has_ended_is_replaced(
    kind: type[Any], postgresql: PostgresCluster, fence: str
) -> None:
    async def run() -> None:
        async with (
            kind(postgresql.url, server_settings={"application_name": "idle"})
            if kind is PostgresSink
            else kind(postgresql.url, application_name="idle") as sink
        ):
            await sink.seal(fence, Token(1))
            async with sink.transaction(SimpleNamespace(fence=fence, token=1)):
                pass
            ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'idle'"
            # At once: had the event loop a turn, the driver would have read of it. Busy ones have none.
            assert postgresql.sql(ended) != ""
            async with sink.transaction(SimpleNamespace(fence=fence, token=1)) as connection:
                await connection.execute(write(fence))

    asyncio.run(run())
    assert written(postgresql, fence) == 1


def test_nothing_is_left_for_strangers_who_share_a_session_by_a_pooler(postgresql: PostgresCluster, fence: str) -> None:
    term = SimpleNamespace(fence=fence, token=1)
    postgresql.sql("DROP TABLE IF EXISTS pooled; CREATE TABLE pooled (a int)")
    with PgBouncer(postgresql) as pooler, PsycopgSink(pooler.url) as sink:
        sink.install_triggers("pooled", fence=fence)
        asyncio.run(sink.seal(fence, Token(1)))
        with sink.transaction(term) as connection:
            connection.execute("INSERT INTO pooled VALUES (1)")
            assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("10s",)
        with psycopg.connect(pooler.url, autocommit=True) as stranger:
            assert stranger.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
            with pytest.raises(psycopg.Error, match="presented no token"):
                stranger.execute("INSERT INTO pooled VALUES (2)")
    assert postgresql.sql("SELECT a FROM pooled") == "1"


def test_what_can_be_written_through_another_table_is_fenced_there_or_not_at_all(
    postgresql: PostgresCluster, fence: str
) -> None:
    postgresql.sql(
        "DROP TABLE IF EXISTS parts, elder, other, kid CASCADE; CREATE TABLE parts (a int) PARTITION BY RANGE (a);"
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10); CREATE TABLE elder (a int);"
        "CREATE TABLE other (b int); CREATE TABLE kid () INHERITS (elder); CREATE TABLE both_of () INHERITS (elder, other)"
    )
    with PsycopgSink(postgresql.url) as sink:
        for table, through in (("part", "parts"), ("kid", "elder"), ("elder", "other")):
            with pytest.raises(ConfigError, match=f"install the triggers on {through}"):
                sink.install_triggers(table, fence=fence)
        postgresql.sql("DROP TABLE both_of")
        sink.install_triggers("parts", fence=fence)
        sink.install_triggers("elder", fence=fence)
        mine = {table for table, of in sink.fenced_tables().items() if of == fence}
        assert mine == {"public.parts", "public.part", "public.elder", "public.kid"}
        sink.remove_triggers("part")
        assert "public.part" not in sink.fenced_tables()
    postgresql.sql("DROP TABLE parts, elder, other, kid")


@pytest.mark.parametrize("special", ["/x", "?x", "#x", "@x", "?a@b"])
@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_password_that_was_not_encoded_is_not_shown(kind: type[Any], special: str) -> None:
    async def run() -> None:
        sink = kind(f"postgresql://app:hunter2{special}@127.0.0.1:1/db")
        assert "hunter2" not in repr(sink)
        with pytest.raises(Unreachable) as told:
            await sink.seal("f", Token(1))
        error: BaseException | None = told.value
        while error is not None:
            assert "hunter2" not in repr(error) + str(error)
            error = error.__cause__
        await sink.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://app:p@h1:5432,[::1]:2/db?x=1", "s sink h1:5432,[::1]:2/db"),
        ("postgresql://app:p?w@h/db", "s sink"),
        ("postgresql://h/db?password=a@b", "s sink"),
        ("postgresql://app:hunter2", "s sink"),
        ("host=h password=p", "s sink"),
    ],
)
def test_a_sink_is_named_by_its_place_or_not_at_all(url: str, name: str) -> None:
    assert address_of("s", url) == name


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink])
def test_a_seal_does_not_wait_for_a_connection_that_transactions_have(
    kind: type[Any], postgresql: PostgresCluster, fence: str
) -> None:
    async def run() -> None:
        async with kind(postgresql.url, connections_max=1) as sink:
            await sink.seal(fence, Token(1))
            async with asyncio.timeout(60):
                with pytest.raises(StaleToken):
                    async with sink.transaction(SimpleNamespace(fence=fence, token=1)):
                        await sink.seal(fence, Token(2))

    asyncio.run(run())
    with PsycopgSink(postgresql.url, connections_max=1) as sink:
        asyncio.run(sink.seal(fence, Token(3)))
        with pytest.raises(StaleToken), sink.transaction(SimpleNamespace(fence=fence, token=3)):
            asyncio.run(asyncio.wait_for(sink.seal(fence, Token(4)), 60))
    assert written(postgresql, fence) == 0


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink, PsycopgSink])
def test_a_seal_of_a_frozen_server_has_an_end(
    kind: type[Any], postgresql: PostgresCluster, fence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.sinks.sql.flow._BUSY_S", 0.5)
    [node] = postgresql.nodes

    async def run() -> None:
        sink = kind(postgresql.url, wait_s=0.2)
        ask = sink.driver.ask

        def freezing(raw: Any, due: Any) -> Any:
            if "admit" in due.sql:
                node.pause()
            return ask(raw, due)

        vars(sink.driver)["ask"] = freezing
        try:
            with pytest.raises(OutcomeUnknown, match="no answer in time"):
                await asyncio.wait_for(sink.seal(fence, Token(1)), 60)
        finally:
            node.resume()
        vars(sink.driver)["ask"] = ask
        await sink.seal(fence, Token(2))
        if kind is PsycopgSink:
            sink.close()
        else:
            await sink.close()

    asyncio.run(run())
    with PsycopgSink(postgresql.url) as looking:
        assert looking.highest(fence) == 2


def test_a_prepared_transaction_that_keeps_the_fence_is_named() -> None:
    with PostgresCluster(1, options=["max_prepared_transactions=5"]) as cluster:  # noqa: SIM117
        with PsycopgSink(cluster.url, wait_s=0.2) as sink:
            sink.admit("f", 1)
            cluster.sql("BEGIN; SELECT tenure_fence.guard('f', 1); PREPARE TRANSACTION 'left behind'")
            with pytest.raises(Refused, match="the prepared transaction 'left behind' keeps the fence"):
                sink.admit("f", 2)
            cluster.sql("ROLLBACK PREPARED 'left behind'")
            sink.admit("f", 2)
            assert sink.highest("f") == 2
