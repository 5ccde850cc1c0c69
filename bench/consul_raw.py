"""The requests of a claim and its release on Consul, on plain aiohttp and with nothing around them.

A program of its own behind the commands and events of the peers. Arguments: where Consul is, name, ttl in seconds.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers.lines import say
from tests.peers.serving import serve

from tenure.clients.consul.messages import Op, lock, read, unchanged, unlock
from tenure.stores.consul.layout import LOCK_FLAG


class RawSide:
    def __init__(self, http: aiohttp.ClientSession, endpoint: str, key: str, session: str) -> None:
        self.http, self.url, self.key, self.session = http, f"http://{endpoint}/v1", key, session

    async def time(self, count: str) -> None:
        """Take the key and leave it as the store does, and say how long each pair took."""
        took_ns = []
        for number in range(int(count)):
            began_ns = time.monotonic_ns()
            found = await self._txn("?consistent", [read(self.key)])
            value = f"{number}".encode()
            (taken, _) = await asyncio.gather(
                self._txn("", [unchanged(self.key, found), lock(self.key, value, LOCK_FLAG, self.session)]),
                self._put(f"session/renew/{self.session}"),
            )
            await self._txn("", [unchanged(self.key, taken), unlock(self.key, value, LOCK_FLAG, self.session)])
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def make(self) -> None:
        """Have the key be there, and nobody hold it."""
        taken = await self._txn("", [lock(self.key, b"", LOCK_FLAG, self.session)])
        await self._txn("", [unchanged(self.key, taken), unlock(self.key, b"", LOCK_FLAG, self.session)])

    async def _txn(self, query: str, ops: list[Op]) -> int:
        answer = await self._put(f"txn{query}", ops)
        return int(answer["Results"][-1]["KV"]["ModifyIndex"])

    async def _put(self, path: str, body: object = None) -> Any:
        async with self.http.put(f"{self.url}/{path}", data=json.dumps(body).encode()) as answer:
            assert answer.status == 200, await answer.text()
            return json.loads(await answer.read())


async def main(endpoint: str, name: str, ttl_s: float) -> None:
    async with aiohttp.ClientSession() as http:
        side = RawSide(http, endpoint, f"{name}/.lock", "")
        side.session = (await side._put("session/create", {"TTL": f"{ttl_s:g}s", "Checks": [], "NodeChecks": []}))["ID"]
        await side.make()
        await serve({"time": side.time})


if __name__ == "__main__":
    endpoint, name, ttl_s = sys.argv[1:]
    asyncio.run(main(endpoint, name, float(ttl_s)))
