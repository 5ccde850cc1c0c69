"""The two requests that no tenure on Kubernetes can do without, on aiohttp and with nothing around them.

A program of its own behind the commands and events of the peers. Arguments: the URL of the store, name, ttl in seconds.
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
from tests.peers.serving import in_background, serve

from tenure.clients.kubernetes.settings import Settings, settings_of
from tenure.model import Bid, Holder
from tenure.stores.kubernetes.lease import Lease, Note, new_lease


class RawSide:
    def __init__(self, session: aiohttp.ClientSession, settings: Settings, bid: Bid) -> None:
        self.session, self.bid = session, bid
        self.collection = f"{settings.access.server}/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        self.lease = new_lease(bid.election, settings.namespace)

    async def make(self) -> None:
        self.lease = await self._send("POST", self.collection, self.lease.taken(self.bid, 1))

    async def time(self, count: str) -> None:
        """Take and leave, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            url = f"{self.collection}/{self.bid.election}"
            self.lease = await self._send("PUT", url, self.lease.taken(self.bid, self.lease.transitions + 1))
            self.lease = await self._send("PUT", url, self.lease.left())
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def keep(self, per_second: str) -> None:
        """Go on renewing, so often, and say so."""

        async def renew() -> None:
            loop, url = asyncio.get_running_loop(), f"{self.collection}/{self.bid.election}"
            due_s = loop.time()
            while True:
                body = self.lease.renewed(self.bid, Note(), self.lease.transitions)
                self.lease = await self._send("PUT", url, body)
                due_s += 1 / float(per_second)
                await asyncio.sleep(max(0.0, due_s - loop.time()))

        self.renewing = in_background(renew())
        say("held")

    async def _send(self, method: str, url: str, body: dict[str, Any]) -> Lease:
        async with self.session.request(method, url, data=json.dumps(body).encode()) as answer:
            answer.raise_for_status()
            return Lease(json.loads(await answer.read()))


async def main(url: str, name: str, ttl_s: float) -> None:
    settings = settings_of(url)
    headers = {**await settings.access.credentials.headers(), "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=settings.access.tls or True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        side = RawSide(session, settings, Bid(name, Holder.fresh(), 1, round(ttl_s * 1e9)))
        await side.make()
        await serve({"time": side.time, "keep": side.keep})


if __name__ == "__main__":
    url, name, ttl_s = sys.argv[1:]
    asyncio.run(main(url, name, float(ttl_s)))
