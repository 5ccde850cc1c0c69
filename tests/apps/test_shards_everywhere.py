"""Shards on every kind of store: what the roster needs of it is there, and as few shards move as on any other."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import ZooKeeperEnsemble
from tests.apps.crowd import crowd_of, run
from tests.sharing import TICK_MS

TTL_S = 3.0  # What ZooKeeper gives at most, with the short ticks of tests.


@pytest.fixture(params=["consul", "kubernetes", "postgresql", "mariadb", "redis", "zookeeper"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "zookeeper":
        with ZooKeeperEnsemble(tick_ms=TICK_MS) as ensemble:
            yield ensemble.url
    else:
        yield request.getfixturevalue(request.param).url


def test_two_members_then_three_then_one(url: str) -> None:
    async def test() -> None:
        async with crowd_of(24, url, ttl_s=TTL_S) as crowd:
            members = {name: crowd.join(name) for name in "ab"}
            assert await crowd.shared(a=12, b=12) == 24
            members["c"] = crowd.join("c")
            assert await crowd.shared(a=8, b=8, c=8) == 8
            for name in "ab":
                members[name].leave()
            assert await crowd.shared(c=24) == 16

    run(test)
