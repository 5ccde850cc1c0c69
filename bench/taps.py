"""Ports that pass everything on to a server, and know when something was last said through them.

By them it is known when a leader renewed its session for the last time before it was killed. Who renews less often is taken
over sooner after its death, by chance: counted from its last renewal, that is no part of what is compared.
"""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Self


class Tap:
    """One port. ``heard_at_ns`` is when ``words`` were last sent to the server."""

    def __init__(self, words: bytes, host: str, port: int) -> None:
        self.words, self.heard_at_ns, self.endpoint = words, 0, ""
        self._host, self._port = host, port

    async def listen(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(self._host, self._port)
        await asyncio.gather(self._pass_on(reader, to_there, counted=True), self._pass_on(there, writer, counted=False))

    async def _pass_on(self, one: asyncio.StreamReader, other: asyncio.StreamWriter, *, counted: bool) -> None:
        with suppress(ConnectionError):
            while data := await one.read(65536):
                if counted and self.words in data:
                    self.heard_at_ns = time.monotonic_ns()
                other.write(data)
        other.transport.abort()


class Taps:
    """Any number of ports, on a thread of their own."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def tap(self, endpoint: str, words: bytes) -> Tap:
        host, port = endpoint.rsplit(":", 1)
        tap = Tap(words, host, int(port))
        asyncio.run_coroutine_threadsafe(tap.listen(), self._loop).result(10)
        return tap
