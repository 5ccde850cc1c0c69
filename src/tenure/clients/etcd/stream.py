"""One gRPC call over HTTP/2: what is sent, what was received, and how it ended."""

import asyncio
import struct
from collections.abc import Callable
from urllib.parse import unquote

# In place of a status, if whoever answered speaks HTTP/2 and no gRPC: it has turned the request away, or it stands between
# us and one who may have carried it out.
NOT_GRPC, PROXY = -1, -2
UNKNOWN = 2

_MAY_HAVE_PASSED = (b"408", b"429")  # A proxy that has sent the request on says these too.
_PREFIX = struct.Struct(">?I")  # of a gRPC message: compressed or not, and its length
_MESSAGE_MAX_BYTES = 64 << 20  # All elections of a cluster are far below; a length out of rubbish bytes is above.


class NotSent(Exception):
    """The request never reached the engine, or the engine says that it did not look at it."""


class Lost(Exception):
    """The request was written, and its answer will not come."""


class Said(Exception):
    """The peer ended the call with a status other than OK."""

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(code, text)


class Stream:
    """One call. ``ended`` is done when it is over: with None, or with one of the errors above."""

    __slots__ = (
        "_received",
        "_status",
        "ended",
        "number",
        "on_message",
        "taken_bytes",
        "unsent",
        "unsent_end",
        "window_bytes",
    )

    def __init__(self, number: int, window_bytes: int, on_message: Callable[[bytes], None]) -> None:
        self.number = number
        self.window_bytes = window_bytes  # how much the peer takes
        self.taken_bytes = 0  # how much was taken from the peer since it was last told so
        self.on_message = on_message
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unsent = bytearray()  # what the windows of the peer did not take yet
        self.unsent_end = False
        self._received = bytearray()
        self._status: Said | None = Said(UNKNOWN, "the answer has no status")

    def heard_headers(self, headers: dict[bytes, bytes]) -> None:
        """Take what the peer says of the call: at its beginning, at its end, or both in one."""
        http_status = headers.get(b":status", b"200")
        content_type = headers.get(b"content-type", b"application/grpc")
        if http_status != b"200" or not content_type.startswith(b"application/grpc"):
            said = b"HTTP status %b and %b" % (http_status, content_type)
            turned_away = http_status[:1] == b"4" and http_status not in _MAY_HAVE_PASSED
            self._status = Said(NOT_GRPC if turned_away else PROXY, said.decode("ascii", "replace"))
        elif (code := headers.get(b"grpc-status")) == b"0":
            self._status = None
        elif code is not None:
            text = unquote(headers.get(b"grpc-message", b"").decode("ascii", "replace"))
            self._status = Said(int(code) if code.isdigit() else UNKNOWN, text)

    def heard_data(self, data: bytes) -> None:
        """Take a part of what the peer sends, and hand on each message that is whole."""
        received = self._received
        received += data
        while len(received) >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(received)
            if compressed or length > _MESSAGE_MAX_BYTES:
                raise ValueError("a message is compressed, or too long")
            end = _PREFIX.size + length
            if len(received) < end:
                return
            message = bytes(received[_PREFIX.size : end])
            del received[:end]
            self.on_message(message)

    def heard_end(self) -> None:
        """The peer has ended the call."""
        self.finish(self._status)

    def finish(self, error: Exception | None) -> None:
        """End the call for whoever waits for it."""
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
            self.ended.exception()  # Somebody may have stopped waiting: an error that nobody asks for is no news.


def framed(message: bytes) -> bytes:
    """Return a message as gRPC has it."""
    return _PREFIX.pack(False, len(message)) + message
