"""The stores of Redis keep the contract, as long as no server fails: on one server, through Sentinels, and as Redlock."""

import asyncio

import pytest

from tenure.testing.engines import RedisCluster, RedisSentinels
from tests.redis.redis_rig import broken_promises


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_one_server(server: RedisCluster) -> None:
    assert asyncio.run(broken_promises(server, server.url)) == []


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_redlock() -> None:
    with RedisCluster(5, independent=True) as servers:
        assert asyncio.run(broken_promises(servers, servers.url)) == []


@pytest.mark.timeout(300)
def test_every_promise_is_kept_through_sentinels() -> None:
    # They are patient: a server that is restarted is back before they promote the other.
    with RedisCluster(2) as servers, RedisSentinels(servers, down_after_ms=60_000) as sentinels:
        assert asyncio.run(broken_promises(servers, sentinels.url)) == []
