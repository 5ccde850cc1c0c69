"""A proxy between a store and one member of a cluster, which keeps requests back and loses answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.opening import client_of
from tenure.clock import BootClock
from tenure.errors import StoreError
from tenure.model import Ended, Grant
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of

_CHUNK_BYTES = 1 << 16


class _Link:
    """One connection through the proxy. What ends on one side need not end on the other: that is what a network is like."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client, self.to_client = reader, writer
        self.held: bytearray | None = None  # requests that are kept back; None: they pass
        self.deaf = False  # answers are lost

    async def run(self, host: str, port: int) -> None:
        self.engine, self.to_engine = await asyncio.open_connection(host, port)
        try:
            await asyncio.gather(self._requests(), self._answers())
        finally:
            self.to_engine.transport.abort()
            self.to_client.transport.abort()

    async def _requests(self) -> None:
        with suppress(ConnectionError):
            while data := await self.client.read(_CHUNK_BYTES):
                if self.held is None:
                    self.to_engine.write(data)
                else:
                    self.held += data
        # The engine does not hear of the end: what was kept back may still be delivered.

    async def _answers(self) -> None:
        with suppress(ConnectionError):
            while data := await self.engine.read(_CHUNK_BYTES):
                if not self.deaf and not self.to_client.is_closing():
                    self.to_client.write(data)


class Proxy:
    """Listens on a port of its own. Its faults meet the connections that there are, and none that come later."""

    def __init__(self, endpoint: str) -> None:
        self._host, port = endpoint.rsplit(":", 1)
        self._port = int(port)
        self._links: list[_Link] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"etcd://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def held_bytes(self) -> int:
        """How much is kept back. It need not be a request: a client also answers the pings of its server."""
        return sum(len(link.held or b"") for link in self._links)

    def hold_requests(self) -> None:
        """Keep requests back until they are delivered."""
        for link in self._links:
            link.held = link.held or bytearray()

    def deliver(self) -> None:
        """Hand over what was kept back, also what its sender has long given up."""
        for link in self._links:
            held, link.held = link.held, None
            if held:
                link.to_engine.write(bytes(held))

    def lose_answers(self) -> None:
        """Let requests pass, and nothing that comes back."""
        for link in self._links:
            link.deaf = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer)
        self._links.append(link)
        task = asyncio.create_task(link.run(self._host, self._port))
        self._tasks.add(task)


class LeapingClock(BootClock):
    """The machine's clock, and whatever it is told to leap ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ns = 0

    def now(self) -> int:
        return super().now() + self.ahead_ns


@asynccontextmanager
async def apart(etcd: EtcdCluster) -> AsyncIterator[tuple[Proxy, EtcdStore, EtcdClient, LeapingClock]]:
    """A store behind a proxy, and a client that is not."""
    clock = LeapingClock()
    async with (
        Proxy(etcd.endpoints[0]) as proxy,
        client_of(etcd.url) as direct,
        EtcdStore(client_of(proxy.url), clock=clock) as store,
    ):
        yield proxy, store, direct, clock


@asynccontextmanager
async def lasting(store: EtcdStore, name: str) -> AsyncIterator[Grant]:
    """A tenure that is renewed all the while, and so keeps the lease alive that it shares with others."""
    grant = await store.claim(bid_of(name))
    assert isinstance(grant, Grant)
    answers: list[Grant | Ended] = []

    async def renew() -> None:
        while True:
            with suppress(StoreError):
                answers.append(await store.renew(grant))
            await asyncio.sleep(grant.bid.ttl_ns / 1e9 / 10)

    renewing = asyncio.create_task(renew())
    yield grant
    renewing.cancel()
    await asyncio.wait([renewing])
    assert set(answers) == {grant}
