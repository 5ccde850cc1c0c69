"""One connection: one request at a time, and its answer. Used on one event loop, made by ``reaching``.

Nothing here has a deadline: who waits gives up by ``abort``, which ends everything at once. A request that was given up ends its
connection, since its answer may still come.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast

from tenure.clients.http.answers import Reading
from tenure.clients.http.encryption import Tls
from tenure.clients.http.outcomes import Lost, NotSent

# How much of a stream is read ahead of whoever listens.
_UNREAD_MAX_BYTES: Final = 1 << 20
_GONE: Final = "the connection was lost before an answer came"
# What a server says, after the handshake, to a client without the certificate that it wants. It reads no request then.
UNWELCOME: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "CERTIFICATE_UNKNOWN",
)
NO_CERTIFICATE: Final = "it asks for a client certificate that it trusts: give cert and key"


class Connection(asyncio.BufferedProtocol):
    """A connection to a server, or through a proxy. ``buffer`` is lent by whoever has many: it is in use for a moment only."""

    def __init__(self, buffer: memoryview, on_lost: Callable[["Connection"], None]) -> None:
        self.closed = self.stands = False  # whether it is over, and whether it has ever been made
        self.idle_since_s = 0.0
        self.loop = asyncio.get_running_loop()
        self._buffer, self._on_lost = buffer, on_lost
        self._transport: asyncio.Transport | None = None
        self._layers: list[Tls] = []  # the outermost first; more than one through a proxy that is encrypted itself
        self._reading: Reading | None = None  # the answer that is under way
        self._news: asyncio.Future[None] | None = None  # done when whoever waits should look
        self._trouble: Exception | None = None  # why it has ended
        self._streams = self._paused = False  # whether somebody listens piece by piece, and is behind

    # What a client does with it

    async def secure(self, tls: Tls) -> None:
        """Encrypt from now on. Raises OSError, of which SSLError is one."""
        self._layers.append(tls)
        self._receive(b"")
        while not tls.ready:
            await self._more()

    async def tunnel(self, request: bytes) -> Reading:
        """Ask a proxy for a connection through it, and return its answer. Raises OSError or Lost."""
        reading = self._begin(request, Reading(tunnel=True))
        while not reading.done:
            await self._more()
        self._reading = None
        return reading

    async def ask(self, request: bytes) -> Reading:
        """Send a request and return its whole answer. Raises NotSent or Lost."""
        return await self.whole(self._begin(request, Reading()))

    async def begin(self, request: bytes) -> Reading:
        """Send a request, and return its answer once that has begun. Raises NotSent or Lost."""
        reading = self._begin(request, Reading())
        while not reading.begun:
            await self._more_of_answer()
        return reading

    async def whole(self, reading: Reading) -> Reading:
        """Return an answer once it is whole. Raises NotSent or Lost."""
        while not reading.done:
            await self._more_of_answer()
        self._reading = None
        return reading

    async def more(self, reading: Reading) -> bytes:
        """Return what has come of an answer that has begun; nothing at its end. Raises Lost."""
        self._streams = True
        while not reading.body and not reading.done:
            await self._more_of_answer()
        piece = reading.take()
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def _begin(self, request: bytes, reading: Reading) -> Reading:
        if self.closed or self._transport is None:
            raise NotSent("the connection has ended")
        self._reading = reading
        if self._layers:
            self._layers[-1].seal(request)
            self._flush()
        else:
            self._transport.write(request)
        return reading

    @property
    def is_asking(self) -> bool:
        """Whether an answer is still to come, or the rest of it."""
        return self._reading is not None

    @property
    def can_go_on(self) -> bool:
        """Whether another request can be sent: nothing is under way, neither here nor there."""
        return not self.closed and not self.is_asking and self._written

    def close(self) -> None:
        """Leave the peer, with a word of goodbye if it reads that now."""
        if self._transport is not None and not self.closed and self._written:
            for tls in reversed(self._layers):
                tls.part()
                self._flush()
        self.abort(Lost("it was closed"))

    def abort(self, trouble: Exception | None = None) -> None:
        """Leave the peer at once: a farewell would wait for one that is gone."""
        if self.closed:
            return
        self.closed = True
        self._trouble = self._trouble or trouble or Lost("it was given up")
        if self._transport is not None:
            self._transport.abort()
        self._on_lost(self)
        self._tell()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.closed:  # It was given up while it was being made, and nobody would end it after this.
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (asyncio has no better idea than we)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(self._buffer[:nbytes] if self._layers else bytes(self._buffer[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        reading = self._reading
        # Under TLS an end that nobody has announced may be somebody else's cut.
        announced = exc is None and (not self._layers or self._layers[-1].said_goodbye)
        if reading is not None and announced:
            reading.ended()
        self.abort(exc or ConnectionResetError(_GONE))

    # Bytes

    def _receive(self, data: bytes | memoryview) -> None:
        try:
            for tls in self._layers:
                data = tls.receive(data)
            self._flush()
            if data:
                self._hear(cast("bytes", data))
        except (ssl.SSLError, ValueError) as error:
            self.abort(error if isinstance(error, ssl.SSLError) else Lost(f"it sent what is no answer: {error}"))
            return
        if self._layers:
            if self._layers[-1].said_goodbye:
                self.connection_lost(None)
            elif self._reading is None:
                self._tell()  # A step of the handshake.

    def _hear(self, data: bytes) -> None:
        reading = self._reading
        if reading is None:
            raise ValueError("nothing was asked")
        reading.feed(data)
        if reading.done or reading.begun:
            self._tell()
        if self._streams and len(reading.body) > _UNREAD_MAX_BYTES and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _flush(self) -> None:
        """Send what the layers have to say, each through those around it."""
        assert self._transport is not None
        for at in range(len(self._layers) - 1, -1, -1):
            if data := self._layers[at].to_send():
                if at:
                    self._layers[at - 1].seal(data)
                else:
                    self._transport.write(data)

    @property
    def _written(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    # Waiting

    async def _more(self) -> None:
        """Wait for something to come. Raises what has ended the connection."""
        if self._trouble is not None:
            raise self._trouble
        self._news = self.loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _more_of_answer(self) -> None:
        try:
            await self._more()
        except (NotSent, Lost):
            raise
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else None
            if any(word in (reason or "") for word in UNWELCOME):
                raise NotSent(NO_CERTIFICATE) from error
            raise Lost(_GONE) from error
