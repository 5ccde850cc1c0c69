"""A tenure candidate behind the commands and events of the other peers, as a program of its own.

Arguments: election|lock, the URL of the store, name, ttl in seconds.
"""

import asyncio
import sys
import time
from contextlib import AbstractAsyncContextManager

import tenure
from tenure.errors import StoreError, TenureOver
from tenure.model import Holder
from tenure.office.opened import OpenStore, run_there
from tenure.stores.base import CanList
from tenure.stores.kubernetes import KubernetesStore
from tests.peers.lines import say
from tests.peers.serving import in_background, serve

ASK_S = 0.005


class Peer:
    """One candidate: it stands once at a time."""

    def __init__(self, kind: str, store: OpenStore, name: str, ttl_s: float) -> None:
        assert kind in ("election", "lock"), f"{kind} is neither election nor lock"
        self.kind, self.store, self.name, self.ttl_s = kind, store, name, ttl_s
        self.standing: asyncio.Task[None] | None = None
        self.term: tenure.Tenure | None = None
        self.resigned = asyncio.Event()

    async def campaign(self, value: str) -> None:
        self.resigned.clear()
        self.standing = in_background(self._stand(value))

    async def resign(self, _: str) -> None:
        assert self.standing is not None
        self.resigned.set()
        await self.standing

    async def proclaim(self, value: str) -> None:
        """Say anew where we are, and tell of it once the engine knows."""
        assert self.term is not None, "only a leader proclaims"
        self.term.proclaim(value)
        seen = tenure.Election(self.store, self.name, ttl=self.ttl_s)
        while (incumbent := await seen.incumbent()) is None or incumbent.advertised != value:  # noqa: ASYNC110  (no hook tells of it)
            await asyncio.sleep(ASK_S)
        say("proclaimed")

    async def observe(self, _: str) -> None:
        self.observing = in_background(self._look())

    async def time(self, count: str) -> None:
        """Take and leave the office, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            async with self._stay(Holder.fresh(), "timed"):
                pass
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def _stand(self, value: str) -> None:
        holder = Holder.fresh()
        told = in_background(self._tell_of_the_queue(holder))
        try:
            async with self._stay(holder, value) as self.term:
                try:
                    at_ns = time.monotonic_ns()
                    await told
                    say("leading", at_ns, token=self.term.token)
                    await self.resigned.wait()
                    say("leaving")
                except asyncio.CancelledError:
                    say("lost")
                    raise
        except TenureOver as over:
            print(over, file=sys.stderr)
        say("left")

    def _stay(self, holder: Holder, value: str) -> AbstractAsyncContextManager[tenure.Tenure]:
        if self.kind == "lock":
            return tenure.Lock(self.store, self.name, ttl=self.ttl_s, holder=holder)
        return tenure.Election(self.store, self.name, ttl=self.ttl_s, holder=holder, advertise=value).once()

    async def _tell_of_the_queue(self, holder: Holder) -> None:
        while not await self._is_queued(holder):  # noqa: ASYNC110  (no hook tells of the queue)
            await asyncio.sleep(ASK_S)
        say("standing")

    async def _is_queued(self, holder: Holder) -> bool:
        listing = self.store.store
        # An engine without a queue does not know who waits, and nobody has to: there is no place to be lost. Our store on
        # Kubernetes tells of those of its own process, once they have seen who leads.
        if not listing.traits.queue and not isinstance(listing, KubernetesStore):
            return True
        assert isinstance(listing, CanList)
        try:
            statuses = await run_there(self.store.office, listing.elections())
        except StoreError as error:  # It says nothing about the queue. The candidate itself asks again as well.
            print(error, file=sys.stderr)
            return False
        queues = [status for status in statuses if status.election == self.name]
        return any(holder in (queue.incumbent and queue.incumbent.holder, *queue.standbys) for queue in queues)

    async def _look(self) -> None:
        async for incumbent in tenure.Election(self.store, self.name, ttl=self.ttl_s).observe():
            if incumbent is not None:
                say("observed", value=incumbent.advertised)


async def run(kind: str, url: str, name: str, ttl_s: float) -> None:
    async with tenure.open_store(url, accept_best_effort=True) as store:
        peer = Peer(kind, store, name, ttl_s)
        await serve(
            {
                "campaign": peer.campaign,
                "resign": peer.resign,
                "proclaim": peer.proclaim,
                "observe": peer.observe,
                "time": peer.time,
            }
        )


if __name__ == "__main__":
    kind, url, name, ttl_s = sys.argv[1:]
    asyncio.run(run(kind, url, name, float(ttl_s)))
