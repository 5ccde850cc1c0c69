"""The server that needs nothing but Python: who is silent keeps neither others out nor the block from its end."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tenure.testing.engines.certificates import Tls
from tenure.web.serving import CONNECTIONS_MAX, serving

_SOON_S = 20  # Less than what the silent may take while nobody waits, which is 30 s.


def hello(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"hello"]


@contextmanager
def silent(url: str, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """Clients that connect and then say no more."""
    split = urlsplit(url)
    with ExitStack() as stack:
        address = (split.hostname, split.port)
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        for client in clients:
            client.settimeout(_SOON_S)
            client.sendall(said)
        yield clients


def is_cut_off(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:  # It was in the queue still.
        return True


def get(url: str, context: ssl.SSLContext | None = None) -> bytes:
    place = urlsplit(url).netloc
    client = (
        http.client.HTTPConnection(place, timeout=_SOON_S)
        if context is None
        else http.client.HTTPSConnection(place, timeout=_SOON_S, context=context)
    )
    try:
        client.request("GET", "/")
        return client.getresponse().read()
    finally:
        client.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX: half of a"])
def test_who_says_nothing_keeps_others_out_for_a_moment_only(said: bytes) -> None:
    asked = list[str]()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        asked.append(environ.get("HTTP_X", "all of it"))
        return hello(environ, start_response)

    with serving(app) as url, silent(url, 2 * CONNECTIONS_MAX, said):
        assert get(url) == b"hello"
        assert asked == ["all of it"], "what it cut off was no request"


def test_the_silent_keep_others_out_by_tls_no_longer(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = tls.issue("server", "127.0.0.1")
    own.load_cert_chain(pair.certificate, pair.key)
    with serving(hello, tls=own) as url, silent(url, CONNECTIONS_MAX):
        assert get(url, tls.context()) == b"hello"


def test_the_block_ends_at_once_and_cuts_off_who_is_silent() -> None:
    with ExitStack() as stack:
        with serving(hello) as url:
            clients = stack.enter_context(silent(url, CONNECTIONS_MAX + 2))
            leaving_s = time.monotonic()
        assert time.monotonic() - leaving_s < _SOON_S
        assert all(map(is_cut_off, clients))


def test_who_has_a_request_at_work_is_answered_though_others_wait_and_the_block_ends() -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        at_work.set()
        assert go_on.wait(_SOON_S)
        return hello(environ, start_response)

    with ExitStack() as stack:
        with serving(app) as url:
            [worker] = stack.enter_context(silent(url, 1, b"GET / HTTP/1.0\r\n\r\n"))
            assert at_work.wait(_SOON_S)
            others = stack.enter_context(silent(url, CONNECTIONS_MAX))
            assert others[0].recv(1) == b"", "it had to make room"
        go_on.set()
        assert b"".join(iter(lambda: worker.recv(4096), b"")).endswith(b"hello")


def test_who_is_refused_while_it_sends_much_reads_why() -> None:
    with serving(hello) as url:
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_SOON_S)
        client.request("POST", "/", b" " * 2**23)  # More than the kernel keeps, and nobody reads it.
        assert client.getresponse().read() == b"hello"
        client.close()


def test_who_was_answered_and_does_not_go_keeps_others_out_for_a_moment_only() -> None:
    with (
        serving(hello) as url,
        silent(url, 2 * CONNECTIONS_MAX, b"POST / HTTP/1.0\r\nContent-Length: 9\r\n\r\nhalf") as all_,
    ):
        assert get(url) == b"hello"
        assert all_[0].makefile("rb").read().endswith(b"hello")
