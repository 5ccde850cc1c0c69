"""What a message of ZooKeeper says is read whole, or not at all."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.zookeeper.wire import Reader, get_children, text

STAT = struct.pack(">qqqqiiiqiiq", *range(11))


def listing(names: list[str]) -> bytes:
    return struct.pack(">i", len(names)) + b"".join(map(text, names)) + STAT


@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_list_is_read_as_its_texts_are(names: list[str]) -> None:
    read, stat = get_children("/x").read(Reader(listing(names)))
    assert read == names
    assert stat.czxid == 0
    assert stat.pzxid == 10
    one_by_one = Reader(listing(names))
    assert [one_by_one.text() for _ in range(one_by_one.number())] == names


@pytest.mark.parametrize("length", range(len(listing(["one", "", "three"]))))
def test_a_list_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises((ValueError, struct.error)):
        get_children("/x").read(Reader(listing(["one", "", "three"])[:length]))


@pytest.mark.parametrize("length", [len(STAT) + 1, 2**31 - 1])
def test_a_text_longer_than_its_message_is_refused(length: int) -> None:
    message = struct.pack(">ii", 1, length) + STAT
    with pytest.raises((ValueError, struct.error)):
        Reader(message).texts()
    with pytest.raises((ValueError, struct.error)):
        Reader(message[4:]).text()


def test_a_text_that_is_null_in_java_is_empty() -> None:
    assert Reader(struct.pack(">ii", 2, -1) + text("next")).texts() == ["", "next"]
    assert Reader(struct.pack(">i", -1)).text() == ""
