"""The stores of Redis keep the contract, as long as no server fails: on one server, through Sentinels, and as Redlock."""

import asyncio

import pytest

from tenure.testing.engines import RedisCluster, RedisSentinels
from tests.promises import broken_promises
from tests.redis.redis_rig import AT_ONCE, RedisRig


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_one_server_and_through_sentinels(server: RedisCluster) -> None:
    # They are patient: a server that is restarted is back before they promote the other.
    with RedisCluster(2) as watched, RedisSentinels(watched, down_after_ms=60_000) as sentinels:

        async def broken() -> list[list[str]]:
            places = ((server, server.url), (watched, sentinels.url))
            # At once, because they mostly wait.
            return list(
                await asyncio.gather(*(broken_promises(RedisRig(cluster, url), AT_ONCE) for cluster, url in places))
            )

        assert asyncio.run(broken()) == [[], []]


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_redlock() -> None:
    with RedisCluster(5, independent=True) as servers:
        assert asyncio.run(broken_promises(RedisRig(servers, servers.url), AT_ONCE)) == []
