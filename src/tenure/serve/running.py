"""The server around the application: uvicorn, with limits that it has not, and an end that gives up offices first."""

import asyncio
import logging
import resource
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tenure.office.opened import OpenStore
from tenure.serve.answers import Receive, Scope, Send
from tenure.serve.app import build
from tenure.serve.gate import HEAD_BYTES_MAX
from tenure.serve.hub import CLIENTS_MAX
from tenure.serve.listening import Place, forget, listen
from tenure.serve.setup import Setup
from tenure.serve.standing import check_ttl
from tenure.serve.streaming import PIPE

CONNECTIONS_MAX: Final = 2 * CLIENTS_MAX
_HEAD_WITHIN_S: Final = 10.0  # A client says what it wants within this time, or has its connection closed.
_KEEP_ALIVE_S: Final = 30  # Longer than a load balancer waits between two checks, so that it need not connect anew.
_FINISH_WITHIN_S: Final = 2  # After everybody was told: answers that are under way.
_FILES_BESIDES: Final = 256


class _Protocol(H11Protocol):
    """One connection. Uvicorn itself waits for the head of a request for ever, the first as any later one."""

    _overdue: asyncio.TimerHandle | None = None  # runs while a request is awaited of which something has come

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.app = partial(_with_pipe, self.app, self)
        self.is_cut_off = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._overdue = self.loop.call_later(_HEAD_WITHIN_S, self._late)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # It has ended the time that a connection may be idle, also for the half of a second request, or of a body that
        # nobody has waited for.
        if self._is_answering:
            self._expect_no_more()
        elif self._overdue is None:
            self._overdue = self.loop.call_later(_HEAD_WITHIN_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        # Whose process is gone has its connection closed or reset; who cannot be reached any more has not, and may be well.
        self.is_cut_off = exc is not None and not isinstance(exc, ConnectionError)
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _expect_no_more(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _late(self) -> None:
        self._overdue = None
        if not self._is_answering:
            self.transport.abort()

    def write(self, content: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(content)

    def pending_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()


async def _with_pipe(app: Any, pipe: _Protocol, scope: Scope, receive: Receive, send: Send) -> None:
    scope.setdefault("extensions", {})[PIPE] = pipe
    await app(scope, receive, send)


class _Server(uvicorn.Server):
    """Uvicorn's, which at a signal gives up every office before it stops to listen: clients have to say that they stopped."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._sidecar = app.state.sidecar
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._loop = asyncio.get_running_loop()
        before = {number: signal.signal(number, self._signalled) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _: int, __: FrameType | None) -> None:
        assert self._loop is not None, "captured on it"
        self._loop.call_soon_threadsafe(self.leave)

    def leave(self) -> None:
        """Give up every office and then end; at once, if this is the second time."""
        if self._draining is not None:
            self.force_exit = self.should_exit = True
            return
        self._draining = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        await self._sidecar.close()
        self.should_exit = True
        await asyncio.sleep(_FINISH_WITHIN_S)
        # Who has not sent its request by now is not waited for, and is no error of ours that the server should tell of.
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


async def serve(store: OpenStore, setup: Setup, place: Place, started: Callable[[Place], object]) -> None:
    """Serve until a signal comes, and then until everything was released. Calls ``started`` when it listens."""
    if setup.stand:
        check_ttl(store.store, setup.timing)
    opened, place = listen(place)
    app = build(store, setup)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,  # A warning for each request that is none would fill a disk, for anybody who likes.
        access_log=False,  # Paths and headers may be secret.
        server_header=False,
        proxy_headers=False,  # Nobody tells us whose request it is but the connection.
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=3 * _FINISH_WITHIN_S,
        backlog=2048,
    )
    _allow_files(CONNECTIONS_MAX + _FILES_BESIDES)
    server = _Server(config, app)
    started(place)
    try:
        await server.serve(sockets=[opened])
    finally:
        forget(place)


def _allow_files(count: int) -> None:
    """Have as many connections open as are allowed: systems begin with 1,024 files, and every one of them is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
