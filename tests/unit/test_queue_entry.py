"""What candidates write beside their places: ours comes back as it was, and a stranger's never does harm."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model import Bid, Holder
from tenure.stores.entry import entry_of, read_entry

BID = Bid("e", Holder("db/1.example", 12, "abc"), 7, 10**9, "http://10.0.0.5:8080/?a=ä")


def test_what_we_write_is_read_as_it_was() -> None:
    entry = entry_of(BID)
    assert read_entry(entry.encode(), "1f") == entry
    assert (entry.holder, entry.serial, entry.advertised, entry.resign_asked) == (BID.holder, 7, BID.advertise, False)


def test_a_word_to_leave_changes_nothing_else() -> None:
    asked = entry_of(BID).asked_to_resign()
    assert read_entry(asked.encode(), "1f") == asked
    assert asked.resign_asked
    assert (asked.holder, asked.serial, asked.advertised) == (BID.holder, 7, BID.advertise)


def test_what_we_write_is_one_line_of_json_for_people() -> None:
    assert json.loads(entry_of(BID).encode()) == {
        "holder": "db/1.example/12/abc",
        "serial": 7,
        "advertise": "http://10.0.0.5:8080/?a=ä",
    }


def test_a_strangers_text_is_its_name_and_its_address() -> None:
    entry = read_entry(b"10.0.0.7:9000", "694d77aa9e38260f")
    assert entry.holder == Holder("10.0.0.7:9000", 0, "694d77aa9e38260f")
    assert (entry.advertised, entry.serial) == ("10.0.0.7:9000", None)


def test_a_stranger_who_writes_nothing_has_a_name_all_the_same() -> None:
    assert read_entry(b"", "1f").holder == Holder("unnamed", 0, "1f")


@pytest.mark.parametrize(
    "text",
    [
        b'{"holder": "h/1/n", "serial": 1}',
        b'{"holder": "h/1/n", "serial": "1", "advertise": ""}',
        b'{"holder": "h/1/n", "serial": true, "advertise": ""}',
        b'{"holder": "h/x/n", "serial": 1, "advertise": ""}',
        b'{"holder": 5, "serial": 1, "advertise": ""}',
        b'{"holder": "h/1/n", "serial": 1, "advertise": "", "resign": 1}',
        b"[" * 100_000,
        b"null",
    ],
)
def test_what_only_looks_like_ours_is_a_strangers(text: bytes) -> None:
    assert read_entry(text, "1f").serial is None


@given(st.binary(max_size=400), st.text(max_size=40))
def test_no_text_fails_or_reaches_a_terminal_as_it_is(text: bytes, place: str) -> None:
    entry = read_entry(text, place)
    assert all(part.isprintable() for part in (entry.holder.host, entry.holder.nonce, entry.advertised))
