"""Who is let in, with which rights, over which wire; and what is said to those who are not."""

import asyncio
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tenure.model import Document, Grant, Wait
from tenure.stores.base import Wake
from tenure.stores.postgresql import from_url
from tenure.testing.engines import PgBouncer, PostgresCluster
from tests.sql_rig import at, bid, sql, until, waits, wins, wins_in_time
from tests.user import at_home

pytestmark = pytest.mark.anyio

SECRET = "hunter2"


async def refusal_of(url: str, kind: type[Exception] = StoreError) -> str:
    with pytest.raises(kind) as told:
        async with from_url(url):
            pass
    said = str(told.value)
    assert SECRET not in said + repr(told.value)
    assert "\n" not in said
    return said


@contextmanager
def talker(answer: bytes, *, speaks_first: bool = False) -> Iterator[int]:
    """A server that says the same to everybody; with nothing to say, it only listens."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if (speaks_first or self.request.recv(1024)) and answer:
                self.request.sendall(answer)
            ended.wait(30)

    ended = threading.Event()
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            ended.set()
            server.shutdown()


async def test_a_wrong_password_no_password_and_a_database_that_is_not_there_are_told(tmp_path: Path) -> None:
    with PostgresCluster(password=SECRET) as closed:
        endpoint = closed.endpoints[0]
        assert "password authentication failed" in await refusal_of(
            f"postgresql://postgres:{SECRET}x@{endpoint}/postgres"
        )
        assert "was refused" in await refusal_of(f"postgresql://postgres@{endpoint}/postgres")
        assert 'database "nowhere" does not exist' in await refusal_of(
            f"postgresql://postgres:{SECRET}@{endpoint}/nowhere"
        )
        async with from_url(closed.url) as store:
            assert SECRET not in store.address + store.identity + repr(store.settings)
        secret = tmp_path / "secret"
        secret.write_text(f"{SECRET}\n")
        passfile = tmp_path / "pgpass"
        passfile.write_text(f"*:*:*:postgres:{SECRET}\n")
        passfile.chmod(0o600)
        for option in (f"password_file={secret}", f"passfile={passfile}"):
            async with from_url(f"postgresql://postgres@{endpoint}/postgres?{option}") as store:
                assert await store.read("x") is None


async def test_what_is_not_a_postgresql_is_told_from_one() -> None:
    with talker(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert "as a PostgreSQL does" in await refusal_of(f"postgresql://u:{SECRET}@127.0.0.1:{port}/x?sslmode=disable")
        assert f"127.0.0.1:{port}" in await refusal_of(f"postgresql://u:{SECRET}@127.0.0.1:{port}/x")
    with talker(b"") as port:
        said = await refusal_of(f"postgresql://u:{SECRET}@127.0.0.1:{port}/x?timeout=0.5&sslmode=disable", Unreachable)
        assert f"127.0.0.1:{port} does not answer as a PostgreSQL does" in said
    assert "does not listen" in await refusal_of(f"postgresql://u:{SECRET}@127.0.0.1:{port}/x", Unreachable)
    assert "no-such-host.invalid" in await refusal_of(f"postgresql://u:{SECRET}@no-such-host.invalid/x", Unreachable)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("expiry=never", "expiry = never: must be one of engine, observer"),
        ("poll=0", "poll = 0"),
        ("timeout=soon", "timeout = soon"),
        ("schema=Robert'); DROP", "schema"),
        ("sslmode=maybe", "sslmode = maybe"),
        ("sslrootcert=/nowhere/ca.pem", "cannot be read"),
        ("target_session_attrs=standby", "elections are held where writes are taken"),
        ("prefix=x", "has an option 'prefix'"),
        ("password_file=/nowhere", "password in two places"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_before_anything_is_sent(options: str, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        from_url(f"postgresql://ada:{SECRET}@localhost/x?{options}")
    assert said in str(told.value)
    assert SECRET not in str(told.value)


async def test_a_role_with_the_printed_rights_holds_elections_and_one_without_hears_which_is_missing(
    cluster: PostgresCluster,
) -> None:
    schema, role = f"least_{token_hex(4)}", f"app_{token_hex(4)}"
    await sql(cluster, f"CREATE ROLE {role} LOGIN")
    url = cluster.url.replace("postgres@", f"{role}@") + f"?schema={schema}"
    assert "have somebody run what tenure doctor --schema prints" in await refusal_of(url, Refused)
    await sql(cluster, from_url(url).schema())
    async with from_url(url) as store, from_url(url) as other:
        grant = await wins(store, bid("least"))
        assert await store.renew(grant) == grant
        wait = await waits(other, bid("least"))
        assert await other.ask_to_resign("least") == wait.incumbent
        await store.release(grant.bid)
        await other.changed(wait)
        await wins(other, wait.bid)
        assert other.traits.wake is Wake.NOTIFY
        assert isinstance(await store.swap("least", b"1", None), Document)
        found = await from_url(url).examine(8 * 10**9)
        assert [finding for finding in found if finding.level.value == "bad"] == []
    missing = {
        f"USAGE ON SEQUENCE {schema}.token": "GRANT USAGE ON SEQUENCE",
        f"UPDATE ON {schema}.office": "GRANT SELECT, INSERT, UPDATE ON",
        f"SELECT ON {schema}.store": "GRANT SELECT ON",
        f"USAGE ON SCHEMA {schema}": "GRANT USAGE ON SCHEMA",
    }
    for right, said in missing.items():
        await sql(cluster, f"REVOKE {right} FROM {role}")
        with pytest.raises(Refused, match=f'{said} .*TO "{role}"'):
            async with from_url(url) as store:
                await store.claim(bid(token_hex(4)))
        await sql(cluster, f"GRANT {right} TO {role}")
    # Made before there were documents: elections go on, and whoever writes a document has the table made, if it may.
    await sql(cluster, f"DROP TABLE {schema}.document")
    async with from_url(url) as store:
        await store.claim(bid(token_hex(4)))
        assert await store.fetch("least") is None
        with pytest.raises(Refused, match="tenure doctor --schema"):
            await store.swap("least", b"1", None)
    async with from_url(f"{cluster.url}?schema={schema}") as store:
        assert isinstance(await store.swap("least", b"1", None), Document)


async def test_a_primary_that_is_set_to_take_no_writes_is_not_called_a_standby(cluster: PostgresCluster) -> None:
    schema, role = f"shut_{token_hex(4)}", f"shut_{token_hex(4)}"
    url = cluster.url.replace("postgres@", f"{role}@") + f"?schema={schema}"
    await sql(cluster, f"CREATE ROLE {role} SUPERUSER LOGIN; ALTER ROLE {role} SET default_transaction_read_only = on")
    said = await refusal_of(url, Refused)
    assert "takes no writes: default_transaction_read_only is on" in said
    assert "standby" not in said
    assert await sql(cluster, f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'") == "0"


async def test_a_primary_that_is_set_to_take_no_writes_any_more_is_left_until_it_takes_them_again(
    cluster: PostgresCluster,
) -> None:
    election = token_hex(4)
    heard: list[str] = []
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid(election, ttl_ns=3600 * 10**9))

        async def row() -> str:
            return await sql(cluster, f"SELECT o::text FROM tenure.office o WHERE election = '{election}'")

        async def refused() -> bool:  # A session that is open reads the setting again a moment later.
            heard[:] = [await row()]
            try:
                await store.renew(grant)
            except Refused as error:
                heard.append(str(error))
            return len(heard) > 1

        async def renewed() -> bool:
            try:
                return await store.renew(grant) == grant
            except Refused:
                return False

        await sql(cluster, "ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            await sql(cluster, "SELECT pg_reload_conf()")
            await until(refused)
            assert "a standby now, or default_transaction_read_only was set" in heard[1]
            with pytest.raises(Refused, match="takes no writes: default_transaction_read_only is on"):
                await store.renew(grant)
            assert await row() == heard[0]
        finally:
            await sql(
                cluster, "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only"
            )
            await sql(cluster, "SELECT pg_reload_conf()")
        await until(renewed)


async def test_many_that_come_first_make_the_tables_once(cluster: PostgresCluster) -> None:
    url = f"{cluster.url}?schema=many_{token_hex(4)}"

    async def identity() -> str:
        async with from_url(url) as store:
            return store.identity

    assert len(set(await asyncio.gather(*(identity() for _ in range(12))))) == 1


async def test_a_row_that_was_edited_into_rubbish_is_refused_or_put_right_and_nothing_hangs(
    cluster: PostgresCluster,
) -> None:
    election = token_hex(4)
    where = f"WHERE election = '{election}'"
    async with from_url(cluster.url) as store:
        grant = await wins(store, bid(election))
        await sql(cluster, f"UPDATE tenure.office SET host = NULL, pid = NULL {where}")
        assert await store.read(election) is None
        await sql(cluster, f"UPDATE tenure.office SET nonce = NULL, token = 9223372036854775807 {where}")
        above = bid(election)
        assert (await wins(store, above)).token > grant.token  # No server has counted that far: it is not gone on from.
        await store.release(above)
        await sql(cluster, f"UPDATE tenure.office SET token = 7 {where}")
        again = await wins(store, bid(election))
        assert again.token > grant.token  # The counter is not in the row.
        await sql(cluster, f"UPDATE tenure.office SET expires = 'infinity' {where}")
        assert isinstance(await store.claim(bid(election)), Wait)


async def test_tables_that_are_dropped_are_told_of_and_made_anew_with_another_identity(
    cluster: PostgresCluster,
) -> None:
    schema = f"dropped_{token_hex(4)}"
    url = f"{cluster.url}?schema={schema}"
    async with from_url(url) as store:
        before = store.identity
        await sql(cluster, f"DROP SCHEMA {schema} CASCADE")
        with pytest.raises(Refused, match="tables were dropped"):
            await store.claim(bid("x"))
    async with from_url(url) as store:
        assert store.identity != before  # So no fence takes its tokens, which begin again, for the old ones.
        await wins(store, bid("x"))


async def test_behind_a_pooler_of_transactions_elections_are_held_by_polling_and_the_traits_say_so(
    cluster: PostgresCluster,
) -> None:
    with PgBouncer(cluster) as pooler:
        url = f"{pooler.url}?poll=0.2"
        async with from_url(url) as store, from_url(url) as other:
            assert store.traits.wake is Wake.POLL
            grant = await wins(store, bid(election := token_hex(4), ttl_ns=60 * 10**9))
            crowd = [from_url(url) for _ in range(8)]  # more than there are connections behind it
            for each in crowd:
                await each.__aenter__()
            answers = await asyncio.gather(*(each.claim(bid(election)) for each in crowd))
            assert not any(isinstance(answer, Grant) for answer in answers)
            for each in crowd:
                await each.__aexit__()
            wait = await waits(other, bid(election))
            waiting = asyncio.create_task(other.changed(wait))
            assert await store.renew(grant) == grant
            await store.release(grant.bid)
            await waiting
            taken = await wins_in_time(other, wait.bid)
            assert taken.token > grant.token
            assert other.traits.wake is Wake.POLL
        found = {finding.subject: finding for finding in await from_url(url).examine(8 * 10**9)}
        assert found["notify"].level.value == "warning"
        assert "pooler" in found


def test_the_commands_work_and_tell_of_the_server(cluster: PostgresCluster, tmp_path: Path) -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**at_home(tmp_path), "TENURE_STORE": at(cluster, 0, "?schema=commands")}
        command = [sys.executable, "-m", "tenure", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    doctor = run("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    for said in ("15.", "timeline 1", "durability", "we may do in the schema commands what elections need", "latency"):
        assert said in doctor.stdout
    assert run("run", "books", "--", "sh", "-c", "echo $TENURE_TOKEN").stdout.strip().isdigit()
    assert "books" in run("status").stdout
    assert "tenure-doctor" not in run("status").stdout
    printed = run("doctor", "--schema").stdout
    assert "GRANT SELECT, INSERT, UPDATE ON commands.office" in printed
