"""A worker that zombies give orders to: it carries one out unless its token is stale, and notes which it has carried out."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import SimpleNamespace
from typing import NamedTuple

import tenure
from tenure.errors import StaleToken
from tenure.sinks import Orders, SQLiteMark


class Order(NamedTuple):
    """What a leader says: do this for the election. Without a fence nobody compares, and without an election it is a seal."""

    fence: str
    token: int
    election: str


class InWorker:
    store = ""

    def __init__(self, mark: SQLiteMark) -> None:
        self.target, self._orders = "", Orders(mark)
        self._done: dict[str, list[int]] = {}
        self._at_work = threading.Lock()

    def take(self, order: Order) -> int:
        """Carry out one order after the other. Returns the highest token that was seen if this one is stale."""
        with self._at_work:
            try:
                if order.fence:
                    self._orders.accept(SimpleNamespace(fence=order.fence, token=order.token))
            except StaleToken as stale:
                return stale.highest
            if order.election:
                self._done.setdefault(order.election, []).append(order.token)
            return 0

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        return self._done[election]


class WorkerTarget:
    """Every write is an order, sent over a connection of its own. It is its own sink."""

    def __init__(self, endpoint: str) -> None:
        self.host, _, self.port = endpoint.rpartition(":")
        self.sink = self

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self._say(Order(term.fence, term.token, name))

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        await self._say(Order("", term.token, name))

    async def seal(self, fence: str, token: int) -> None:
        await self._say(Order(fence, token, ""))

    async def _say(self, order: Order) -> None:
        reader, writer = await asyncio.open_connection(self.host, int(self.port))
        try:
            writer.write(json.dumps(order).encode() + b"\n")
            highest = json.loads(await reader.readline())
        finally:
            writer.close()
        if highest:
            raise StaleToken(order.token, highest)


@contextmanager
def worker(folder: Path, _: int) -> Iterator[InWorker]:
    """Run a worker in a thread of this process."""
    mark = SQLiteMark(folder / "orders.db")
    place = InWorker(mark)

    class Desk(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(json.dumps(place.take(Order(*json.loads(self.rfile.readline())))).encode() + b"\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Desk) as server:
        place.target = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield place
        server.shutdown()
        thread.join()
    mark.close()
