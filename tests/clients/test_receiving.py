"""Receiving into room that is used again: nothing is lost or mixed up, however much comes at once."""

import asyncio
import hashlib
import socket
import ssl

import pytest
import trustme

from tenure.clients.receiving import Receiver
from tenure.clients.redis.link import Link


class Kept(Receiver):
    """Copies what comes, as a protocol must."""

    def __init__(self) -> None:
        super().__init__()
        self.received, self.pieces = bytearray(), 0
        self.over = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes | memoryview) -> None:
        self.received += data
        self.pieces += 1

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.over.set_result(None)


def test_what_does_not_fit_comes_in_pieces_and_in_order() -> None:
    # No two pieces are alike, so one that was written over by the next would be seen.
    sent = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(40_000))

    def send(other: socket.socket) -> None:
        with other:
            other.sendall(sent)

    async def main() -> None:
        ours, other = socket.socketpair()
        _, kept = await asyncio.get_running_loop().create_connection(Kept, sock=ours)
        await asyncio.to_thread(send, other)
        await kept.over
        assert bytes(kept.received) == sent
        assert kept.pieces > 1

    asyncio.run(main())


class Leaving(Kept):
    """Does what a link to ZooKeeper does: it waits for nothing more once the other side has gone."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def eof_received(self) -> None:
        self.transport.abort()


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("engine.example").configure_cert(server)
    authority.configure_trust(client)
    return server, client


class Other:
    """The other end over TLS, whose records are sent by the test, when and in whatever parts it likes."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._connection, self._incoming, self._records = connection, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._records, server_side=True)

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(self._connection.recv(1 << 16))
        self._flush()

    def records_of(self, data: bytes, *, says_goodbye: bool) -> bytes:
        sent = 0
        while sent < len(data):
            sent += self._tls.write(data[sent:])
        if says_goodbye:
            with pytest.raises(ssl.SSLWantReadError):  # It waits for ours.
                self._tls.unwrap()
        return self._records.read()

    def _flush(self) -> None:
        self._connection.sendall(self._records.read())


@pytest.mark.parametrize("says_goodbye", [True, False])
@pytest.mark.parametrize("kind", [Kept, Leaving])
@pytest.mark.parametrize(
    ("sent_bytes", "cut_at"),
    [(10_000, 0), (16_384, 16_300), (33_000, 16_300), (100_000, 50_000), (200_000, 0), (200_000, 1)],
)
def test_what_came_over_tls_before_the_other_side_hung_up_is_heard(
    sent_bytes: int, cut_at: int, kind: type[Kept], says_goodbye: bool
) -> None:
    sent = hashlib.shake_128(b"no two bytes are where they were").digest(sent_bytes)
    server, client = contexts()

    async def main() -> None:
        loop, complaints = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        with theirs:
            other = Other(theirs, server)
            shaking = asyncio.create_task(asyncio.to_thread(other.shake_hands))
            _, kept = await loop.create_connection(kind, sock=ours, ssl=client, server_hostname="engine.example")
            await shaking
            records = other.records_of(sent, says_goodbye=says_goodbye)
            theirs.sendall(records[:cut_at])
            for _ in range(3):  # turns in which that is read
                await asyncio.sleep(0)
            # And none until all of the rest is there, and with it the end.
            theirs.sendall(records[cut_at:])
            theirs.shutdown(socket.SHUT_WR)
            await kept.over
        assert bytes(kept.received) == sent
        assert complaints == []
        assert len(kept.get_buffer(-1)) <= 1 << 15

    asyncio.run(main())


def test_a_reply_is_not_changed_by_the_next_one() -> None:
    def answer(other: socket.socket) -> None:
        with other:
            for text in (b"first", b"other"):
                assert other.recv(100).endswith(b"PING\r\n")
                other.sendall(b"$%d\r\n%b\r\n" % (len(text), text))

    async def main() -> None:
        ours, other = socket.socketpair()
        _, link = await asyncio.get_running_loop().create_connection(Link, sock=ours)
        answering = asyncio.create_task(asyncio.to_thread(answer, other))
        replies = [await link.ask("PING"), await link.ask("PING")]
        await answering
        await link.ended
        assert replies == [b"first", b"other"]

    asyncio.run(main())
