"""What the tests of Redis share."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import RedisCluster


@pytest.fixture
def server(redis: RedisCluster) -> Iterator[RedisCluster]:
    """One server. A test may leave it in any state."""
    yield redis
    redis.mend()
