"""The examination of Redis."""

from typing import TYPE_CHECKING

from tenure.clients.redis.client import RedisClient
from tenure.stores.examining import Finding

if TYPE_CHECKING:
    from tenure.stores.redis.store import RedisStore


async def examine(store: "RedisStore", client: RedisClient, ttl_ns: int) -> list[Finding]:
    raise NotImplementedError
