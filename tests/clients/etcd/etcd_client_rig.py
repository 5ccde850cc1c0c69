"""What the tests of the etcd client share."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Delete, Put, Range, RangeAnswer, Txn
from tenure.testing.engines import EtcdCluster, Node

# Patience, not a measure: what is right comes in a few seconds, and what is wrong never comes.
PATIENCE_S = 40.0
# HTTP/2: three bytes of length, one of type, of which 0 is data, and five more.
_FRAME_HEAD_BYTES, _FRAME_WITH_DATA = 9, 0
_MESSAGE_HEAD_BYTES = 5  # of gRPC: whether it is compressed, and its length


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run an async test, which must come to its end."""

    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            await story

    asyncio.run(bounded())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that nothing wakes us for."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  (nothing wakes us for it)
            await asyncio.sleep(0.01)


async def until_so(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that has to be asked for."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def client_of(cluster: EtcdCluster, first: Node | None = None, **settings: Any) -> EtcdClient:
    """A client of all nodes, which begins with ``first``."""
    client = EtcdClient(cluster.endpoints, address=cluster.url, **settings)
    if first is not None:
        client._endpoints.sort(key=lambda endpoint: str(endpoint) != first.endpoint)
    return client


def follower_of(cluster: EtcdCluster) -> Node:
    leader = cluster.leader()
    return next(node for node in cluster.nodes if node is not leader)


def fresh_key() -> bytes:
    return f"test/{uuid.uuid4()}".encode()


async def put(client: EtcdClient, key: bytes, value: bytes = b"v", lease: int = 0) -> int:
    """Write a key, and return the revision that wrote it."""
    return (await client.txn(Txn((), (Put(key, value, lease),)), operation="put")).revision


async def delete(client: EtcdClient, key: bytes) -> int:
    return (await client.txn(Txn((), (Delete(key),)), operation="delete")).revision


async def get(client: EtcdClient, key: bytes) -> RangeAnswer:
    return await client.range(Range(key), operation="get")


async def armed(client: EtcdClient, count: int = 1) -> None:
    """Wait until etcd has taken over so many waits."""
    await until(lambda: len(client._watches._armed) == count)


class Forwarder:
    """Stands between a client and one member at a time: loses answers, cuts connections, changes the member."""

    def __init__(self, endpoint: str) -> None:
        self.target = endpoint
        self.deaf = False  # requests pass, answers are lost
        self.messages_left: int | None = None  # how many more messages the member may say before it is deaf; None: any
        self.last_message = b""  # of those that were counted
        self._port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.hang_up()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def hang_up(self) -> None:
        """Cut every connection, and take no more."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            from_engine, to_engine = await asyncio.open_connection(host, int(port))
            try:
                await asyncio.gather(_pump(reader, to_engine), self._answers(from_engine, writer))
            finally:
                to_engine.transport.abort()
                writer.transport.abort()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Hand over frame by frame, so that what was said in one piece can be cut between two messages."""
        while True:
            head = await source.readexactly(_FRAME_HEAD_BYTES)
            frame = head + await source.readexactly(int.from_bytes(head[:3], "big"))
            if not self.deaf:
                sink.write(frame)
            if self.messages_left and head[3] == _FRAME_WITH_DATA:
                self.messages_left -= 1
                self.last_message = frame[_FRAME_HEAD_BYTES + _MESSAGE_HEAD_BYTES :]
                self.deaf = self.messages_left == 0


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
    raise ConnectionError
