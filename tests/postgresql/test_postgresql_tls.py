"""Over which wire, with whose certificate, by which name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.errors import Refused, Unreachable
from tenure.stores.postgresql import from_url
from tenure.testing.engines import KeyPair, PostgresCluster, Tls
from tests.postgresql.test_postgresql_access import refusal_of
from tests.sql_rig import bid, sql, until, wins

pytestmark = pytest.mark.anyio

ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"), client_name="postgres")


@pytest.fixture(scope="module")
def encrypted(tls: Tls) -> Iterator[PostgresCluster]:
    """A server that speaks TLS, and whose certificate is for 127.0.0.1 and no other name."""
    with PostgresCluster(tls=tls) as running:
        yield running


def url_of(cluster: PostgresCluster, options: str, host: str = "127.0.0.1") -> str:
    return f"postgresql://postgres@{host}:{cluster.nodes[0].ports[0]}/postgres?{options}"


async def is_encrypted(url: str) -> bool:
    async with from_url(url) as store:
        grant = await wins(store, bid("tls", ttl_ns=60 * 10**9))
        assert await store.renew(grant) == grant
        await store.release(grant.bid)
        about, _, _ = await store.engine.about(ENCRYPTED)
        return bool(about["ssl"])


@pytest.mark.parametrize(
    ("mode", "encrypts"), [("disable", False), ("allow", False), ("prefer", True), ("require", True)]
)
async def test_modes_that_check_nothing_encrypt_as_they_say(
    mode: str, encrypts: bool, encrypted: PostgresCluster
) -> None:
    assert await is_encrypted(url_of(encrypted, f"sslmode={mode}", "localhost")) is encrypts


async def test_a_server_that_does_not_encrypt_is_spoken_to_only_by_who_does_not_insist(
    cluster: PostgresCluster, tls: Tls
) -> None:
    assert not await is_encrypted(url_of(cluster, "sslmode=prefer"))
    for options in ("sslmode=require", f"sslmode=verify-ca&sslrootcert={tls.ca}", f"sslrootcert={tls.ca}"):
        assert "does not speak TLS" in await refusal_of(url_of(cluster, options), Unreachable)


async def test_the_authority_is_checked_by_every_mode_that_is_given_one(encrypted: PostgresCluster, tls: Tls) -> None:
    for mode in ("", "&sslmode=require", "&sslmode=verify-ca", "&sslmode=verify-full"):
        assert await is_encrypted(url_of(encrypted, f"sslrootcert={tls.ca}{mode}"))
        said = await refusal_of(url_of(encrypted, f"sslrootcert={tls.wrong_ca}{mode}"), Unreachable)
        assert "has a certificate that we do not trust" in said


async def test_the_name_of_the_host_is_checked_by_verify_full_and_by_nothing_less(
    encrypted: PostgresCluster, tls: Tls
) -> None:
    trusted = f"sslrootcert={tls.ca}"
    assert await is_encrypted(url_of(encrypted, f"{trusted}&sslmode=verify-ca", "localhost"))
    for mode in ("", "&sslmode=verify-full"):
        said = await refusal_of(url_of(encrypted, trusted + mode, "localhost"), Unreachable)
        assert "has a certificate for another name" in said
        assert "authority" not in said  # which is in order


async def test_a_server_that_wants_certificates_of_its_clients_lets_in_whom_they_name(
    encrypted: PostgresCluster, tls: Tls, tmp_path: Path
) -> None:
    rules = encrypted.nodes[0].folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    trusted = f"sslrootcert={tls.ca}"

    def by(pair: KeyPair) -> str:
        return url_of(encrypted, f"{trusted}&sslcert={pair.certificate}&sslkey={pair.key}")

    async def wants_certificates() -> bool:
        try:
            async with from_url(url_of(encrypted, trusted)):
                return False
        except Refused:
            return True

    rules.write_text("hostssl all all all cert\n")
    try:
        await sql(encrypted, "SELECT pg_reload_conf()")
        await until(wants_certificates)
        assert "valid client certificate" in await refusal_of(url_of(encrypted, trusted), Refused)
        assert await is_encrypted(by(tls.client))
        somebody = await refusal_of(by(tls.issue("ada")), Refused)
        assert 'certificate authentication failed for user "postgres"' in somebody
        await refusal_of(by(Tls(tmp_path, client_name="postgres").client), Unreachable)
    finally:
        rules.write_text(before)
        await sql(encrypted, "SELECT pg_reload_conf()")
