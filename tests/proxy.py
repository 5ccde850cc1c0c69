"""A proxy between a store and one server of its engine, which keeps requests back and loses answers."""

import asyncio
from contextlib import suppress
from typing import Self


class _Link:
    """One connection through the proxy. The server does not hear of its end: what was kept back may still be delivered."""

    def __init__(self) -> None:
        self.held: bytearray | None = None  # requests that are kept back; None: they pass
        self.deaf = False  # answers are lost

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        engine, self.to_engine = await asyncio.open_connection(host, port)
        try:
            await asyncio.gather(self._requests(reader), self._answers(engine, writer))
        finally:
            self.to_engine.transport.abort()
            writer.transport.abort()

    async def _requests(self, client: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while data := await client.read(65536):
                if self.held is None:
                    self.to_engine.write(data)
                else:
                    self.held += data

    async def _answers(self, engine: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await engine.read(65536):
                if not self.deaf and not to_client.is_closing():
                    to_client.write(data)


class Proxy:
    """Listens on a port of its own. Its faults meet the connections that there are, and none that come later."""

    def __init__(self, endpoint: str) -> None:
        self._host, port = endpoint.rsplit(":", 1)
        self._port = int(port)
        self._links: list[_Link] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
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

    def turn_to(self, endpoint: str) -> None:
        """Break the connections that there are, and lead later ones to another server."""
        self._host, port = endpoint.rsplit(":", 1)
        self._port = int(port)
        for task in self._tasks:
            task.cancel()

    def refuse(self) -> None:
        """Take no more connections."""
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link()
        self._links.append(link)
        task = asyncio.ensure_future(link.run(reader, writer, self._host, self._port))
        self._tasks.add(task)
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
