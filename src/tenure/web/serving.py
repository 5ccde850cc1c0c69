"""A server for a WSGI application with nothing but Python: a thread for each connection, and a limit to them.

For a worker's orders and a leader's few clients. Not for the open internet: put a real server there.
"""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, SHUT_WR, SO_REUSEADDR, SOL_SOCKET, socket
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tenure.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

CONNECTIONS_MAX: Final = 64
_IDLE_S: Final = 30.0  # A client that says nothing for so long has its connection closed.
_HEAD_S: Final = 1.0  # How long one may take to say what it wants while others wait for its place.
_PARTING_S: Final = 15.0  # How long one may go on sending what nobody reads, until it has read its answer.
_CHUNK_BYTES: Final = 2**16
_LOOK_S: Final = 0.1  # how soon it notices that it is to end


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        self._tls, self._room = tls, threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._ending = threading.Event()
        # Who is waited for, and since when: its request is not here yet, or it was answered and has not gone. With the lock held,
        # none of them is closed by its own thread.
        self._silent: dict[socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        # Not the look-up of a name, as the base has it: that may take seconds.
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        request, client_address = super().get_request()
        request.settimeout(_IDLE_S)
        if self._tls is not None:  # It is its thread that shakes hands, and waits.
            request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return request, client_address

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._room.acquire(timeout=_LOOK_S):  # Who comes above the limit waits in the queue of the socket.
            if self._ending.is_set():
                self.shutdown_request(request)
                return
            self._close_silent(_HEAD_S)
        with self._lock:
            self._silent[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if isinstance(request, ssl.SSLSocket):
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self._room.release()

    def shutdown_request(self, request: Any) -> None:
        self.heard(request)
        super().shutdown_request(request)

    def heard(self, request: Any) -> bool:
        """Note that a request is here, or that none will come; False if it had been given up."""
        with self._lock:
            return self._silent.pop(request, None) is not None

    def answered(self, request: Any) -> None:
        """Note that a request was answered: whoever sent it may go on sending while nobody else needs the place."""
        with self._lock:
            self._silent[request] = time.monotonic()

    def end(self) -> None:
        """Listen no more, and wait for nobody: who has not said what it wants is cut off, and requests at work go on."""
        self._ending.set()
        self.shutdown()
        self.server_close()
        self._close_silent(0)

    def _close_silent(self, for_s: float) -> None:
        until_s = time.monotonic() - for_s
        with self._lock:
            for request in [request for request, since_s in self._silent.items() if since_s <= until_s]:
                del self._silent[request]
                with suppress(OSError):  # It has gone by itself.
                    socket.shutdown(request, SHUT_RDWR)  # Not that of TLS, which its own thread uses.

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no news."""


class _Handler(WSGIRequestHandler):
    server: _Server
    _has_body = False

    def parse_request(self) -> bool:
        """Read the head. If it was cut off by us, half of it is no request."""
        if not super().parse_request():
            return False
        self._has_body = any(name in self.headers for name in ("Content-Length", "Transfer-Encoding"))
        return self.server.heard(self.connection)

    def finish(self) -> None:
        """Send what is left of the answer, and read what is left of the body, which the application may have refused unread.

        A connection that is closed with something unread in it is reset, and who was sending never sees why it was refused.
        """
        super().finish()
        if self._has_body:
            self.server.answered(self.connection)
            with suppress(OSError):  # It has gone, or takes too long.
                _part(self.connection)

    def log_message(self, *_: Any) -> None:
        """Nothing: paths and headers may be secret."""


def _part(connection: socket) -> None:
    """Say that this was all, and wait until the other side has said so too."""
    connection.shutdown(SHUT_WR)  # Of one with TLS, what is read from now on is not deciphered, and need not be.
    until_s = time.monotonic() + _PARTING_S
    while (left_s := until_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        if not connection.recv(_CHUNK_BYTES):
            return


@contextmanager
def serving(
    app: "WSGIApplication", host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve ``app`` in threads while the block runs; gives its URL. Port 0 is any that is free."""
    try:
        server = _Server((host, port), tls)
    except (OSError, OverflowError) as error:
        raise ConfigError("address", f"{host}:{port}", f"cannot be listened at: {error}") from None
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,), name="tenure-serving", daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://{host}:{server.server_port}"
    finally:
        server.end()
        thread.join()
