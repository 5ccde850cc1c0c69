"""The two requests that no tenure on Kubernetes can do without, on aiohttp and with nothing around them.

A Lease is a plain dict here, as ``json`` reads and writes it; only where the API server is, and who we are, is read by our own
code. A program of its own behind the commands and events of the peers. Arguments: the URL of the store, name, ttl in seconds.
"""

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers.lines import say
from tests.peers.serving import in_background, serve

from tenure.clients.kubernetes.settings import Settings, settings_of

_WHO = "raw"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class RawSide:
    def __init__(self, session: aiohttp.ClientSession, settings: Settings, name: str, ttl_s: float) -> None:
        self.session, self.ttl_s = session, round(ttl_s)
        self.collection = f"{settings.access.server}/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        self.url = f"{self.collection}/{name}"
        self.lease: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": settings.namespace},
            "spec": {"leaseTransitions": 0},
        }

    async def make(self) -> None:
        await self._send("POST", self.collection)

    async def time(self, count: str) -> None:
        """Take and leave, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            spec, now = self.lease["spec"], _now()
            spec["holderIdentity"], spec["leaseDurationSeconds"] = _WHO, self.ttl_s
            spec["acquireTime"] = spec["renewTime"] = now
            spec["leaseTransitions"] += 1
            await self._send("PUT", self.url)
            spec, now = self.lease["spec"], _now()
            spec["holderIdentity"], spec["leaseDurationSeconds"] = None, 1
            spec["acquireTime"] = spec["renewTime"] = now
            await self._send("PUT", self.url)
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def keep(self, per_second: str) -> None:
        """Go on renewing, so often, and say so."""

        async def renew() -> None:
            loop = asyncio.get_running_loop()
            due_s = loop.time()
            while True:
                self.lease["spec"]["renewTime"] = _now()
                await self._send("PUT", self.url)
                due_s += 1 / float(per_second)
                await asyncio.sleep(max(0.0, due_s - loop.time()))

        self.renewing = in_background(renew())
        say("held")

    async def _send(self, method: str, url: str) -> None:
        """Write the Lease, and have it as the API server has it then, without what only that one needs of it."""
        async with self.session.request(method, url, data=json.dumps(self.lease).encode()) as answer:
            answer.raise_for_status()
            self.lease = json.loads(await answer.read())
        self.lease["metadata"].pop("managedFields", None)


async def main(url: str, name: str, ttl_s: float) -> None:
    settings = settings_of(url)
    headers = {**await settings.access.credentials.headers(), "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=settings.access.tls or True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        side = RawSide(session, settings, name, ttl_s)
        await side.make()
        await serve({"time": side.time, "keep": side.keep})


if __name__ == "__main__":
    url, name, ttl_s = sys.argv[1:]
    asyncio.run(main(url, name, float(ttl_s)))
