"""Who may, and who is told in one line why not: users, ACLs, TLS, SASL, chroots, and addresses that lead nowhere."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenure.clients.zookeeper.wire import Acl, create
from tenure.errors import ConfigError, Refused, TenureError, Unreachable
from tenure.model import Wait
from tenure.stores.examining import Level
from tenure.stores.zookeeper import from_url
from tenure.stores.zookeeper.examine import read_voter_count
from tenure.testing.engines import Tls, ZooKeeperEnsemble
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import (
    TTL_NS,
    bid,
    children_of,
    claimed,
    operator,
    renewed,
    session_of,
    takes_over,
    waits,
    wins,
)

pytestmark = pytest.mark.anyio

READ, CREATE = 1, 4  # of an ACL
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ada="sesame"; };'


def as_user(url: str, user: str, password: str) -> str:
    return url.replace("://", f"://{user}:{password}@")


async def why_not(url: str, **options: str) -> str:
    """Try to open a store, and return what a person is told."""
    with pytest.raises(TenureError) as refusal:
        async with from_url(url, **options):
            pass
    told = str(refusal.value)
    assert "\n" not in told
    return told


@pytest.fixture
def tls_ensemble(tmp_path: Path) -> Iterator[tuple[ZooKeeperEnsemble, Tls]]:
    tls = Tls(tmp_path)
    with ZooKeeperEnsemble(size=1, tick_ms=TICK_MS, tls=tls) as running:
        yield running, tls


@pytest.fixture
def sasl_ensemble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperEnsemble]:
    settings = tmp_path / "jaas.conf"
    settings.write_text(JAAS)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={settings}")
    provider = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    with ZooKeeperEnsemble(size=1, tick_ms=TICK_MS, options=[provider]) as running:
        yield running


async def test_what_a_user_creates_is_closed_to_all_others(ensemble: ZooKeeperEnsemble) -> None:
    async with (
        from_url(as_user(ensemble.url, "ada", "sesame")) as ada,
        from_url(as_user(ensemble.url, "ada", "sesame")) as again,
        from_url(as_user(ensemble.url, "ada", "wrong-secret")) as wrong,
        from_url(ensemble.url) as anybody,
    ):
        await wins(ada, bid("access/closed"))
        await waits(again, bid("access/closed"))
        for other in (wrong, anybody):
            with pytest.raises(Refused, match="the ACL of a node refuses us: check user and password") as refusal:
                await other.claim(bid("access/closed"))
            assert "secret" not in repr(refusal.value)
            with pytest.raises(Refused, match="the ACL of a node refuses us"):
                await other.read("access/closed")
        assert ada.identity == anybody.identity


async def test_a_user_may_leave_its_nodes_open(newest: ZooKeeperEnsemble) -> None:
    url = as_user(newest.url, "ada", "sesame")
    async with from_url(url, acl="open") as ada, from_url(newest.url) as anybody:
        grant = await wins(ada, bid("access/open"))
        wait = await waits(anybody, bid("access/open"))
        assert wait.incumbent is not None
        assert wait.incumbent.token == grant.token


async def test_a_password_may_come_from_a_file(newest: ZooKeeperEnsemble, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sesame\n")
    named = newest.url.replace("://", "://ada@")
    async with (
        from_url(named, password_file=str(secret)) as ada,
        from_url(as_user(newest.url, "ada", "sesame")) as again,
    ):
        grant = await wins(ada, bid("access/file"))
        wait = await waits(again, bid("access/file"))
        assert wait.incumbent is not None
        assert wait.incumbent.token == grant.token


async def test_an_election_is_a_node_below_the_chroot(newest: ZooKeeperEnsemble) -> None:
    async with from_url(f"{newest.url}/rooted/above") as store, from_url(newest.url) as above:
        await wins(store, bid("x"))
        assert len(await children_of(newest.url, "rooted/above/x")) == 1
        await waits(above, bid("rooted/above/x"))
        assert store.identity != above.identity
        assert store.address.endswith("/rooted/above")


async def test_a_trial_that_cannot_be_cleared_away_is_told_with_the_node_that_stays(newest: ZooKeeperEnsemble) -> None:
    async with operator(newest.url) as session:
        await session.ask(create("/access-trial", b"", Acl("world", "anyone", READ | CREATE)))
    found = await from_url(f"{newest.url}/access-trial").examine(TTL_NS)
    assert not [finding for finding in found if finding.level is Level.BAD]
    (stays,) = [finding for finding in found if finding.subject == "trial"]
    (node,) = [name for name in await children_of(newest.url, "access-trial") if name.startswith("tenure-doctor")]
    assert f"/access-trial/{node}" in stays.detail


async def test_a_tick_that_cannot_be_worked_out_is_told_with_what_to_add() -> None:
    bounds = ["minSessionTimeout=400", "maxSessionTimeout=4000"]  # as if the tick were 200 ms
    with ZooKeeperEnsemble(size=1, options=bounds) as running:
        found = {finding.subject: finding for finding in await from_url(running.url).examine(TTL_NS)}
        assert found["tick"].advice == "add tick=2 to the URL of every candidate"


def test_an_observer_is_not_counted_among_those_who_decide() -> None:
    written = (f"server.{number}=h{number}:2888:3888:participant;h{number}:2181\n" for number in (1, 2, 3))
    settings = "".join(written) + "server.4=h4:2888:3888:observer;0.0.0.0:2181\nversion=100000000"
    assert read_voter_count(settings.encode()) == 3
    assert read_voter_count(b"version=0") == 1  # It is alone, and has no list.


async def test_tls_is_spoken_with_whom_we_trust_under_the_name_that_we_called(
    tls_ensemble: tuple[ZooKeeperEnsemble, Tls],
) -> None:
    ensemble, tls = tls_ensemble
    secure, plain = (f"{scheme}://{ensemble.endpoints[0]}" for scheme in ("zookeepers", "zookeeper"))
    async with from_url(f"{secure}?ca={tls.ca}") as store:
        grant = await wins(store, bid("access/tls"))
        assert await store.renew(grant) == grant
    assert "name its authority by ca=" in await why_not(secure, ca=str(tls.wrong_ca))
    assert "its certificate is for another host (Hostname mismatch" in await why_not(
        secure.replace("127.0.0.1", "localhost"), ca=str(tls.ca)
    )
    assert "wants TLS (zookeepers://)" in await why_not(plain)


async def test_tls_to_a_server_that_speaks_none_is_said_to_be_that(newest: ZooKeeperEnsemble) -> None:
    told = await why_not(newest.url.replace("zookeeper://", "zookeepers://"), timeout="1")
    assert "no answer" in told or "it does not speak TLS" in told or "hung up" in told


async def test_sasl_tells_who_we_are(sasl_ensemble: ZooKeeperEnsemble) -> None:
    good = as_user(sasl_ensemble.url, "ada", "sesame")
    async with from_url(good, sasl="DIGEST-MD5") as store, from_url(sasl_ensemble.url) as anybody:
        grant = await wins(store, bid("access/sasl"))
        assert await store.renew(grant) == grant
        with pytest.raises(Refused, match="the ACL of a node refuses us"):
            await anybody.claim(bid("access/sasl"))
    told = await why_not(as_user(sasl_ensemble.url, "ada", "wrong-secret"), sasl="DIGEST-MD5")
    assert "did not accept user and password" in told
    assert "secret" not in told


@pytest.mark.parametrize("options", [{}, {"sasl": "DIGEST-MD5"}], ids=["digest", "DIGEST-MD5"])
async def test_a_user_is_still_known_after_its_connection_broke(
    sasl_ensemble: ZooKeeperEnsemble, options: dict[str, str]
) -> None:
    url = as_user(sasl_ensemble.url, "ada", "sesame")
    async with from_url(url, **options) as one, from_url(url, **options) as two:
        grant, wait = await wins(one, bid("access/broken")), await waits(two, bid("access/broken"))
        for _ in range(3):
            for session in (session_of(one, grant.bid), session_of(two, wait.bid)):
                assert session._link is not None
                session._link.abort("cut by hand")
            assert await renewed(one, grant) == grant
            assert isinstance(await claimed(two, wait.bid), Wait)
        await one.release(grant.bid)
        assert (await takes_over(two, wait)).token > grant.token


@asynccontextmanager
async def web_server() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_address_that_leads_nowhere_is_told_in_one_line() -> None:
    assert "no such host" in await why_not("zookeeper://no-such-host.invalid")
    assert "has a part that is no host" in await why_not("zookeeper://h1..example")
    assert "127.0.0.1:1: nothing listens there" in await why_not("zookeeper://127.0.0.1:1")
    async with web_server() as endpoint:
        assert "not ZooKeeper's protocol" in await why_not(f"zookeeper://user:sesame@{endpoint}")


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("zookeeper://h/a//b", "empty part"),
        ("zookeeper://h?sasl=PLAIN", "DIGEST-MD5"),
        ("zookeeper://h?sasl=DIGEST-MD5", "needs a user and a password"),
        ("zookeeper://h?sasl=GSSAPI", "pip install 'pure-sasl[gssapi]'"),  # which none of our own environments has
        ("zookeeper://ada@h", "password_file="),
        ("zookeeper://h?ca=x.pem", "zookeepers://"),
        ("zookeepers://h?ca=no-such-file.pem", "must be a file of certificates"),
        ("zookeepers://h?cert=x.pem", "must be a certificate in PEM form"),
        ("zookeeper://h?acl=all", "open, creator"),
        ("zookeeper://h?tick=fast", "number of seconds"),
        ("zookeeper://h?timeout=0", "number of seconds"),
        ("zookeeper://ada:sesame@h?colour=red", "does not know"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_the_fix(url: str, fix: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_url(url)
    assert fix in str(refusal.value)
    assert "sesame" not in repr(refusal.value)


async def test_a_ttl_that_the_ensemble_cannot_keep_is_refused_with_the_setting_to_change(
    newest: ZooKeeperEnsemble,
) -> None:
    async with from_url(newest.url) as store:
        with pytest.raises(Refused, match="tickTime and maxSessionTimeout"):
            await store.claim(bid("access/long", ttl_ns=60 * 10**9))
    async with from_url(newest.url, tick="0.4") as store:
        assert store.traits.ttl_min_ns == 400_000_000
    assert "raise maxSessionTimeout" in await why_not(newest.url, tick="3")


async def test_a_store_that_is_not_open_says_so(newest: ZooKeeperEnsemble) -> None:
    store = from_url(newest.url)
    with pytest.raises(Unreachable, match="use async with"):
        await store.claim(bid("access/unopened"))
    async with store:
        pass
    with pytest.raises(Unreachable, match="use async with"):
        await store.read("access/unopened")
    with pytest.raises(ConfigError, match="make a new one"):
        async with store:
            pass
