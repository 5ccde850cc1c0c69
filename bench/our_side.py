"""Our side of the benches of engines: a program of its own behind the commands and events of the peers.

Arguments: the URL of the store, name, ttl in seconds.
"""

import asyncio
import gc
import logging
import os
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from sides import resident_kib
from tests.peers.lines import say
from tests.peers.serving import in_background, serve

import tenure
from tenure.apps.shards import Shards
from tenure.errors import StoreError
from tenure.model import Bid, Grant, Holder
from tenure.office.opened import LoopStore, run_there
from tenure.stores.etcd import EtcdStore
from tenure.stores.kubernetes import KubernetesStore
from tenure.stores.zookeeper import ZooKeeperStore
from tenure.timing import Timing

AT_ONCE = 25
PAIR_EVERY_S = 0.1
LOOK_S = 0.05


class OurSide:
    def __init__(self, store: LoopStore, name: str, ttl_s: float) -> None:
        self.store, self.name, self.ttl_s = store, name, ttl_s
        self.holder, self.serial = Holder.fresh(), 0
        self.in_office: asyncio.Queue[tuple[int, asyncio.Event]] = asyncio.Queue()
        self.tasks: list[asyncio.Task[Any]] = []
        self.leading_count = self.lost_count = self.idled_count = 0
        self.body = self._body  # one for all: a method that is looked up is an object, which a function is not
        self.success_at_ns: list[int] = []

    # One after the other

    async def claim(self, count: str) -> None:
        """Claim and release at the store itself, and say how long each pair took."""
        took_ns = []

        async def there() -> None:
            for _ in range(int(count)):
                began_ns = time.monotonic_ns()
                assert await self._pair(), "somebody else stands here"
                took_ns.append(time.monotonic_ns() - began_ns)

        await run_there(self.store.office, there())
        say("timed", took_ns=took_ns)

    async def _pair(self) -> bool:
        self.serial += 1
        bid = Bid(self.name, self.holder, self.serial, round(self.ttl_s * 1e9))
        answer = await self.store.store.claim(bid)
        await self.store.store.release(bid)
        return isinstance(answer, Grant)

    # Many who stand in one election

    async def join(self, count: str) -> None:
        """Let so many more stand."""
        self.tasks += [in_background(self._stand()) for _ in range(int(count))]
        say("joined")

    async def pass_on(self, _: str) -> None:
        """Let the leader resign, and say how long it took until the next one was in office."""
        resigned = (await self.in_office.get())[1]
        began_ns = time.monotonic_ns()
        resigned.set()
        following = await self.in_office.get()
        self.in_office.put_nowait(following)
        say("passed", took_ns=following[0] - began_ns)

    async def _stand(self) -> None:
        resigned = asyncio.Event()
        async with tenure.Election(self.store, self.name, ttl=self.ttl_s, holder=Holder.fresh()).once():
            self.in_office.put_nowait((time.monotonic_ns(), resigned))
            await resigned.wait()

    # Many elections that are led

    async def many(self, count: str) -> None:
        """Lead so many elections, and say what each of them takes beyond the task that its body is."""
        heartbeat_s = Timing.of(ttl=self.ttl_s).renew_every_ns / 1e9
        self._lead_one("warm")
        await self._all_lead(1)
        await asyncio.sleep(heartbeat_s)  # What the first of all renewals loads is not loaded again.
        # The first of these fill the room that was free in the process: it would be given to whoever is measured first.
        await self._idle_kib(int(count))
        plain_kib = await self._idle_kib(int(count))
        before_kib = _kept_kib()
        for number in range(int(count)):
            self._lead_one(str(number))
            if number % AT_ONCE == 0:
                # All claims at one moment would leave behind what they needed together, for none of them.
                await self._all_lead(number)
        await self._all_lead(int(count) + 1)
        # Once around: what the first renewal of each asks for is not asked for again.
        await asyncio.sleep(heartbeat_s)
        say("held", kib_each=(_kept_kib() - before_kib - plain_kib) / int(count))

    async def _idle_kib(self, count: int) -> float:
        before_kib = _kept_kib()
        self.tasks += [in_background(self._idle(None)) for _ in range(count)]
        await asyncio.sleep(0.5)
        return _kept_kib() - before_kib

    async def _idle(self, _: object) -> None:
        """Be a body in all but office: what an election takes is what it takes beyond this."""
        try:
            await anyio.sleep_forever()
        finally:
            self.idled_count += 1

    async def _body(self, _: object) -> None:
        self.leading_count += 1
        try:
            await anyio.sleep_forever()
        finally:
            # Counted when it is over, not when another one begins: that may come much later, or elsewhere.
            self.lost_count += 1

    async def shards(self, count: str) -> None:
        """Take part in so many shards alone, and say how long it took until all were owned."""
        began_s = time.monotonic()
        self.tasks.append(in_background(Shards(self.store, self.name, int(count), ttl=self.ttl_s).run(self.body)))
        await self._all_lead(int(count))
        say("owned", took_s=time.monotonic() - began_s)

    async def lost(self, _: str) -> None:
        """Say how many tenures are over."""
        say("lost", count=self.lost_count)

    # The standbys of many

    async def stand(self, count: str) -> None:
        """Stand in so many elections that another process leads."""
        for number in range(int(count)):
            self._lead_one(str(number))
            if number % AT_ONCE == 0:
                await asyncio.sleep(LOOK_S)
        say("standing")

    async def leave(self, _: str) -> None:
        """Leave every office, so that those who stand by come into it."""
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        say("left")

    async def succeed(self, count: str) -> None:
        """Say when so many elections are led here."""
        await self._all_lead(int(count))
        say("succeeded")

    async def requests(self, _: str) -> None:
        """Say how many requests our client of Kubernetes has sent."""
        store = self.store.store
        assert isinstance(store, KubernetesStore)
        say("requests", count=store.client.request_count)

    def _lead_one(self, name: str) -> None:
        election = tenure.Election(self.store, f"{self.name}/{name}", ttl=self.ttl_s)
        self.tasks.append(in_background(election.lead(self.body)))

    async def _all_lead(self, count: int) -> None:
        while self.leading_count < count:  # noqa: ASYNC110  (an event for each would be a part of what is measured)
            await asyncio.sleep(0.005)

    # A load while servers fail

    async def load(self, _: str) -> None:
        """Lead, and claim and release beside it all the time."""
        logging.getLogger("tenure").setLevel(logging.ERROR)  # That requests fail is what is wanted.
        self._lead_one("led")
        self.tasks.append(in_background(run_there(self.store.office, self._go_on())))
        while not (self.leading_count and self.success_at_ns):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        say("loaded")

    async def gap(self, _: str) -> None:
        """Say what was the longest time between two successes since this was last asked."""
        count = len(self.success_at_ns)
        while len(self.success_at_ns) == count:  # noqa: ASYNC110  (one that goes on has no end yet)
            await asyncio.sleep(LOOK_S)
        gap_ns = max(after - before for before, after in pairwise(self.success_at_ns))
        del self.success_at_ns[:-1]
        say("gap", gap_ns=gap_ns)

    async def where(self, _: str) -> None:
        """Say which server we talk to; with ZooKeeper, by the session that our tenures live by."""
        store = self.store.store
        if isinstance(store, ZooKeeperStore):
            (lease,) = store._roster._leases.values()
            say("there", endpoint=lease.session._endpoints[0])
            return
        assert isinstance(store, EtcdStore)
        say("there", endpoint=store._client.endpoint)

    async def _go_on(self) -> None:
        while True:
            with suppress(StoreError):
                # It may have to wait for a key of its own, whose deletion was not answered.
                if await self._pair():
                    self.success_at_ns.append(time.monotonic_ns())
            await asyncio.sleep(PAIR_EVERY_S)


def _kept_kib() -> float:
    gc.collect()
    return resident_kib(os.getpid())


async def main(url: str, name: str, ttl_s: float) -> None:
    async with tenure.open_store(url, accept_best_effort=True) as store:
        side = OurSide(store, name, ttl_s)
        await serve(
            {
                "claim": side.claim,
                "join": side.join,
                "pass": side.pass_on,
                "many": side.many,
                "shards": side.shards,
                "lost": side.lost,
                "stand": side.stand,
                "leave": side.leave,
                "succeed": side.succeed,
                "requests": side.requests,
                "load": side.load,
                "gap": side.gap,
                "where": side.where,
            }
        )


if __name__ == "__main__":
    url, name, ttl_s = sys.argv[1:]
    asyncio.run(main(url, name, float(ttl_s)))
