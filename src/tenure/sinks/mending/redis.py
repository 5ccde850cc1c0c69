"""The fences of a Redis. Lowering is one script, which compares the fence, records, and writes it."""

import asyncio
from typing import Final

from tenure.clients.redis import RedisClient, Script, settings_of
from tenure.clients.redis.resp import Argument, Reply
from tenure.errors import OutcomeUnknown
from tenure.sinks.digits import number_in
from tenure.sinks.mending.over_keys import as_text, digits_to, repairs_from, repairs_key
from tenure.sinks.redis import FENCES
from tenure.sinks.repairing import Fences, Repair, moved, no_fences

_TRIES_MAX: Final = 8
_SCAN_COUNT: Final = 1000
# The record comes first: Redis takes nothing back, and SET cannot fail once something was written.
_LOWER: Final = Script("""
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[2])
return 1
""")


class RedisFences:
    """See ``Mendable``."""

    def __init__(self, url: str, fences: str = FENCES) -> None:
        self._settings, self._fences = settings_of(url), fences
        self._repairs = repairs_key(fences)

    def look(self) -> Fences:
        return asyncio.run(self._look())

    def lower(self, repair: Repair) -> None:
        asyncio.run(self._lower(repair))

    async def _look(self) -> Fences:
        async with RedisClient(self._settings) as client:
            keys = await self._keys(client)
            values = {self._name(key): await client.call("GET", key, operation="read") for key in keys}
            lines = await client.call("LRANGE", self._repairs, 0, -1, operation="read")
        highest = {
            name: number_in(value, f"{self._fences}{name}", client.address)
            for name, value in values.items()
            if isinstance(value, bytes)
        }
        text = b"[%b]" % b",".join(line for line in _items(lines) if isinstance(line, bytes))
        repairs = repairs_from(text, self._repairs, client.address)
        if not highest and not repairs:
            raise no_fences(client.address)
        return Fences(highest, repairs)

    def _name(self, key: bytes) -> str:
        return key.decode("utf-8", "replace").removeprefix(self._fences)

    async def _keys(self, client: RedisClient) -> list[bytes]:
        pattern = "".join(f"\\{char}" if char in "\\*?[]^" else char for char in self._fences) + "*"
        found, cursor = set[bytes](), b"0"
        while True:
            answer = await client.call("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT, operation="read")
            next_cursor, keys = _items(answer)
            found |= {key for key in _items(keys) if isinstance(key, bytes)}
            assert isinstance(next_cursor, bytes), f"a cursor was asked for, and {next_cursor!r} came"
            cursor = next_cursor
            if cursor == b"0":
                return sorted(found)

    async def _lower(self, repair: Repair) -> None:
        key = f"{self._fences}{repair.fence}"
        async with RedisClient(self._settings) as client:
            for _ in range(_TRIES_MAX):
                found = await client.call("GET", key, operation="repair")
                seen = found if isinstance(found, bytes) else b""
                highest = number_in(seen, key, client.address) if seen else 0
                if highest != repair.was:
                    raise moved(repair, highest)
                words: list[Argument] = [seen, digits_to(repair.now), as_text(repair)]
                if await client.run(_LOWER, [key, self._repairs], words, operation="repair"):
                    return
        raise OutcomeUnknown(self._settings.address, "repair", "the fence changed with every try")


def _items(reply: Reply) -> list[Reply]:
    return reply if isinstance(reply, list) else []
