"""The fences of a Redis. Lowering is one script, which compares, records, and writes the fence."""

from collections.abc import Mapping
from typing import Final

from tenure.clients.redis import RedisClient, Script, settings_of
from tenure.clients.redis.resp import Reply
from tenure.sinks.mending.over_keys import Found, KeyFences, Swap
from tenure.sinks.redis import FENCES

_SCAN_COUNT: Final = 1000
_SPECIAL: Final = "\\*?[]^"
# SET replaces whatever is there, so neither can fail once the other was written: Redis takes nothing back.
_LOWER: Final = Script("""
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] or (redis.call('GET', KEYS[2]) or '') ~= ARGV[3] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], ARGV[2])
return 1
""")


class RedisFences(KeyFences[RedisClient, None]):
    """See ``Mendable``."""

    def __init__(self, url: str, fences: str = FENCES) -> None:
        self._settings = settings_of(url)
        super().__init__(self._settings.address, fences)

    def opened(self, operation: str) -> RedisClient:  # noqa: ARG002  (it says "open")
        return RedisClient(self._settings)

    async def values(self, client: RedisClient) -> Mapping[str, bytes]:
        prefix, found = len(self.fences.encode()), dict[str, bytes]()
        for key in await self._keys(client):
            value = await client.call("GET", key, operation="read")
            if isinstance(value, bytes):
                found[key[prefix:].decode("utf-8", "replace")] = value
        return found

    async def found(self, client: RedisClient, key: str, operation: str) -> Found[None]:
        value = await client.call("GET", key, operation=operation)
        return Found(value if isinstance(value, bytes) else b"", None)

    async def swapped(self, client: RedisClient, fence: Swap[None], record: Swap[None]) -> bool:
        words = (fence.found.value, fence.value, record.found.value, record.value)
        return bool(await client.run(_LOWER, [fence.key, record.key], words, operation="repair"))

    async def _keys(self, client: RedisClient) -> set[bytes]:
        pattern = "".join(f"\\{char}" if char in _SPECIAL else char for char in self.fences) + "*"
        found, cursor = set[bytes](), b"0"
        while True:
            answer = await client.call("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT, operation="read")
            next_cursor, keys = _items(answer)
            assert isinstance(next_cursor, bytes), f"a cursor was asked for, and {next_cursor!r} came"
            found |= {key for key in _items(keys) if isinstance(key, bytes)}
            cursor = next_cursor
            if cursor == b"0":
                return found


def _items(reply: Reply) -> list[Reply]:
    return reply if isinstance(reply, list) else []
