"""The server around the application: uvicorn, with limits that it has not, and an end that gives up offices first."""

import asyncio
import logging
import resource
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from tenure.errors import OutcomeUnknown, StoreError, Unreachable
from tenure.office.opened import OpenStore
from tenure.serve import crowd
from tenure.serve.app import build
from tenure.serve.connection import Connections, connection_class
from tenure.serve.crowd import Crowd
from tenure.serve.gate import HEAD_BYTES_MAX
from tenure.serve.listening import Place, forget, listen
from tenure.serve.setup import Setup
from tenure.serve.standing import check_ttl

_LOG: Final = logging.getLogger("tenure.serve")
_KEEP_ALIVE_S: Final = 30  # Longer than a load balancer waits between two checks, so that it need not connect anew.
_FINISH_WITHIN_S: Final = 2  # After everybody was told: answers that are under way.


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
    """Open the store, serve until a signal comes, and then until everything was released. Calls ``started`` when it listens.

    A store that cannot be reached yet is waited for, by a sidecar that says so to whoever asks.
    """
    unreached: StoreError | None = None
    try:
        await store.__aenter__()
    except (Unreachable, OutcomeUnknown) as error:
        unreached = error
        _LOG.warning("the store cannot be reached yet, and is tried again: %s", error)
    try:
        await _serve(store, setup, place, started, unreached)
    finally:
        await store.__aexit__()


async def _serve(
    store: OpenStore, setup: Setup, place: Place, started: Callable[[Place], object], unreached: StoreError | None
) -> None:
    if setup.stand and unreached is None:
        check_ttl(store.store, setup.timing)
    opened, place = listen(place)
    app, room = build(store, setup, unreached), crowd.room(_files())
    app.state.sidecar.hub.clients_max = room.listeners_max
    app.state.sidecar.register.most = room.candidacies_max
    config = uvicorn.Config(
        app,
        http=connection_class(Connections(Crowd(room.others_max, room.token_max))),  # type: ignore[arg-type]  # It is called, and nothing else.
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,  # A warning for each request that is none would fill a disk, for anybody who likes.
        access_log=False,  # Paths and headers may be secret.
        server_header=False,
        proxy_headers=False,  # Nobody tells us whose request it is but the connection.
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        limit_concurrency=None,  # It would refuse who comes last, and that may be a leader's heartbeat: see crowd.
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=3 * _FINISH_WITHIN_S,
        backlog=room.backlog,
    )
    server = _Server(config, app)
    started(place)
    try:
        await server.serve(sockets=[opened])
    finally:
        forget(place)


def _files() -> int:
    """Return how many files may be open, after asking for as many as are needed: systems begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < crowd.FILES:
        with suppress(ValueError, OSError):
            more = crowd.FILES if hard == resource.RLIM_INFINITY else min(crowd.FILES, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return crowd.FILES if soft == resource.RLIM_INFINITY else soft
