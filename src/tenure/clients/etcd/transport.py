"""gRPC over one HTTP/2 connection: calls, and streams that stay open.

As much of HTTP/2 as a client of gRPC needs, without a library: more than half of what a call cost was the library
(docs/adr/0012-etcd-client.md). Headers are sent without a table and asked for without one, so that they are the same
bytes every time: they are written once, and read once.

Nothing here waits for a turn to write. What the peer does not take yet (its windows) is kept, and written when it does.
Every wait is bounded by its caller, and ``abort`` ends all of them at once: a frozen peer is left, never waited for.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import ClassVar, cast

from hpack import Decoder, HPACKError

from tenure.clients.etcd.http2 import (
    FRAME,
    FRAME_MAX_BYTES,
    NUMBER_MASK,
    PREFACE,
    SETTING,
    WINDOW_FIRST_BYTES,
    Code,
    Flag,
    Headers,
    Kind,
    Setting,
    frame,
    header_block,
    unpadded,
)
from tenure.clients.etcd.stream import Lost, NotSent, Stream, framed
from tenure.clients.receiving import Receiver

_WINDOW_BYTES = 1 << 20  # what a peer may send us before it is told that we took it
_HEADERS_MAX_BYTES = 64 << 10
_KNOWN_BLOCKS_MAX = 64
_ALWAYS = (("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "tenure"))


class NotGreeted(Exception):
    """The connection ended before the peer had shown that it speaks HTTP/2; ``said`` is what it said instead."""

    def __init__(self, said: bytes) -> None:
        self.said = said
        super().__init__(said)


class Connection(Receiver):
    """One HTTP/2 connection. Made by ``connect_to``; used on one event loop."""

    def __init__(self, authority: str, scheme: str) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self.heard_at_s = self.loop.time()  # when the peer last sent anything: it was alive then
        self.write_number = 0  # of the piece that what is sent now goes out in
        self.greeted: asyncio.Future[None] = self.loop.create_future()
        self._head = ((":method", "POST"), (":scheme", scheme), (":authority", authority))
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._output: list[bytes] = []
        self._streams: dict[int, Stream] = {}
        self._next_number = 1
        self._want_room: deque[asyncio.Future[None]] = deque()
        self._streams_max = 1 << 31
        self._window_bytes = WINDOW_FIRST_BYTES  # how much the peer takes on all streams together
        self._first_window_bytes = WINDOW_FIRST_BYTES
        self._frame_max_bytes = FRAME_MAX_BYTES
        self._taken_bytes = 0
        self._decoder = Decoder()
        self._blocks: dict[tuple[str, Headers], bytes] = {}
        self._known_blocks: dict[bytes, dict[bytes, bytes]] = {}
        self._block = b""  # headers that are continued in the next frame
        self._block_flags = 0

    # What the client calls.

    async def call(self, path: str, headers: Headers, message: bytes) -> bytes:
        """Send one message and return the one that answers it. Cancelled, it leaves nothing behind."""
        answers: list[bytes] = []
        stream = await self.open(path, headers, answers.append)
        self.send(stream, message, end=True)
        try:
            await stream.ended
        finally:
            if stream.number in self._streams:
                self.reset(stream)
        if len(answers) != 1:
            raise Lost(f"the peer sent {len(answers)} answers to one request")
        return answers[0]

    async def open(self, path: str, headers: Headers, on_message: Callable[[bytes], None]) -> Stream:
        """Begin a call. Waits only if the peer takes no more calls at once."""
        await self.room()
        return self.begin(path, headers, on_message)

    async def room(self) -> None:
        """Wait until a call can begin, or never can."""
        while not self.has_room:
            room = self.loop.create_future()
            self._want_room.append(room)
            await room

    @property
    def has_room(self) -> bool:
        """Whether a call can begin at once, or never."""
        return len(self._streams) < self._streams_max or self.closed

    def begin(self, path: str, headers: Headers, on_message: Callable[[bytes], None]) -> Stream:
        """Begin a call where there is room for one."""
        if self.closed or self._next_number > NUMBER_MASK:  # Numbers of streams are used up after 2³⁰ calls.
            raise NotSent("the connection has ended")
        stream = Stream(self._next_number, self._first_window_bytes, on_message)
        self._streams[stream.number] = stream
        self._next_number += 2
        self._frame(Kind.HEADERS, Flag.END_HEADERS, stream.number, self._block_of(path, headers))
        return stream

    def send(self, stream: Stream, *messages: bytes, end: bool = False) -> None:
        """Write messages, or keep them until the peer takes them."""
        stream.unsent += b"".join(map(framed, messages))
        stream.unsent_end = end
        self._flush(stream)

    def reset(self, stream: Stream) -> None:
        """Tell the peer that nobody waits any more, and forget the call."""
        if self._streams.get(stream.number) is stream and not self.closed:
            self._frame(Kind.RST_STREAM, 0, stream.number, Code.CANCEL.to_bytes(4, "big"))
        self._end(stream, Lost("it was given up"))

    def abort(self, reason: str) -> None:
        """Leave the peer at once; whoever waits for an answer is told that it is lost."""
        if self.closed:
            return
        self.closed = True
        if self._transport is not None:
            self._transport.abort()  # Not close(): over TLS that waits half a minute for a frozen peer to say goodbye.
        if not self.greeted.done():
            self.greeted.set_exception(NotGreeted(bytes(self._received)))
            self.greeted.exception()
        for stream in list(self._streams.values()):
            self._end(stream, Lost(reason))
        while self._want_room:
            self._let_one_in()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = ((Setting.HEADER_TABLE_SIZE, 0), (Setting.ENABLE_PUSH, 0), (Setting.INITIAL_WINDOW, _WINDOW_BYTES))
        self._transport.write(PREFACE)
        self._frame(Kind.SETTINGS, 0, 0, b"".join(SETTING.pack(*setting) for setting in settings))
        self._frame(Kind.WINDOW_UPDATE, 0, 0, (_WINDOW_BYTES - WINDOW_FIRST_BYTES).to_bytes(4, "big"))

    def data_received(self, data: bytes | memoryview) -> None:
        self.heard_at_s = self.loop.time()
        received = self._received
        received += data
        try:
            del received[: self._handle(received)]
        except (ValueError, struct.error, IndexError, HPACKError) as error:
            self.abort(f"the peer sent what is no gRPC ({error})")

    def _handle(self, received: bytearray) -> int:
        """Handle the frames that are whole, and return where the rest begins."""
        at, end = 0, len(received)
        while end - at >= FRAME.size and not self.closed:
            high, low, kind, flags, number = FRAME.unpack_from(received, at)
            begin = at + FRAME.size
            after = begin + (high << 16 | low)
            if after - begin > FRAME_MAX_BYTES:
                raise ValueError("a frame is longer than we take")
            if after > end:
                break
            handler = self._HANDLERS.get(kind)
            if handler is not None:
                handler(self, flags, number & NUMBER_MASK, bytes(received[begin:after]))
            at = after
        return at

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self.greeted.done():
            self.greeted.set_exception(exc)  # A certificate of ours that the peer does not want is told only now.
        self.abort(f"the connection was lost ({exc})" if exc else "it hung up")

    # What the peer sends, by the type of the frame.

    def _heard_data(self, flags: int, number: int, payload: bytes) -> None:
        size_bytes = len(payload)
        self._taken_bytes += size_bytes
        if self._taken_bytes > _WINDOW_BYTES // 2:
            self._frame(Kind.WINDOW_UPDATE, 0, 0, self._taken_bytes.to_bytes(4, "big"))
            self._taken_bytes = 0
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.taken_bytes += size_bytes
        if stream.taken_bytes > _WINDOW_BYTES // 2 and not flags & Flag.END_STREAM:
            self._frame(Kind.WINDOW_UPDATE, 0, number, stream.taken_bytes.to_bytes(4, "big"))
            stream.taken_bytes = 0
        stream.heard_data(unpadded(flags, payload))
        if flags & Flag.END_STREAM:
            self._ended_by_peer(stream)

    def _heard_headers(self, flags: int, number: int, payload: bytes) -> None:
        payload = unpadded(flags, payload)
        self._block = payload[5:] if flags & Flag.PRIORITY else payload
        self._block_flags = flags
        self._heard_block(flags, number)

    def _heard_continuation(self, flags: int, number: int, payload: bytes) -> None:
        self._block += payload
        self._heard_block(flags, number)

    def _heard_block(self, flags: int, number: int) -> None:
        if len(self._block) > _HEADERS_MAX_BYTES:
            raise ValueError("headers are longer than we take")
        if not flags & Flag.END_HEADERS:
            return
        headers = self._known_blocks.get(self._block)
        if headers is None:
            headers = dict(self._decoder.decode(self._block, raw=True))
            # Without a table the same bytes mean the same headers. With one, which a peer may insist on, they need not.
            if self._decoder.header_table_size == 0 and len(self._known_blocks) < _KNOWN_BLOCKS_MAX:
                self._known_blocks[self._block] = headers
        if (stream := self._streams.get(number)) is not None:
            stream.heard_headers(headers)
            if self._block_flags & Flag.END_STREAM:
                self._ended_by_peer(stream)

    def _heard_reset(self, _: int, number: int, payload: bytes) -> None:
        code = int.from_bytes(payload, "big")
        if (stream := self._streams.get(number)) is not None:
            reason = f"the peer reset the call (error {code})"
            refused = code == Code.REFUSED_STREAM  # By the protocol: it did not look at the call.
            self._end(stream, NotSent(reason) if refused else Lost(reason))

    def _heard_settings(self, flags: int, _: int, payload: bytes) -> None:
        if flags & Flag.ACK:
            return
        for setting, value in SETTING.iter_unpack(payload):
            if setting == Setting.MAX_STREAMS:
                self._streams_max = value
            elif setting == Setting.MAX_FRAME:
                self._frame_max_bytes = value
            elif setting == Setting.INITIAL_WINDOW:
                for stream in self._streams.values():
                    stream.window_bytes += value - self._first_window_bytes
                self._first_window_bytes = value
        self._frame(Kind.SETTINGS, Flag.ACK, 0, b"")
        if not self.greeted.done():
            self.greeted.set_result(None)
        self._flush_all()

    def _heard_ping(self, flags: int, _: int, payload: bytes) -> None:
        if not flags & Flag.ACK:
            self._frame(Kind.PING, Flag.ACK, 0, payload)

    def _heard_window(self, _: int, number: int, payload: bytes) -> None:
        more_bytes = int.from_bytes(payload, "big") & NUMBER_MASK
        if number == 0:
            self._window_bytes += more_bytes
            self._flush_all()
        elif (stream := self._streams.get(number)) is not None:
            stream.window_bytes += more_bytes
            self._flush(stream)

    def _heard_leaving(self, _: int, __: int, payload: bytes) -> None:
        last, code = struct.unpack_from(">II", payload)
        reason = f"the peer is leaving (error {code} {payload[8:].decode('ascii', 'replace')})"
        for stream in [one for one in self._streams.values() if one.number > last & NUMBER_MASK]:
            self._end(stream, NotSent(reason))  # By the protocol: it did not look at those.
        self.abort(reason)

    _HANDLERS: ClassVar[dict[int, Callable[["Connection", int, int, bytes], None]]] = {
        Kind.DATA: _heard_data,
        Kind.HEADERS: _heard_headers,
        Kind.RST_STREAM: _heard_reset,
        Kind.SETTINGS: _heard_settings,
        Kind.PING: _heard_ping,
        Kind.GOAWAY: _heard_leaving,
        Kind.WINDOW_UPDATE: _heard_window,
        Kind.CONTINUATION: _heard_continuation,
    }

    # Writing, and the end of a call.

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._output:
            self.loop.call_soon(self._write)
        self._output.append(frame(kind, flags, number, payload))

    def _block_of(self, path: str, headers: Headers) -> bytes:
        block = self._blocks.get((path, headers))
        if block is None:
            if len(self._blocks) >= _KNOWN_BLOCKS_MAX:
                self._blocks.clear()  # Tokens come and go.
            block = self._blocks[path, headers] = header_block((*self._head, (":path", path), *_ALWAYS, *headers))
        return block

    def _write(self) -> None:
        # What is sent in one turn of the loop goes out in one piece. A peer that does not read makes this grow by what
        # the calls of one deadline write; then it is left.
        output, self._output = self._output, []
        self.write_number += 1
        if self._transport is not None and not self.closed:
            self._transport.write(b"".join(output))

    def _flush_all(self) -> None:
        for stream in list(self._streams.values()):
            self._flush(stream)

    def _flush(self, stream: Stream) -> None:
        while stream.unsent and not self.closed:
            room_bytes = min(stream.window_bytes, self._window_bytes, self._frame_max_bytes)
            if room_bytes <= 0:
                return
            chunk = bytes(stream.unsent[:room_bytes])
            del stream.unsent[:room_bytes]
            stream.window_bytes -= len(chunk)
            self._window_bytes -= len(chunk)
            self._frame(
                Kind.DATA, Flag.END_STREAM if stream.unsent_end and not stream.unsent else 0, stream.number, chunk
            )

    def _ended_by_peer(self, stream: Stream) -> None:
        if stream.unsent or not stream.unsent_end:  # The peer does not want the rest.
            self._frame(Kind.RST_STREAM, 0, stream.number, Code.CANCEL.to_bytes(4, "big"))
        self._streams.pop(stream.number, None)
        self._let_one_in()
        stream.heard_end()

    def _end(self, stream: Stream, error: Exception) -> None:
        self._streams.pop(stream.number, None)
        self._let_one_in()
        stream.finish(error)

    def _let_one_in(self) -> None:
        while self._want_room:
            room = self._want_room.popleft()
            if not room.done():
                room.set_result(None)
                return
