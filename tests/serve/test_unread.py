"""Who holds a stream and reads little or nothing of it: how much of that is a reason to end its connection."""

import asyncio
from contextlib import closing

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from tenure.serve import connection
from tenure.serve.app import Api
from tenure.serve.connection import Connection, Connections
from tenure.serve.hub import PENDING_BYTES_MAX
from tests.serve.inside import BEARER, TOKEN, Inside, inside


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


@pytest.mark.parametrize(("setting", "least"), [("READ_WITHIN_S", 0.0), ("UNREAD_MAX", 0)])
def test_who_leads_by_a_stream_that_it_does_not_read_goes_on_leading(
    setting: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, setting, least)

    async def main() -> None:
        async with inside() as there:
            stood = await there.stand(ttl_s=60, keep_s=60)
            await there.wait(stood["id"])
            with closing(Wire(there, Connections())) as wire:
                wire.ask(f"/v1/candidacies/{stood['id']}/stream")
                await wire.until_written(b'"state":"leading"')
                wire.stop()
                for _ in range(10):  # As often as it takes to be closed and told of it.
                    await asyncio.sleep(0.001)
                beat = (await there.client.post(f"/v1/candidacies/{stood['id']}/heartbeat", headers=BEARER)).json()
                assert (beat["state"], wire.is_closed) == ("leading", False)
                # It is the office that hangs on it, and not the connection: of that the next answer is to be read as any other.
                await there.client.delete(f"/v1/candidacies/{stood['id']}", headers=BEARER)
                wire.read()
                await wire.until_written(b"\r\n0\r\n\r\n")
                wire.ask("/v1/board")
                wire.stop()
                async with asyncio.timeout(10):
                    while not wire.is_closed:  # noqa: ASYNC110  (nobody tells)
                        await asyncio.sleep(0.001)

    asyncio.run(main())


def test_who_listens_and_has_read_what_it_had_missed_is_not_one_of_those_who_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "READ_WITHIN_S", 0.0)

    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            hub, connections = there.sidecar.hub, Connections()
            since = hub.last_id
            hub.publish("fact", {"n": "x" * 1_000_000})
            with closing(Wire(there, connections)) as wire:
                wire.ask(f"/v1/events?last_event_id={since}")
                await wire.until_written(b"xxx")
                for _ in range(10):
                    await asyncio.sleep(0.001)
                assert list(connections.unread) == [wire.protocol], "all of it is before it, and the hub sees to that"
                # It is never up to date, as more comes while it reads, and never far behind.
                wire.pending = PENDING_BYTES_MAX
                while connections.unread:  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0)
                assert not wire.is_closed
                assert len(hub.clients) == len(connections.crowd) == 1

    asyncio.run(main())
