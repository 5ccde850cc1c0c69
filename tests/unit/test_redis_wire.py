"""The wire of Redis: whatever way it is cut, the same replies come out, and what is no reply is found out at once."""

import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.redis.resp import Fault, NotRedis, Replies, encode

WIRE = b"+OK\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n$1\r\nx\r\n*1\r\n:1\r\n*-1\r\n*0\r\n-READONLY no\r\n"
REPLIES = [b"OK", -7, b"a\r\n", None, [b"x", [1]], None, []]


@given(st.lists(st.integers(0, len(WIRE)), max_size=8))
def test_replies_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    replies, found = Replies(), []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(WIRE)], strict=True):
        found += replies.feed(WIRE[begin:end])
    *plain, fault = found
    assert plain == REPLIES
    assert isinstance(fault, Fault)
    assert (fault.code, fault.text) == ("READONLY", "READONLY no")


@pytest.mark.parametrize(
    "rubbish",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x15\x03\x01\x00\x02",
        b":seven\r\n",
        b"$9999999999\r\n",
        b"*99999999999\r\n",
        b"*1\r\n" * 40,
        b"+" + b"x" * 70_000,
    ],
)
def test_what_is_no_reply_is_found_out(rubbish: bytes) -> None:
    with pytest.raises(NotRedis):
        Replies().feed(rubbish)


def test_a_list_that_comes_in_many_pieces_is_read_once() -> None:
    # All elections of a store are such a list, and whoever renews waits while it is read anew with every piece.
    items, piece_bytes = 2000, 50
    wire, replies, calls = b"*%d\r\n" % items + b"*1\r\n$4\r\njobs\r\n" * items, Replies(), 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        *nothing, found = [replies.feed(wire[at : at + piece_bytes]) for at in range(0, len(wire), piece_bytes)]
    finally:
        sys.setprofile(None)
    assert (found, any(nothing)) == ([[[b"jobs"]] * items], False)
    assert calls < 15 * items


def test_a_command_is_a_list_of_texts_with_their_lengths_in_bytes() -> None:
    assert encode(("SET", "ä", 7, b"\x00")) == b"*4\r\n$3\r\nSET\r\n$2\r\n\xc3\xa4\r\n$1\r\n7\r\n$1\r\n\x00\r\n"
