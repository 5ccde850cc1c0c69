"""TLS as bytes: what is received and what is to be sent, without a network.

asyncio's own TLS keeps a buffer of 256 KiB for each connection, and takes longer over a small request than everything else that is
done for it.
"""

import ssl
from contextlib import suppress
from typing import Final

# OpenSSL gives one record at a time, however much is asked for, and room for all that is asked for is taken for each answer.
_READ_BYTES: Final = 1 << 14


class Tls:
    """One side of one encrypted connection."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "ready", "said_goodbye")

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.ready = False  # whether both sides have agreed
        self.said_goodbye = False  # whether the peer has

    def receive(self, data: bytes | memoryview) -> bytes:
        """Take what has come, and return what it says. Raises SSLError."""
        self._incoming.write(data)
        said = b""
        try:
            if not self.ready:
                self._tls.do_handshake()
                self.ready = True
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(_READ_BYTES)
                if not piece:
                    self.said_goodbye = True
                    break
                said = said + piece if said else piece
        except ssl.SSLWantReadError:
            pass
        return said

    def seal(self, data: bytes) -> None:
        """Write something to the peer."""
        rest = memoryview(data)
        while rest:  # OpenSSL takes one record at a time.
            rest = rest[self._tls.write(rest) :]

    def part(self) -> None:
        """Say goodbye to the peer, and do not wait for its own."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()

    def to_send(self) -> bytes:
        """Return what has to be sent now."""
        return self._outgoing.read()
