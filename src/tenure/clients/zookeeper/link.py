"""One connection to one server: what goes out, and what comes back in which order. Runs on asyncio."""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

from tenure.clients.receiving import Receiver
from tenure.clients.zookeeper.wire import PING, Fault, Reader, Request, read_event, read_header
from tenure.clock import Clock

T = TypeVar("T")

_LENGTH: Final = struct.Struct(">i")
# The engine's own limit for what it takes, as shipped: it hangs up on whatever is longer. Lists of children may be longer,
# and are all that we ask for that is.
_TAKEN_MAX_BYTES: Final = 1_000_000
_MESSAGE_MAX: Final = 64 * 1024 * 1024
_EVENT_XID, _PING_XID, _AUTH_XID = -1, -2, -4
_XID_MAX: Final = 2**31 - 1


class LinkLost(Exception):
    """The connection broke before the answer came. ``in_doubt``: what was asked for may have been done."""

    def __init__(self, why: str, *, in_doubt: bool) -> None:
        self.why, self.in_doubt = why, in_doubt
        super().__init__(why, in_doubt)


class _Asked(NamedTuple):
    xid: int
    request: Request[Any]
    answer: "asyncio.Future[Any]"
    sent_at: int


class Link(Receiver):
    """Sends requests and pairs answers with them. Made by ``loop.create_connection``.

    Events are handed on before any later answer is, in the same turn of the event loop: whoever has an answer knows of
    every event that the server had sent by then.
    """

    def __init__(self, clock: Clock, on_event: Callable[[int, str], None]) -> None:
        super().__init__()
        self._clock, self._on_event = clock, on_event
        loop = asyncio.get_running_loop()
        self.welcome: asyncio.Future[bytes] = loop.create_future()  # the first message
        self.ended: asyncio.Future[str] = loop.create_future()  # why it ended
        self.seen_zxid = 0
        self.sent_at = clock.now()  # when something was last sent
        # When the last thing was sent that has been answered. The answer proves nothing of later: it may have lain in the
        # socket for as long as this process stood still, while the session died.
        self.heard_at = self.sent_at
        # Since when it has not stood still, as far as answers tell: none came more than ``gap_max_ns`` after the sending of
        # what was answered before. Nothing is known of the time before the connection.
        self.runs_since = self.sent_at
        self.gap_max_ns = 0
        # When an answer last came, other than to a ping: pings are answered also where nothing else is.
        self._answered_at = self.sent_at
        self._transport: asyncio.Transport | None = None
        self._why = (
            "it hung up without a word: it has no quorum now, or as many connections of this host as maxClientCnxns allows, "
            "or wants TLS (zookeepers://), or is no ZooKeeper"
        )
        self._buffer = bytearray()
        self._xid = 0
        self._asked: deque[_Asked] = deque()
        self._ping_sent_at: int | None = None  # of one that has no answer yet
        self._auth: asyncio.Future[Fault | LinkLost | None] | None = None

    @property
    def closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    # Sending

    def greet(self, message: bytes) -> None:
        """Send the first message, which is answered by ``welcome``."""
        self._write(message)

    def send(self, request: Request[T]) -> "asyncio.Future[T | Fault | LinkLost]":
        """Send now, after everything that was sent before. The future's result may be an error; it never raises one."""
        answer: asyncio.Future[T | Fault | LinkLost] = asyncio.get_running_loop().create_future()
        if self.closing:
            answer.set_result(LinkLost(self._why, in_doubt=False))
            return answer
        self._xid = self._xid % _XID_MAX + 1
        self._asked.append(_Asked(self._xid, request, answer, self._clock.now()))
        self._write(request.message(self._xid))
        return answer

    def send_auth(self, request: Request[None]) -> "asyncio.Future[Fault | LinkLost | None]":
        """Say who we are. The server answers this out of order, under a number of its own; so at most one at a time."""
        self._auth = asyncio.get_running_loop().create_future()
        self._write(request.message(_AUTH_XID))
        return self._auth

    def ping(self) -> None:
        """Show that we live, and have the server show it. Likewise out of order, and one at a time."""
        if self._ping_sent_at is None:
            self._ping_sent_at = self._clock.now()
            self._write(PING.message(_PING_XID))

    def silent_for_ns(self) -> int:
        """Return for how long the server has left a request, or a ping, without an answer."""
        now = self._clock.now()
        asked_ns = now - max(self._asked[0].sent_at, self._answered_at) if self._asked else 0
        return max(asked_ns, 0 if self._ping_sent_at is None else now - self._ping_sent_at)

    def abort(self, why: str) -> None:
        """Give the connection up; whatever was asked gets no answer."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    def _write(self, message: bytes) -> None:
        assert self._transport is not None
        self.sent_at = self._clock.now()
        self._transport.write(message)

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes | memoryview) -> None:
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if not 0 <= length <= _MESSAGE_MAX:
                    raise ValueError("a message of impossible length")  # noqa: TRY301  (one way out)
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    break
                self._hear(bytes(self._buffer[start + _LENGTH.size : end]))
                start = end
        except (ValueError, struct.error, LookupError) as error:
            self.abort(f"what it says is not ZooKeeper's protocol ({error}): check host and port")
        del self._buffer[:start]

    def eof_received(self) -> None:
        """Give up what is not sent yet. asyncio would wait until it is, and whoever hung up need not read it, ever."""
        self.abort(self._why)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._why = str(error) or type(error).__name__
        if not self.welcome.done():
            self.welcome.set_exception(ConnectionError(self._why))
        if self._auth is not None:
            _settle(self._auth, LinkLost(self._why, in_doubt=False))
        if any(len(asked.request.body) > _TAKEN_MAX_BYTES for asked in self._asked):
            self._why += "; a value of more than 1 MiB needs a larger jute.maxbuffer there"
        while self._asked:
            asked = self._asked.popleft()
            _settle(asked.answer, LinkLost(self._why, in_doubt=asked.request.changes))
        if not self.ended.done():
            self.ended.set_result(self._why)

    def _hear(self, message: bytes) -> None:
        if not self.welcome.done():
            self.welcome.set_result(message)
            self._why = "the server closed the connection"
            return
        it = Reader(message)
        xid, zxid, code = read_header(it)
        if xid == _EVENT_XID:
            self._on_event(*read_event(it))
            return
        self.seen_zxid = max(self.seen_zxid, zxid)
        if xid == _PING_XID:
            self._heard(self._ping_sent_at or 0)
            self._ping_sent_at = None
            return
        if xid == _AUTH_XID and self._auth is not None:
            _settle(self._auth, Fault(code) if code else None)
            return
        asked = self._asked.popleft()
        if xid != asked.xid:
            raise ValueError(f"an answer to request {xid} where one to {asked.xid} is due")
        self._heard(asked.sent_at)
        self._answered_at = self._clock.now()
        try:
            _settle(asked.answer, Fault(code) if code else asked.request.read(it))
        except Fault as fault:  # a multi tells which of its parts was refused
            _settle(asked.answer, fault)

    def _heard(self, sent_at: int) -> None:
        now = self._clock.now()
        if now - self.heard_at > self.gap_max_ns:  # It may have stood still, from that sending on until just now.
            self.runs_since = now
        self.heard_at = max(self.heard_at, sent_at)


def _settle(answer: "asyncio.Future[Any]", result: object) -> None:
    """Whoever asked may have been cancelled meanwhile."""
    if not answer.done():
        answer.set_result(result)
