"""The stores of Redis keep the contract, as long as no server fails: on one server, through Sentinels, and as Redlock."""

import asyncio

import pytest

from tenure.testing.engines import RedisCluster, RedisSentinels
from tests.redis.redis_rig import broken_promises


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_one_server_and_by_redlock(server: RedisCluster) -> None:
    async def broken(servers: RedisCluster) -> tuple[list[str], list[str]]:
        # They mostly wait.
        one, several = await asyncio.gather(broken_promises(server, server.url), broken_promises(servers, servers.url))
        return one, several

    with RedisCluster(5, independent=True) as servers:
        assert asyncio.run(broken(servers)) == ([], [])


@pytest.mark.timeout(300)
def test_every_promise_is_kept_through_sentinels() -> None:
    # They are patient: a server that is restarted is back before they promote the other.
    with RedisCluster(2) as servers, RedisSentinels(servers, down_after_ms=60_000) as sentinels:
        assert asyncio.run(broken_promises(servers, sentinels.url)) == []
