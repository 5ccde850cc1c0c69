"""The wire between a leader and a service, with somebody on it who hears every byte, and may lose it."""

import http.client
import socket
import threading
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Self
from urllib.parse import urlsplit


class Wire:
    """Listens at ``url`` in place of ``service``. ``heard`` is what leaders said; with ``loses`` it is all that becomes of it."""

    def __init__(self, service: str, *, loses: bool = False) -> None:
        split = urlsplit(service)
        self._service, self.loses, self.heard = (split.hostname or "", split.port or 0), loses, b""
        self._news = threading.Condition()
        self._leaders: set[socket.socket] = set()

    def __enter__(self) -> Self:
        wire = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                wire.carry(self.request)

        self._server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def carry(self, leader: socket.socket) -> None:
        """Hear one connection to its end, and pass on what is said on it."""
        with socket.create_connection(self._service) as service, suppress(OSError):
            back = threading.Thread(target=_pump, args=(service, leader), daemon=True)
            back.start()
            while data := leader.recv(65536):
                with self._news:
                    self.heard += data
                    self._leaders.add(leader)
                    self._news.notify_all()
                if not self.loses:
                    service.sendall(data)
            service.shutdown(socket.SHUT_RDWR)
            back.join()

    def cut_after(self, last: bytes) -> None:
        """Cut the connection once all of a request was said, up to these last bytes of it."""
        with self._news:
            assert self._news.wait_for(lambda: self.heard.endswith(last), 30), self.heard
            for leader in self._leaders:
                leader.shutdown(socket.SHUT_RDWR)


def _pump(service: socket.socket, leader: socket.socket) -> None:
    with suppress(OSError):
        while data := service.recv(65536):
            leader.sendall(data)


def repeat(said: bytes, service: str) -> tuple[int, str]:
    """Say the same again, byte for byte, and return the status and why it was refused, in one word."""
    split = urlsplit(service)
    with socket.create_connection((split.hostname or "", split.port or 0), timeout=30) as link:
        link.sendall(said)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        return answer.status, answer.headers.get("Tenure-Refused", "")


def cut_off(said: bytes, service: str) -> None:
    """Say the beginning of a request, and then nothing ever again."""
    split = urlsplit(service)
    with socket.create_connection((split.hostname or "", split.port or 0), timeout=30) as link:
        link.sendall(said)
