"""The requests that no election on etcd can do without, on our own client and with nothing around them.

A program of its own behind the commands and events of the peers. Arguments: the URL of the store, name, ttl in seconds.
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers.lines import say
from tests.peers.serving import in_background, serve

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Delete, Put, Range, Txn, TxnAnswer, created
from tenure.clients.etcd.opening import client_of
from tenure.stores.etcd.layout import Names


class RawSide:
    def __init__(self, client: EtcdClient, name: str, lease: int) -> None:
        self.client = client
        names, self.key = Names.of("", name), f"{name}/held".encode()
        key = names.key(lease)
        last_two = Range(names.prefix, names.end, limit=2, newest_first=True)
        # What the store sends for a claim and its release.
        self.claim = Txn((created(key, 0),), (Put(key, b"raw", lease), names.oldest(), last_two), (Range(key),))
        self.release = Txn((), (Delete(key),))
        # The least that two who hand an office to each other can do.
        self.take = Txn((created(self.key, 0),), (Put(self.key, b"raw", lease),))
        self.leave = Txn((), (Delete(self.key),))

    async def time(self, count: str) -> None:
        """Do both, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            await self._send(self.claim)
            await self._send(self.release)
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def campaign(self, _: str) -> None:
        self.standing = in_background(self._stand())

    async def resign(self, _: str) -> None:
        say("leaving")
        await self._send(self.leave)
        say("left")

    async def _stand(self) -> None:
        answer = await self._send(self.take)
        say("standing")
        while not answer.succeeded:
            await self.client.deleted(self.key, answer.revision)
            answer = await self._send(self.take)
        say("leading", token=answer.revision)

    async def _send(self, txn: Txn) -> TxnAnswer:
        return await self.client.txn(txn, operation="raw")


async def main(url: str, name: str, ttl_s: float) -> None:
    async with client_of(url) as client:
        lease = (await client.lease_grant(round(ttl_s))).lease
        side = RawSide(client, name, lease)
        await serve({"time": side.time, "campaign": side.campaign, "resign": side.resign})


if __name__ == "__main__":
    url, name, ttl_s = sys.argv[1:]
    asyncio.run(main(url, name, float(ttl_s)))
