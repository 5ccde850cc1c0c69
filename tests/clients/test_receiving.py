"""Receiving into room that is used again: nothing is lost or mixed up, however much comes at once."""

import asyncio
import hashlib
import socket

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
