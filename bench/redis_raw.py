"""What a claim and its release cannot do without on Redis, on plain redis-py; and redis-py's own Lock beside it.

A program of its own behind the commands and events of the peers. Arguments: raw|lock, where Redis is, name, ttl in seconds.
"""

import asyncio
import secrets
import sys
import time
from pathlib import Path

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers.lines import say
from tests.peers.serving import in_background, serve

_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class TheirSide:
    def __init__(self, client: "redis.asyncio.Redis", kind: str, name: str, ttl_s: float) -> None:
        self.client, self.kind, self.name, self.ttl_s = client, kind, name, ttl_s
        self.release = client.register_script(_RELEASE)
        self.resigned = asyncio.Event()
        self.standing: asyncio.Task[None] | None = None

    async def time(self, count: str) -> None:
        """Take the key and leave it, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            await (self._raw() if self.kind == "raw" else self._lock())
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def _raw(self) -> None:
        mine = secrets.token_hex(8)
        assert await self.client.set(self.name, mine, nx=True, px=round(self.ttl_s * 1000)), "somebody else is here"
        assert await self.release(keys=[self.name], args=[mine]) == 1

    async def _lock(self) -> None:
        async with self.client.lock(self.name, timeout=self.ttl_s):
            pass

    async def campaign(self, _: str) -> None:
        self.resigned.clear()
        self.standing = in_background(self._stand())

    async def resign(self, _: str) -> None:
        assert self.standing is not None
        self.resigned.set()
        await self.standing

    async def _stand(self) -> None:
        say("standing")
        async with self.client.lock(self.name, timeout=self.ttl_s):
            say("leading", token=1)
            await self.resigned.wait()
            say("leaving")
        say("left")


async def main(kind: str, endpoint: str, name: str, ttl_s: float) -> None:
    host, _, port = endpoint.rpartition(":")
    retry = Retry(NoBackoff(), 0)
    async with redis.asyncio.Redis(host=host, port=int(port), single_connection_client=True, retry=retry) as client:
        side = TheirSide(client, kind, name, ttl_s)
        await serve({"time": side.time, "campaign": side.campaign, "resign": side.resign})


if __name__ == "__main__":
    kind, endpoint, name, ttl_s = sys.argv[1:]
    asyncio.run(main(kind, endpoint, name, float(ttl_s)))
