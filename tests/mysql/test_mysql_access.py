"""Who is let in, with which rights, over which wire; and what is said to those who are not."""

import asyncio
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tenure.model import Document, Wait
from tenure.stores.mysql import from_url
from tenure.testing.engines import MariaDbCluster, Tls
from tests.postgresql.test_postgresql_access import talker
from tests.sql_rig import at, bid, sql, waits, wins
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


async def test_passwords_databases_and_certificates_that_are_wrong_are_told(
    cluster: MariaDbCluster, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    with MariaDbCluster(password=SECRET, tls=Tls(ours)) as closed:
        endpoint, ca = closed.endpoints[0], Tls(theirs).ca
        assert "Access denied" in await refusal_of(f"mysql://root:{SECRET}x@{endpoint}/test", Refused)
        assert "Access denied" in await refusal_of(f"mysql://root@{endpoint}/test", Refused)
        assert "Unknown database 'nowhere'" in await refusal_of(f"mysql://root:{SECRET}@{endpoint}/nowhere", Refused)
        async with from_url(closed.url) as store:
            grant = await wins(store, bid("tls"))
            assert await store.renew(grant) == grant
            assert SECRET not in store.address + store.identity + repr(store.settings)
        secret = tmp_path / "secret"
        secret.write_text(f"{SECRET}\n")
        async with from_url(f"mysql://root@{endpoint}/test?password_file={secret}&ssl_mode=required") as store:
            assert await store.read("tls") is not None
        stranger = f"mysql://root:{SECRET}@{endpoint}/test?ssl_ca={ca}"
        assert "we do not trust" in await refusal_of(stranger, Unreachable)
    assert "encrypt" in await refusal_of(f"{cluster.url}?ssl_mode=required")


async def test_what_is_not_a_mysql_is_told_from_one() -> None:
    with talker(b"") as port:
        said = await refusal_of(f"mysql://u:{SECRET}@127.0.0.1:{port}/x?timeout=0.5", Unreachable)
        assert f"127.0.0.1:{port} does not answer as a MySQL or MariaDB does" in said
    assert "does not listen" in await refusal_of(f"mysql://u:{SECRET}@127.0.0.1:{port}/x", Unreachable)
    assert "no-such-host.invalid" in await refusal_of(f"mysql://u:{SECRET}@no-such-host.invalid/x", Unreachable)


async def test_a_server_that_speaks_of_something_else_is_told_from_one() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP ready, say hello\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        said = await refusal_of(f"mysql://u:{SECRET}@127.0.0.1:{port}/x", Unreachable)
        assert f"127.0.0.1:{port} did not answer as a MySQL or MariaDB does" in said


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("ada:hunter2@localhost/x?expiry=never", "expiry = never: must be one of engine, observer"),
        ("ada:hunter2@localhost/x?prefix=Robert')", "prefix"),
        ("ada:hunter2@localhost/x?ssl_mode=maybe", "ssl_mode = maybe"),
        ("ada:hunter2@localhost/x?ssl_ca=/nowhere", "must be a file of certificates"),
        ("ada:hunter2@localhost/x?schema=x", "has an option 'schema'"),
        ("ada:hunter2@localhost", "names no database"),
        ("localhost/x", "names no user"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_before_anything_is_sent(rest: str, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        from_url(f"mysql://{rest}")
    assert said in str(told.value)
    assert SECRET not in str(told.value)


async def test_a_user_with_the_printed_rights_holds_elections_and_one_without_hears_which_is_missing(
    cluster: MariaDbCluster,
) -> None:
    prefix, user = f"least_{token_hex(4)}_", f"app_{token_hex(4)}"
    await sql(cluster, f"CREATE USER {user}@'%'")
    # Whoever has no right in a database is not let into it, and hears just that.
    await sql(cluster, f"CREATE TABLE test.{prefix}other (x int); GRANT SELECT ON test.{prefix}other TO {user}@'%'")
    url = cluster.url.replace("root@", f"{user}@") + f"?prefix={prefix}"
    assert "have somebody run" in await refusal_of(url, Refused)
    await sql(cluster, from_url(url).schema())
    async with from_url(url) as store, from_url(url) as other:
        grant = await wins(store, bid("least"))
        assert await store.renew(grant) == grant
        wait = await waits(other, bid("least"))
        assert await other.ask_to_resign("least") == wait.incumbent
        assert await store.renew(grant) == grant
        assert store.resign_asked(grant)
        await store.release(grant.bid)
        await other.changed(wait)
        await wins(other, wait.bid)
        assert isinstance(await store.swap("least", b"1", None), Document)
    missing = {
        f"UPDATE ON test.{prefix}store": f"GRANT SELECT, UPDATE ON test.{prefix}store",
        f"INSERT ON test.{prefix}office": f"GRANT SELECT, INSERT, UPDATE ON test.{prefix}office",
    }
    for right, said in missing.items():
        await sql(cluster, f"REVOKE {right} FROM {user}@'%'")
        with pytest.raises(Refused, match=f"{said} TO '{user}'"):
            async with from_url(url) as store:
                await store.claim(bid(token_hex(4)))
        await sql(cluster, f"GRANT {right} TO {user}@'%'")
    # Made before there were documents: elections go on, and whoever writes a document has the table made, if it may.
    await sql(
        cluster, f"DROP TABLE test.{prefix}document; REVOKE SELECT, INSERT ON test.{prefix}document FROM {user}@'%'"
    )
    async with from_url(url) as store:
        await store.claim(bid(token_hex(4)))
        with pytest.raises(
            Refused, match=rf"GRANT SELECT, INSERT, UPDATE ON test.{prefix}document|tenure doctor --schema"
        ):
            await store.swap("least", b"1", None)
    async with from_url(f"{cluster.url}?prefix={prefix}") as store:
        assert await store.fetch("least") is None
        assert isinstance(await store.swap("least", b"1", None), Document)


async def test_many_that_come_first_make_the_tables_once(cluster: MariaDbCluster) -> None:
    url = f"{cluster.url}?prefix=many_{token_hex(4)}_"

    async def identity() -> str:
        async with from_url(url) as store:
            return store.identity

    assert len(set(await asyncio.gather(*(identity() for _ in range(12))))) == 1


async def test_a_row_that_was_edited_into_rubbish_is_refused_or_put_right_and_nothing_hangs(
    cluster: MariaDbCluster,
) -> None:
    prefix = f"rubbish_{token_hex(4)}_"
    office = f"test.{prefix}office"
    async with from_url(f"{cluster.url}?prefix={prefix}") as store:
        grant = await wins(store, bid("x"))
        await sql(cluster, f"UPDATE {office} SET host = NULL, pid = NULL")
        assert await store.read("x") is None
        await sql(cluster, f"UPDATE {office} SET host = x'ff00', pid = 7, nonce = x'fe'")
        assert isinstance(await store.claim(bid("x")), Wait)
        await sql(cluster, f"UPDATE {office} SET nonce = NULL, token = 9223372036854775807")
        with pytest.raises(Refused, match="No server counts that far"):
            await store.claim(bid("x"))
        await sql(cluster, f"UPDATE {office} SET token = 7")
        again = await wins(store, bid("x"))
        assert again.token > grant.token  # The counter is not in the row.
        await sql(cluster, f"DROP TABLE {office}")
        with pytest.raises(Refused, match="tables were dropped"):
            await store.claim(bid("x"))


async def test_names_that_a_collation_would_take_for_one_are_two_elections(cluster: MariaDbCluster) -> None:
    async with from_url(cluster.url) as store:
        name = f"books-{token_hex(4)}"
        grants = [await wins(store, bid(each)) for each in (name, name.upper(), f"{name} ", f"{name}é", "a'b\\c%s")]
        assert len({grant.token for grant in grants}) == len(grants)
        assert await store.renew_together(grants) == grants


def test_the_commands_work_and_tell_of_the_server(cluster: MariaDbCluster, tmp_path: Path) -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**at_home(tmp_path), "TENURE_STORE": at(cluster, 0, "?prefix=commands_")}
        command = [sys.executable, "-m", "tenure", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    doctor = run("doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    for said in ("MariaDB", "takes writes", "durability", "latency", "looks again and again"):
        assert said in doctor.stdout
    assert run("run", "books", "--", "sh", "-c", "echo $TENURE_TOKEN").stdout.strip().isdigit()
    status = run("status").stdout
    assert "books" in status
    assert "tenure-doctor" not in status
    assert "GRANT SELECT, INSERT, UPDATE ON `test`.commands_office" in run("doctor", "--schema").stdout
