"""``granted_by`` on every kind of server that has an incumbent of its own to tell of; etcd's is in tests/etcd."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tenure import Election, granted_by, open_store
from tenure.errors import UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound, SQLiteSink
from tenure.testing.engines import RedisCluster

FORGED = Token(2**62)


@pytest.fixture(params=["postgresql", "mariadb", "redis", "redlock"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "redlock":
        with RedisCluster(3, independent=True) as servers:
            yield servers.url
    else:
        yield request.getfixturevalue(request.param).url


async def forge(sink: SQLiteSink, term: Bound) -> None:
    for forged in (FORGED, Token(term.token + 1)):
        with pytest.raises(UnverifiedToken, match=f"the highest seen is {term.token}"):
            await sink.seal(term.fence, forged)
    await sink.seal(term.fence, Token(term.token))  # They have not locked out the leader.


def test_the_leader_is_confirmed_and_a_forged_token_is_refused_and_counted(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        # The sink asks by a connection of its own, as a service does that is not the leader.
        async with open_store(url, accept_best_effort=True) as store, open_store(url, accept_best_effort=True) as asked:
            verify, election = granted_by(asked, within=60), Election(store, f"granted-by/{token_hex(4)}", ttl=60)
            with SQLiteSink(tmp_path / "one.db", verify=verify) as sink:
                async with election.once([sink]) as first:
                    await forge(sink, first)
                async with election.once([sink]) as second:
                    await forge(sink, second)
                assert first.token < second.token
                assert (sink.refused.stale, sink.refused.unverified) == (0, 4)
            with SQLiteSink(tmp_path / "other.db", verify=verify) as fresh, pytest.raises(UnverifiedToken):
                await fresh.seal(second.fence, Token(second.token))  # Nobody is in office any more.

    asyncio.run(run())
