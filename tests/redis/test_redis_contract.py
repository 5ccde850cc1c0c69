"""The stores of Redis keep the contract, as long as no server fails: on one server, through Sentinels, and as Redlock."""

import asyncio

import pytest

from tenure.testing.engines import RedisCluster
from tests.redis.redis_rig import broken_promises


@pytest.mark.timeout(300)
def test_every_promise_is_kept_by_one_server(server: RedisCluster) -> None:
    assert asyncio.run(broken_promises(server, server.url)) == []
