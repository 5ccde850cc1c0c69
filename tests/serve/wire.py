"""A connection to a sidecar of which the test itself says what arrives, and what is read of the answers."""

import asyncio

from uvicorn import Config
from uvicorn.server import ServerState

from tenure.serve.app import Api
from tenure.serve.connection import Connection, Connections
from tenure.serve.hub import PENDING_BYTES_MAX
from tests.serve.inside import TOKEN, Inside


class Wire(asyncio.Transport):
    """The way to a client who reads as much as the test says."""

    def __init__(self, there: Inside, connections: Connections) -> None:
        super().__init__()
        config = Config(Api(there.sidecar), log_config=None)
        config.load()
        self.protocol = Connection(config, ServerState(), {}, connections=connections)
        self.written, self.pending, self.is_paused, self.is_closed = b"", 0, False, False
        self.protocol.connection_made(self)

    def ask(self, path: str) -> None:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        self.protocol.data_received(head.encode())

    async def until_written(self, what: bytes) -> None:
        async with asyncio.timeout(10):
            while what not in self.written:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.pending += len(data)
        if self.pending > PENDING_BYTES_MAX and not self.is_paused:
            self.stop()

    def stop(self) -> None:
        """Have the system take no more, as nobody reads."""
        self.is_paused = True
        self.protocol.pause_writing()

    def read(self) -> None:
        """Read all."""
        self.pending, self.is_paused = 0, False
        self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.pending

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def close(self) -> None:
        if not self.is_closed:
            self.abort()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass
