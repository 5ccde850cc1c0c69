"""Answers as bytes: where each ends, however it comes in pieces, and that nothing is guessed."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.http.answers import Reading

_CASES = {
    "by length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True),
    "no body": (b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", 200, b"", True),
    "in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        200,
        b"hello",
        True,
    ),
    "in chunks, with a trailer": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nDigest: x\r\n\r\n",
        200,
        b"0123456789",
        True,
    ),
    "after a word before it": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno",
        409,
        b"no",
        True,
    ),
    "without content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "of one who leaves": (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    "of HTTP/1.0 that stays": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        200,
        b"x",
        True,
    ),
    "without words": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, b"x", True),
}


@pytest.mark.parametrize(("said", "status", "body", "keeps"), _CASES.values(), ids=_CASES.keys())
def test_an_answer_is_read_whole_wherever_it_is_cut(said: bytes, status: int, body: bytes, keeps: bool) -> None:
    for at in range(len(said) + 1):
        reading = Reading()
        for piece in (said[:at], said[at:]):
            assert not reading.done or not piece
            reading.feed(piece)
        assert (reading.done, reading.status, bytes(reading.body), reading.keeps) == (True, status, body, keeps)


class _Noticed(Reading):
    """Whose end can be noticed."""

    __slots__ = ("__weakref__",)


_UNDONE = {
    "nothing yet": b"",
    "a part of the head": b"HTTP/1.1 200 OK\r\nContent-",
    "a part of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe",
    "all but its end": b"HTTP/1.0 200 OK\r\n\r\nhello",
}


@pytest.mark.parametrize("said", [*(case[0] for case in _CASES.values()), *_UNDONE.values()], ids=[*_CASES, *_UNDONE])
def test_an_answer_that_nobody_has_is_gone_without_a_search_for_cycles(said: bytes) -> None:
    gc.disable()
    try:
        reading = _Noticed()
        reading.feed(said)
        noticed = weakref.ref(reading)
        del reading
        assert noticed() is None
    finally:
        gc.enable()


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reading = Reading()
    reading.feed(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to")
    reading.feed(b" an HTTPS server.")
    assert not reading.done
    assert reading.ended()
    assert (reading.answer.status, reading.answer.text) == (400, "Client sent an HTTP request to an HTTPS server.")
    assert not reading.keeps


@pytest.mark.parametrize("whole", [said for said, *_ in _CASES.values()], ids=_CASES.keys())
def test_one_that_breaks_off_is_none(whole: bytes) -> None:
    for length in range(len(whole) - 1):
        reading = Reading()
        reading.feed(whole[:length])
        assert not reading.ended()


def test_the_answer_to_connect_has_no_body_unless_it_is_a_refusal() -> None:
    through = Reading(tunnel=True)
    through.feed(b"HTTP/1.1 200 Connection established\r\nContent-Length: 7\r\n\r\n")
    assert through.done
    refused = Reading(tunnel=True)
    refused.feed(b"HTTP/1.1 407 Who \x1b are you\r\nContent-Length: 2\r\n\r\n")
    assert not refused.done
    refused.feed(b"no")
    assert (refused.done, refused.reason) == (True, "Who  are you")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 70_000,
    ],
)
def test_what_the_protocol_does_not_allow_is_not_guessed_at(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Reading().feed(said)


@given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", _CASES["in chunks"][0][:50]]))
def test_rubbish_is_judged_alike_however_it_is_cut_and_its_end_is_never_guessed(rubbish: bytes, before: bytes) -> None:
    whole, piecewise = _read([before + rubbish]), _read([bytes([byte]) for byte in before + rubbish])
    if whole is None or piecewise is None:
        assert whole is piecewise
        return
    seen = [(one.begun, one.done, one.status, one.headers, bytes(one.body), one.keeps) for one in (whole, piecewise)]
    assert seen[0] == seen[1]
    # What is not over says so when the connection ends, unless nothing but that could be its end.
    told = {"content-length", "transfer-encoding"} & whole.headers.keys()
    over = whole.done or (whole.begun and not told)
    assert whole.ended() == over


def _read(pieces: list[bytes]) -> Reading | None:
    """What was read of these; None: they cannot be an answer."""
    reading = Reading()
    try:
        for piece in pieces:
            reading.feed(piece)
    except ValueError:
        return None
    return reading
