"""Tables with triggers refuse whoever presents no valid token, whatever it is that writes."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.sinks.postgresql import PsycopgSink, fenced_engine, guard_sync, triggers
from tenure.sinks.postgresql.on_psycopg import PsycopgDriver
from tenure.sinks.postgresql.schema import LOCK_SEED
from tenure.sinks.sql.talk import carried_out
from tenure.testing.engines import EngineFailed, PostgresCluster
from tenure.testing.engines.processes import wait_for

PATIENCE_S = 60
FENCE = "books'%\\"
OLD, NEW = (SimpleNamespace(fence=FENCE, token=token) for token in (1, 2))
PRESENT = "BEGIN; SELECT tenure_fence.present('books''%\\', {}); {}; COMMIT"


@pytest.fixture
def sink(postgresql: PostgresCluster) -> Iterator[PsycopgSink]:
    postgresql.sql('DROP SCHEMA IF EXISTS tenure_fence CASCADE; DROP TABLE IF EXISTS "Led ger", events, child')
    postgresql.sql(
        'CREATE TABLE "Led ger" (id int PRIMARY KEY, cents int); INSERT INTO "Led ger" VALUES (1, 0), (2, 0)'
    )
    with PsycopgSink(postgresql.url) as opened:
        opened.install_triggers('"Led ger"', fence=FENCE)
        yield opened


WRITES = [
    'INSERT INTO "Led ger" VALUES (3, 0)',
    'INSERT INTO "Led ger" VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET cents = 5',
    'UPDATE "Led ger" SET cents = 7',
    'UPDATE "Led ger" SET cents = 7 WHERE false',
    'DELETE FROM "Led ger"',
    'TRUNCATE "Led ger"',
    'COPY "Led ger" FROM STDIN;\n9\t9\n\\.\n',
    'MERGE INTO "Led ger" USING (SELECT 1 AS id) AS new ON "Led ger".id = new.id WHEN MATCHED THEN DELETE',
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.usefixtures("sink")
def test_psql_is_refused_without_a_token(write: str, postgresql: PostgresCluster) -> None:
    with pytest.raises(EngineFailed, match="this transaction has presented no token for fence books"):
        postgresql.sql(write)
    assert postgresql.sql('SELECT sum(cents), count(*) FROM "Led ger"') == "0|2"


def test_the_token_must_be_that_of_the_seal_and_is_gone_with_the_transaction(
    sink: PsycopgSink, postgresql: PostgresCluster
) -> None:
    write = 'UPDATE "Led ger" SET cents = cents + 1'
    with pytest.raises(EngineFailed, match="was never sealed"):
        postgresql.sql(PRESENT.format(1, write))
    sink.admit(FENCE, 1)
    postgresql.sql(PRESENT.format(1, write))
    with pytest.raises(EngineFailed, match="presented no token"):
        postgresql.sql(f"{PRESENT.format(1, write)}; {write}")
    sink.admit(FENCE, 2)
    with pytest.raises(EngineFailed, match="token 1 is stale"):
        postgresql.sql(PRESENT.format(1, write))
    for rubbish in ("-1", "99999999999999999999", "seven"):
        setting = f"set_config('tenure.f_' || md5('books''%\\'), '{rubbish}', true)"
        with pytest.raises(EngineFailed, match=r"is no token|was never sealed"):
            postgresql.sql(f"BEGIN; SELECT {setting}; {write}; COMMIT")
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "4"


def test_transactions_of_the_sink_and_guards_present_their_token(
    sink: PsycopgSink, postgresql: PostgresCluster
) -> None:
    with sink.transaction(OLD) as connection:
        connection.execute('UPDATE "Led ger" SET cents = 1 WHERE id = 1')
    with psycopg.connect(postgresql.url) as own:
        guard_sync(own, OLD)
        own.execute('UPDATE "Led ger" SET cents = 1 WHERE id = 2')
    with sink.transaction(NEW) as connection:
        connection.execute('UPDATE "Led ger" SET cents = cents + 1')
    with pytest.raises(StaleToken, match="highest seen is 2"), sink.transaction(OLD) as connection:
        connection.execute('UPDATE "Led ger" SET cents = 99')
    with pytest.raises(StaleToken), psycopg.connect(postgresql.url) as own:
        guard_sync(own, OLD)
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "4"


def test_a_token_of_another_election_is_none_here(sink: PsycopgSink, postgresql: PostgresCluster) -> None:
    elsewhere = SimpleNamespace(fence="elsewhere", token=9)
    sink.admit(FENCE, 1)
    sink.admit(elsewhere.fence, 9)
    write = 'UPDATE "Led ger" SET cents = 99'
    with pytest.raises(psycopg.Error, match="presented no token for fence books") as told:  # noqa: SIM117
        with sink.transaction(elsewhere) as connection:
            connection.execute(write)
    assert told.value.sqlstate == "TN003"
    with psycopg.connect(postgresql.url) as own:
        guard_sync(own, elsewhere)
        with pytest.raises(psycopg.Error, match="presented no token for fence books"):
            own.execute(write)
    # Nor does it count if it is presented under this fence's name, where it was never sealed.
    with pytest.raises(EngineFailed, match="token 9 was never sealed"):
        postgresql.sql(PRESENT.format(9, write))
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "0"


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_trigger_does_not_believe_a_view_that_is_older_than_the_seal(
    level: str, sink: PsycopgSink, postgresql: PostgresCluster
) -> None:
    sink.admit(FENCE, 1)
    with psycopg.connect(postgresql.url, autocommit=True) as old:
        old.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        old.execute('SELECT count(*) FROM "Led ger"')
        old.execute("SELECT tenure_fence.present(%s, 1)", (FENCE,))
        sink.admit(FENCE, 2)
        with pytest.raises(psycopg.Error) as told:
            old.execute('UPDATE "Led ger" SET cents = 99')
        assert told.value.sqlstate == ("TN001" if level == "READ COMMITTED" else "40001")
        old.execute("ROLLBACK")
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "0"


def test_installing_is_idempotent_listed_and_undone(sink: PsycopgSink, postgresql: PostgresCluster) -> None:
    table = 'public."Led ger"'
    assert sink.fenced_tables()[table] == FENCE
    installed = "SELECT oid FROM pg_trigger WHERE tgname = 'tenure_fence' AND tgrelid = 'public.\"Led ger\"'::regclass"
    before = postgresql.sql(installed)
    sink.install_triggers(table, fence=FENCE)
    assert postgresql.sql(installed) == before
    sink.install_triggers(table, fence="another")
    assert sink.fenced_tables()[table] == "another"
    postgresql.sql('ALTER TABLE "Led ger" DISABLE TRIGGER tenure_fence')
    assert table not in sink.fenced_tables()
    sink.remove_triggers(table)
    sink.remove_triggers(table)
    postgresql.sql('UPDATE "Led ger" SET cents = 7')


def test_a_trigger_of_an_older_version_holds_and_is_replaced_when_triggers_are_installed(
    sink: PsycopgSink, postgresql: PostgresCluster
) -> None:
    table, write = 'public."Led ger"', 'UPDATE "Led ger" SET cents = cents + 1'
    stands = "SELECT tgfoid::regproc FROM pg_trigger WHERE tgname = 'tenure_fence' AND tgrelid = 'public.\"Led ger\"'::regclass"
    own = postgresql.sql(stands)
    postgresql.sql(
        f"DROP TRIGGER tenure_fence ON {table}; CREATE TRIGGER tenure_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION tenure_fence.check_token('books''%\\')"
    )
    assert sink.fenced_tables()[table] == FENCE
    sink.admit(FENCE, 2)
    for before in ("tenure_fence.check_token", own):
        assert postgresql.sql(stands) == before
        postgresql.sql(PRESENT.format(2, write))
        with pytest.raises(EngineFailed, match="token 1 is stale"):
            postgresql.sql(PRESENT.format(1, write))
        sink.install_triggers(table, fence=FENCE)
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "4"


def test_a_check_of_another_version_is_replaced_and_the_same_one_is_left(
    sink: PsycopgSink, postgresql: PostgresCluster
) -> None:
    name = postgresql.sql("SELECT tgfoid::regprocedure FROM pg_trigger WHERE tgname = 'tenure_fence'")
    version = f"SELECT xmin FROM pg_proc WHERE oid = '{name}'::regprocedure"  # noqa: S608
    before = postgresql.sql(version)
    sink.install_triggers('"Led ger"', fence=FENCE)
    assert postgresql.sql(version) == before
    postgresql.sql(f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    sink.install_triggers('"Led ger"', fence=FENCE)
    with pytest.raises(EngineFailed, match="presented no token"):
        postgresql.sql('DELETE FROM "Led ger"')


@pytest.mark.parametrize("fence", ["$$; $1 {fence} {0} %s %L", "\\'; \\\\", "', 'b", "a\nb", "Ä ☃ 𝄞", "x" * 1000])
def test_a_fence_may_be_called_anything(fence: str, sink: PsycopgSink) -> None:
    sink.install_triggers('"Led ger"', fence=fence)
    assert sink.fenced_tables()['public."Led ger"'] == fence
    sink.admit(fence, 2)
    with sink.transaction(SimpleNamespace(fence=fence, token=2)) as connection:
        connection.execute('UPDATE "Led ger" SET cents = 1')
    with pytest.raises(StaleToken), sink.transaction(SimpleNamespace(fence=fence, token=1)) as connection:
        connection.execute('UPDATE "Led ger" SET cents = 9')
    other = SimpleNamespace(fence=f"{fence[1:]}!", token=2)
    sink.admit(other.fence, 2)
    with pytest.raises(psycopg.Error, match="presented no token"), sink.transaction(other) as connection:
        connection.execute('UPDATE "Led ger" SET cents = 9')


@pytest.mark.usefixtures("sink")
def test_of_two_that_install_at_once_one_waits_for_the_other(postgresql: PostgresCluster) -> None:
    name = postgresql.sql("SELECT tgfoid::regprocedure FROM pg_trigger WHERE tgname = 'tenure_fence'")
    other = f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    postgresql.sql(other)
    driver = PsycopgDriver(postgresql.url, {})
    raw = driver.open()
    try:
        with psycopg.connect(postgresql.url) as first, ThreadPoolExecutor(1) as threads:
            first.execute(f"SELECT pg_advisory_xact_lock({LOCK_SEED}); {other}".encode())
            second = threads.submit(carried_out, driver.ask, raw, triggers.install('"Led ger"', FENCE))
            assert wait_for(
                lambda: postgresql.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0", PATIENCE_S
            )
            first.commit()
            second.result(PATIENCE_S)  # Or the server would say: tuple concurrently updated.
    finally:
        driver.drop(raw)
    with pytest.raises(EngineFailed, match="presented no token"):
        postgresql.sql('DELETE FROM "Led ger"')


def test_what_a_superuser_has_installed_keeps_the_owner_of_the_fences_from_nothing(postgresql: PostgresCluster) -> None:
    postgresql.sql("DROP SCHEMA IF EXISTS tenure_fence CASCADE; DROP TABLE IF EXISTS owned; DROP ROLE IF EXISTS ops")
    postgresql.sql(
        f"CREATE ROLE ops LOGIN; GRANT CREATE ON DATABASE {postgresql.sql('SELECT current_database()')} TO ops"
    )
    postgresql.sql("CREATE TABLE owned (id int); ALTER TABLE owned OWNER TO ops")
    with PsycopgSink(postgresql.url, user="ops") as ops, PsycopgSink(postgresql.url) as superuser:
        ops.set_up()
        superuser.install_triggers("owned", fence="f")
        ops.install_triggers("owned", fence="f")
        ops.admit("f", 1)
        with pytest.raises(psycopg.Error, match="presented no token"), ops.transaction(OLD) as connection:
            connection.execute("INSERT INTO owned VALUES (1)")
        with ops.transaction(SimpleNamespace(fence="f", token=1)) as connection:
            connection.execute("INSERT INTO owned VALUES (1)")
    assert postgresql.sql("SELECT count(*) FROM owned") == "1"
    postgresql.sql("DROP TABLE owned; DROP SCHEMA tenure_fence CASCADE; DROP OWNED BY ops; DROP ROLE ops")


def test_partitions_and_cascades_are_covered(sink: PsycopgSink, postgresql: PostgresCluster) -> None:
    postgresql.sql("CREATE TABLE events (id int) PARTITION BY RANGE (id)")
    postgresql.sql("CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10)")
    sink.install_triggers("events", fence=FENCE)
    assert set(sink.fenced_tables()) >= {"public.events", "public.events_1", 'public."Led ger"'}
    for table in ("events", "events_1"):
        with pytest.raises(EngineFailed, match="presented no token"):
            postgresql.sql(f"INSERT INTO {table} VALUES (1)")  # noqa: S608
    sink.remove_triggers('"Led ger"')
    postgresql.sql('CREATE TABLE child (id int REFERENCES "Led ger" ON DELETE CASCADE); INSERT INTO child VALUES (1)')
    sink.install_triggers("child", fence=FENCE)
    with pytest.raises(EngineFailed, match="presented no token"):
        postgresql.sql('DELETE FROM "Led ger" WHERE id = 1')


@pytest.mark.parametrize("table", ["nowhere", "", "a b c", "pg_locks", "tenure_fence.fences"])
def test_what_is_no_table_of_ones_own_is_refused(table: str, sink: PsycopgSink) -> None:
    with pytest.raises(ConfigError, match="table"):
        sink.install_triggers(table, fence=FENCE)


def test_sessions_of_sqlalchemy_are_fenced(sink: PsycopgSink, postgresql: PostgresCluster) -> None:
    engine = create_engine(postgresql.url.replace("postgresql:", "postgresql+psycopg:"))
    fenced = fenced_engine(engine, OLD)
    write = text('UPDATE "Led ger" SET cents = cents + 1 WHERE id = 1')
    with pytest.raises(UnverifiedToken), Session(fenced) as session:  # noqa: PT012
        session.execute(write)
        session.commit()
    sink.admit(FENCE, 1)
    with Session(fenced) as session:
        session.execute(write)
        session.commit()
        session.execute(write)
        session.commit()
    sink.remove_triggers('"Led ger"')
    with pytest.raises(StaleToken, match="highest seen is 2"), fenced.begin() as connection:  # noqa: PT012
        connection.execute(write)
        sink.admit(FENCE, 2)  # It waits for nobody.
    with engine.begin() as connection:  # What it was made of is as it was.
        connection.execute(write)
    autocommit = fenced_engine(engine.execution_options(isolation_level="AUTOCOMMIT"), NEW)
    with pytest.raises(ConfigError, match="AUTOCOMMIT"), autocommit.begin() as connection:
        connection.execute(text("SELECT 1"))
    engine.dispose()
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "3"


def test_async_sessions_of_sqlalchemy_are_fenced(sink: PsycopgSink, postgresql: PostgresCluster) -> None:
    sink.admit(FENCE, 1)
    write = text('UPDATE "Led ger" SET cents = cents + 1 WHERE id = 1')

    async def run() -> None:
        engine = create_async_engine(postgresql.url.replace("postgresql:", "postgresql+asyncpg:"))
        fenced = AsyncEngine(fenced_engine(engine.sync_engine, OLD))
        async with AsyncSession(fenced) as session:
            await session.execute(write)
            await session.commit()
        await asyncio.to_thread(sink.admit, FENCE, 2)
        async with AsyncSession(fenced) as session:
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await session.execute(write)
        await asyncio.to_thread(sink.remove_triggers, '"Led ger"')
        async with AsyncSession(fenced) as session:
            await session.execute(write)
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await session.commit()
        await engine.dispose()

    asyncio.run(run())
    assert postgresql.sql('SELECT sum(cents) FROM "Led ger"') == "1"


@pytest.mark.usefixtures("sink")
def test_a_trigger_that_was_made_by_hand_and_names_no_fence_refuses_everything(postgresql: PostgresCluster) -> None:
    postgresql.sql("CREATE TABLE events (id int)")
    postgresql.sql(
        "CREATE TRIGGER bare AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION tenure_fence.check_token()"
    )
    with pytest.raises(EngineFailed, match="a fence must have a name"):
        postgresql.sql("INSERT INTO events VALUES (1)")
    assert postgresql.sql("SELECT count(*) FROM events") == "0"


def test_what_a_trigger_of_the_callers_own_misses_at_the_commit_is_no_refusal(
    postgresql: PostgresCluster, sink: PsycopgSink
) -> None:
    postgresql.sql("CREATE TABLE events (id int)")
    body = "BEGIN PERFORM count(*) FROM no_such_table; RETURN NULL; END"
    postgresql.sql(f"CREATE OR REPLACE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    postgresql.sql(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()"
    )
    sink.admit(FENCE, 1)
    with pytest.raises(psycopg.errors.UndefinedTable, match="no_such_table"), sink.transaction(OLD) as connection:
        connection.execute("INSERT INTO events VALUES (1)")
    assert (sink.refused.stale, sink.refused.unverified) == (0, 0)
    assert postgresql.sql("SELECT count(*) FROM events") == "0"
