"""Over which wire, with whose certificate, by which name."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace

import pytest
from cryptography import x509

from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.mysql.settings import arguments_of
from tenure.stores.mysql import from_url
from tenure.testing.engines import KeyPair, MariaDbCluster, Tls
from tests.mysql.test_mysql_access import refusal_of
from tests.sql_rig import bid, sql, wins

pytestmark = pytest.mark.anyio

CIPHER = "SELECT variable_value AS cipher FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def encrypted(tls: Tls) -> Iterator[MariaDbCluster]:
    """A server that speaks TLS, and whose certificate is for 127.0.0.1 and no other name."""
    with MariaDbCluster(tls=tls) as running:
        yield running


def url_of(cluster: MariaDbCluster, options: str, host: str = "127.0.0.1", user: str = "root") -> str:
    return f"mysql://{user}@{host}:{cluster.nodes[0].ports[0]}/test?{options}"


async def is_encrypted(url: str) -> bool:
    async with from_url(url) as store:
        grant = await wins(store, bid("tls", ttl_ns=60 * 10**9))
        assert await store.renew(grant) == grant
        await store.release(grant.bid)
        return bool((await store.engine.about(CIPHER))["cipher"])


@pytest.mark.parametrize(("mode", "encrypts"), [("disabled", False), ("required", True)])
async def test_modes_that_check_nothing_encrypt_as_they_say(
    mode: str, encrypts: bool, encrypted: MariaDbCluster
) -> None:
    assert await is_encrypted(url_of(encrypted, f"ssl_mode={mode}", "localhost")) is encrypts


async def test_the_authority_is_checked_by_every_mode_that_checks_anything(encrypted: MariaDbCluster, tls: Tls) -> None:
    for mode in ("", "&ssl_mode=verify_ca", "&ssl_mode=verify_identity"):
        assert await is_encrypted(url_of(encrypted, f"ssl_ca={tls.ca}{mode}"))
        said = await refusal_of(url_of(encrypted, f"ssl_ca={tls.wrong_ca}{mode}"), Unreachable)
        assert "has a certificate that we do not trust" in said


async def test_the_name_of_the_host_is_checked_by_verify_identity_and_by_nothing_less(
    encrypted: MariaDbCluster, tls: Tls
) -> None:
    trusted = f"ssl_ca={tls.ca}"
    assert await is_encrypted(url_of(encrypted, f"{trusted}&ssl_mode=verify_ca", "localhost"))
    for mode in ("", "&ssl_mode=verify_identity"):
        said = await refusal_of(url_of(encrypted, trusted + mode, "localhost"), Unreachable)
        assert "has a certificate for another name" in said
        assert "authority" not in said  # which is in order


async def test_a_user_who_must_have_a_certificate_is_let_in_with_the_one_that_names_it(
    encrypted: MariaDbCluster, tls: Tls, tmp_path: Path
) -> None:
    user = f"ada{token_hex(4)}"
    own = tls.issue(user)
    subject = x509.load_pem_x509_certificate(own.certificate.read_bytes()).subject
    written = "".join(f"/{part.rfc4514_attribute_name}={part.value!s}" for part in subject)
    await sql(encrypted, f"CREATE USER {user}@'%' REQUIRE SUBJECT '{written}'; GRANT ALL ON test.* TO {user}@'%'")
    trusted = f"ssl_ca={tls.ca}"

    def by(pair: KeyPair) -> str:
        return url_of(encrypted, f"{trusted}&ssl_cert={pair.certificate}&ssl_key={pair.key}", user=user)

    assert await is_encrypted(by(own))
    assert "Access denied" in await refusal_of(url_of(encrypted, trusted, user=user), Refused)
    assert "Access denied" in await refusal_of(by(tls.client), Refused)
    await refusal_of(by(Tls(tmp_path).issue(user)), Unreachable)


async def cipher_by(sink: MySQLSink | PyMySQLSink) -> str:
    """What the connection of a sink is encrypted with, as the server says; nothing if it is not."""
    term = SimpleNamespace(fence=f"tls/{token_hex(4)}", token=1)
    if isinstance(sink, MySQLSink):
        async with sink, sink.transaction(term) as raw, raw.cursor() as cursor:
            await cursor.execute(CIPHER)
            [(cipher,)] = await cursor.fetchall()
    else:
        with closing(sink), sink.transaction(term) as raw, raw.cursor() as cursor:
            cursor.execute(CIPHER)
            [(cipher,)] = cursor.fetchall()
    return str(cipher)


@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink])
async def test_the_url_of_a_sink_says_the_same_of_encryption_as_that_of_a_store(
    kind: type[MySQLSink] | type[PyMySQLSink], encrypted: MariaDbCluster, tls: Tls
) -> None:
    plain = await cipher_by(kind(url_of(encrypted, "ssl_mode=disabled&charset=utf8mb4")))
    assert plain == "" or kind is PyMySQLSink  # It encrypts by itself where it can, and checks nothing.
    assert await cipher_by(kind(url_of(encrypted, f"ssl_ca={tls.ca}")))
    with pytest.raises(StoreError, match="certificate"):
        await cipher_by(kind(url_of(encrypted, f"ssl_ca={tls.wrong_ca}")))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("ssl_mode=preferred", "ssl_mode = preferred: must be one of disabled, required"),
        ("charset=latin1", "charset = latin1: must be utf8mb4"),
        ("autocommit=true", "with none but these options: charset, password_file, ssl_ca"),
        ("password_file=/nowhere", "password_file = /nowhere: cannot be read"),
    ],
)
async def test_options_of_a_sink_that_cannot_be_meant_are_refused_without_its_password(options: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        arguments_of(f"mysql://me@127.0.0.1/books?{options}")
    assert told in str(refused.value)
    with pytest.raises(ConfigError, match="two places") as twice:
        arguments_of("mysql://me:geheim@127.0.0.1/books?password_file=/nowhere")
    assert "geheim" not in str(twice.value)
