"""Over TLS the host is who it says it is, and so are we: names and certificates that do not fit are told with what to do."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.errors import Unreachable
from tenure.model import Bid, Grant, Holder
from tenure.stores.opening import make_store
from tenure.testing.engines import RedisCluster, Tls
from tenure.testing.engines.certificates import KeyPair

CERTIFICATE = "does it ask for a certificate (cert=, key=), and of an authority that it trusts?"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """A server that lets in nobody without a certificate."""
    with RedisCluster(tls=Tls(tmp_path_factory.mktemp("tls"), clients_need_certificates=True)) as running:
        yield running


def at(cluster: RedisCluster, pair: KeyPair | None, host: str = "127.0.0.1") -> str:
    assert cluster.tls is not None
    own = "" if pair is None else f"&cert={pair.certificate}&key={pair.key}"
    return f"rediss://{host}:{cluster.nodes[0].ports[0]}?ca={cluster.tls.ca}{own}&timeout=30"


async def stand(url: str) -> None:
    async with make_store(url, {}, accept_best_effort=True) as store:
        answer = await store.claim(Bid("tls", Holder.fresh(), 1, 10**11))
        assert isinstance(answer, Grant)
        await store.release(answer.bid)


def refusal(url: str) -> str:
    with pytest.raises(Unreachable) as told:
        asyncio.run(stand(url))
    return str(told.value)


def test_the_name_of_the_host_is_checked_and_a_wrong_one_is_not_put_down_to_the_authority(strict: RedisCluster) -> None:
    assert strict.tls is not None
    asyncio.run(stand(at(strict, strict.tls.client)))
    told = refusal(at(strict, strict.tls.client, "localhost"))
    assert "its certificate is for another host (Hostname mismatch, certificate is not valid for 'localhost')" in told
    assert "write the name that it has" in told
    assert "ca=" not in told


def test_an_address_is_checked_as_a_name_is(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    elsewhere = tls.issue("elsewhere", "127.0.0.9")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(elsewhere.certificate, elsewhere.key)

    async def run() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        async with server:
            await stand(f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}?ca={tls.ca}&timeout=30")

    with pytest.raises(Unreachable, match=r"its certificate is for another host \(IP address mismatch"):
        asyncio.run(run())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])  # By the older one it tells us before we are connected.
def test_a_server_that_asks_for_a_certificate_lets_in_who_has_one_and_others_hear_of_it(
    version: str, strict: RedisCluster, tmp_path: Path
) -> None:
    assert strict.tls is not None
    strict.ctl("CONFIG", "SET", "tls-protocols", version)
    asyncio.run(stand(at(strict, strict.tls.client)))
    assert CERTIFICATE in refusal(at(strict, None))
    assert CERTIFICATE in refusal(at(strict, Tls(tmp_path).client))  # of an authority of its own
