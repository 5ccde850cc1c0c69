"""Real servers for the tests: wsgiref with a thread for each request, and uvicorn, both on a loopback port of their own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn

from tenure.testing.engines.ports import claim_ports

HOST = "127.0.0.1"


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def wsgi(app: Any) -> Iterator[str]:
    """Serve a WSGI application; gives its URL."""
    (claim,) = claim_ports(1, HOST)
    server = make_server(HOST, claim.port, app, server_class=_Threads, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{claim.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        claim.release()


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextmanager
def asgi(app: Any) -> Iterator[str]:
    """Serve an ASGI application; gives its URL."""
    (claim,) = claim_ports(1, HOST)
    config = uvicorn.Config(
        app, host=HOST, port=claim.port, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = _Uvicorn(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.up.wait(30)
    try:
        yield f"http://{HOST}:{claim.port}"
    finally:
        server.should_exit = True
        thread.join()
        claim.release()


Serve = Callable[[Any], Any]
