"""Answers that are cut, endless or rubbish: none is taken for what it is not, and none takes more memory than is allowed."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from tenure.errors import ConfigError, OutcomeUnknown, Refused
from tenure.model import Token
from tenure.sinks import HttpSink
from tenure.sinks.http import HttpAnswer, Presented, capped

TERM = Presented(Token(7), "f")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """A server that says this to the first who asks, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(65536)
                try:
                    for part in parts:
                        link.sendall(part)
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(65536):
                        pass
                except OSError:
                    return  # Who asked has heard enough.

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join()


def ask(*parts: bytes) -> HttpAnswer:
    with answering(*parts) as url:
        return anyio.run(HttpSink(url, timeout_s=30).bind(TERM).request, "POST", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
        CHUNKED + b"5\r\nabc",
        CHUNKED + b"3\r\nabc\r\n",
        CHUNKED + b"-1\r\nabc",
        CHUNKED + b"-1\r\n0\r\n\r\n",
        CHUNKED + b"rubbish\r\n",
        b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n",
        b"",
    ],
)
def test_an_answer_that_was_cut_is_of_unknown_outcome(answer: bytes) -> None:
    with pytest.raises(OutcomeUnknown):
        ask(answer)


def test_a_whole_answer_is_read_however_it_is_framed() -> None:
    assert ask(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").body == b"abc"
    assert ask(b"HTTP/1.1 200 OK\r\n\r\nabc").body == b"abc"
    assert ask(CHUNKED, b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n").body == b"abc"
    assert ask(b"HTTP/1.1 204 No Content\r\n\r\n").body == b""


@pytest.mark.parametrize("head", [CHUNKED + b"-1\r\n", CHUNKED + b"fffff\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_endless_answer_is_given_up(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capped, "_WIRE_MAX_BYTES", 2**20)
    sent: list[bytes] = [head, *[b"x" * 2**18] * 64]
    with pytest.raises(OutcomeUnknown, match="the answer has more than"):
        ask(*sent)


def test_a_highest_token_that_is_none_is_not_believed() -> None:
    for highest in (b"9" * 5000, b"000", b"0", b"7", b"08", b"-8", b"+8", b"8_0", b"\xb2", b"9223372036854775808"):
        with pytest.raises(Refused, match="stale"):
            ask(b"HTTP/1.1 409 Conflict\r\nTenure-Refused: stale\r\nTenure-Highest: " + highest + b"\r\n\r\n")


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 70}.x", "a\x00b", "a b"])
def test_a_host_that_nobody_can_look_up_is_told_at_once(host: str) -> None:
    with pytest.raises(ConfigError, match="url = "):
        HttpSink(f"http://{host}/x")
