"""One connection, as uvicorn has it, with the limits that it has not: a time for the head of a request, a time to read what one asked for,
and a place among all others that somebody who is worth more may take.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tenure.serve.answers import Receive, Scope, Send
from tenure.serve.crowd import Crowd
from tenure.serve.hub import PENDING_BYTES_MAX
from tenure.serve.streaming import PIPE

HEAD_WITHIN_S: Final = 10.0  # A client says what it wants within this time, or has its connection closed.
# Who reads nothing for this time has its connection closed. A slow one that reads something is waited for.
READ_WITHIN_S: Final = 10.0
# How many may have an answer before them that they have not read: it may be as large as the board, which is held for each of them.
UNREAD_MAX: Final = 64
_SAY_EVERY_S: Final = 60.0
_LOG: Final = logging.getLogger("tenure.serve")


class Connections:
    """All that are open, and how they are closed when they are too many."""

    def __init__(self, crowd: "Crowd[Connection] | None" = None) -> None:
        self.crowd = Crowd["Connection"]() if crowd is None else crowd
        self.unread: dict[Connection, None] = {}
        self.closed_count = 0
        self._said_at_s = -_SAY_EVERY_S

    def make_room(self, going: "Connection | None") -> None:
        """Close the one that has to go, if one has to."""
        if going is None:
            return
        going.abort()
        self.closed_count += 1
        now_s = time.monotonic()
        if now_s - self._said_at_s >= _SAY_EVERY_S:  # Who opens a thousand a second must not fill a disk.
            self._said_at_s = now_s
            _LOG.warning(
                "there is no room for more connections: %d were closed, those first that waited longest",
                self.closed_count,
            )

    def is_unread(self, one: "Connection") -> None:
        """Take note that somebody does not read what it has asked for."""
        self.unread[one] = None
        if len(self.unread) > UNREAD_MAX:
            self.make_room(next(iter(self.unread)))
            del self.unread[next(iter(self.unread))]


class Connection(H11Protocol):
    """One of them. Uvicorn itself waits for the head of a request for ever, the first as any later one."""

    _overdue: asyncio.TimerHandle | None = None  # runs while a request is awaited of which something has come
    _unread: asyncio.TimerHandle | None = None  # runs while there is more to be read than the system takes

    def __init__(self, *arguments: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = connections
        self.app = partial(_with_pipe, cast("ASGIApp", self.app), self)
        self.is_cut_off = self._is_stream = self._waits = False

    # What uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._overdue = self.loop.call_later(HEAD_WITHIN_S, self._late)
        self._connections.make_room(self._connections.crowd.came(self))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # It has ended the time that a connection may be idle, also for the half of a second request, or of a body that
        # nobody has waited for.
        if self._is_answering:
            self._expect_no_more()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_WITHIN_S, self._late)
        self._count()

    def on_response_complete(self) -> None:
        self._waits = False
        super().on_response_complete()
        self._count()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        self._was_read()
        self._connections.crowd.gone(self)
        # Whose process is gone has its connection closed or reset; who cannot be reached any more has not, and may be well. So may
        # who had to make room: were it taken for gone, its office would be released before what it was promised is over.
        self.is_cut_off = self.is_cut_off or (exc is not None and not isinstance(exc, ConnectionError))
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and end the connection."""
        # Then this is its answer, and whoever works on one is heard no more: two would be an error of ours.
        if self._is_answering:
            self.cycle.disconnected = True
        # No office is released for it before what was promised is over: it may be a proxy that has mixed something up.
        self.is_cut_off = True
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # An answer was begun, or given, while the request went on.
            self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        # Who listens to events is cut off by the hub. Whose candidacy hangs on a stream may hold it as a sign of life and never read: as
        # nothing more is written before there is room, all that it has unread are some states.
        if not self.is_stream:
            self._is_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()

    # What others need of it

    @property
    def is_stream(self) -> bool:
        """Whether it is read is not the server's to see to."""
        return self._is_stream

    @is_stream.setter
    def is_stream(self, is_stream: bool) -> None:
        self._is_stream = is_stream
        # What nobody reads of a stream is an answer as any other once nothing hangs on it, and that writing pauses is not told twice.
        if not is_stream and self.flow.write_paused and self._unread is None:
            self._is_unread()

    def showed_token(self) -> None:
        """Take note that somebody who has the token is at its other end."""
        self._connections.make_room(self._connections.crowd.showed_token(self))

    def waits(self) -> None:
        """Take note that the answer has to wait for the engine."""
        self._waits = True
        self._count()

    def write(self, content: bytes) -> None:
        """Write, now or when there is room."""
        if not self.transport.is_closing():
            self.transport.write(content)

    def pending_bytes(self) -> int:
        """Return how much waits for room."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """End it at once, without a word of the client's."""
        self.is_cut_off = True
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _count(self) -> None:
        crowd = self._connections.crowd
        if not self._is_answering or self.cycle.more_body:
            crowd.was_answered(self)
        elif self._waits or (self.flow.write_paused and not self.is_stream):
            crowd.waits(self)
        else:
            crowd.is_answered(self)

    def _expect_no_more(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _late(self) -> None:
        self._overdue = None
        if not self._is_answering:
            self.abort()

    def _is_unread(self) -> None:
        self._connections.is_unread(self)
        self._wait_until_read(self.pending_bytes())

    def _wait_until_read(self, left_bytes: int) -> None:
        def look() -> None:
            pending = self.pending_bytes()
            if self.is_stream and pending <= PENDING_BYTES_MAX:
                self._was_read()  # What it had missed. The rest is what comes while it reads.
            elif not self.is_stream and pending >= left_bytes:
                self.abort()
            else:
                self._wait_until_read(pending)

        self._unread = self.loop.call_later(READ_WITHIN_S, look)

    def _was_read(self) -> None:
        self._connections.unread.pop(self, None)
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def connection_class(connections: Connections) -> Callable[..., Connection]:
    """Return what uvicorn makes a connection with."""
    return partial(Connection, connections=connections)


async def _with_pipe(app: ASGIApp, pipe: Connection, scope: Scope, receive: Receive, send: Send) -> None:
    scope.setdefault("extensions", {})[PIPE] = pipe
    await app(scope, receive, send)
