"""A server that is not quite a PostgreSQL is told from one, and keeps nobody from the next."""

import gc
import struct
from collections.abc import Iterator

import pytest

from tenure.errors import Unreachable
from tenure.stores.postgresql import from_url
from tenure.testing.engines import PostgresCluster
from tests.postgresql.test_postgresql_access import talker
from tests.sql_rig import bid, wins

pytestmark = [
    pytest.mark.anyio,
    # The driver's, about connections that it has not made to their end.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("swept"),
]


@pytest.fixture
def swept() -> Iterator[None]:
    """Has what the driver left behind complain here, and not in a later test."""
    yield
    gc.collect()


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def setting(name: bytes, value: bytes) -> bytes:
    return message(b"S", name + b"\0" + value + b"\0")


WELCOME = message(b"R", struct.pack("!i", 0))
READY = message(b"K", struct.pack("!ii", 1, 2)) + message(b"Z", b"I")
ODD = {
    "no-version": (WELCOME + setting(b"client_encoding", b"UTF8") + READY, "AttributeError: server_version"),
    "no-settings": (WELCOME + READY, "AttributeError: server_version"),
    "odd-encoding": (
        WELCOME + setting(b"client_encoding", b"MULE_INTERNAL") + setting(b"server_version", b"16") + READY,
        "LookupError: unknown encoding: mule_internal",
    ),
}


@pytest.mark.parametrize("kind", ODD)
async def test_every_server_is_tried_although_the_one_before_it_answers_oddly(kind: str) -> None:
    answer, words = ODD[kind]
    with talker(b"") as gone:
        pass
    with talker(answer) as odd:
        with pytest.raises(Unreachable) as told:
            async with from_url(f"postgresql://u@127.0.0.1:{odd},127.0.0.1:{gone}/x?sslmode=disable"):
                pass
        assert f"127.0.0.1:{odd} did not answer as PostgreSQL does ({words}" in told.value.detail
        assert f"127.0.0.1:{gone} does not listen" in told.value.detail


async def test_offices_are_held_at_the_good_one_of_two_servers(cluster: PostgresCluster) -> None:
    with talker(ODD["no-version"][0]) as odd:
        good = cluster.endpoints[0]
        async with from_url(cluster.url.replace(good, f"127.0.0.1:{odd},{good}") + "?sslmode=disable") as store:
            grant = await wins(store, bid("odd"))
            assert await store.renew(grant) == grant
