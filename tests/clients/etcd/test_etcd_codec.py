"""The codec: bytes that were written by hand from etcd's field numbers, and bytes that nobody should send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.etcd import codec
from tenure.clients.etcd.messages import (
    Delete,
    DeleteAnswer,
    Header,
    KeyValue,
    LeaseGranted,
    Put,
    PutDone,
    Range,
    RangeAnswer,
    Txn,
    WatchAnswer,
    created,
    has_value,
    modified,
    prefix_end,
    value_below,
)
from tenure.clients.etcd.wire import Fields, put_bytes, put_int, read_varint, varint

DECODERS = [
    codec.decode_range,
    codec.decode_txn,
    codec.decode_lease,
    codec.decode_lease_keys,
    codec.decode_nothing,
    codec.decode_watch,
    codec.decode_token,
    codec.decode_status,
    codec.decode_members,
    codec.decode_alarms,
]
HEADER = b"\x0a\x06\x08\x07\x10\x08\x18\x09"  # field 1: cluster 7, member 8, revision 9


@pytest.mark.parametrize(
    ("written", "golden"),
    [
        (codec.encode_put(Put(b"k", b"v", 300)), b"\x0a\x01k\x12\x01v\x18\xac\x02"),
        (codec.encode_put(Put(b"k", b"")), b"\x0a\x01k"),
        (codec.encode_delete(Delete(b"a", b"b")), b"\x0a\x01a\x12\x01b"),
        (codec.encode_range(Range(b"a", b"b", 1, oldest_first=True)), b"\x0a\x01a\x12\x01b\x18\x01\x28\x01\x30\x02"),
        (codec.encode_range(Range(b"a", newest_first=True, keys_only=True)), b"\x0a\x01a\x28\x02\x30\x02\x40\x01"),
        (codec.encode_range(Range(b"a", max_create_revision=5, serializable=True)), b"\x0a\x01a\x38\x01\x68\x05"),
        (codec.encode_txn(Txn((created(b"k", 9),), ())), b"\x0a\x07\x10\x01\x1a\x01k\x28\x09"),
        (codec.encode_txn(Txn((modified(b"k", 9),), ())), b"\x0a\x07\x10\x02\x1a\x01k\x30\x09"),
        (codec.encode_txn(Txn((has_value(b"k", b"v"),), ())), b"\x0a\x08\x10\x03\x1a\x01k\x3a\x01v"),
        (codec.encode_txn(Txn((value_below(b"k", b"v"),), ())), b"\x0a\x0a\x08\x02\x10\x03\x1a\x01k\x3a\x01v"),
        (
            codec.encode_txn(Txn((), (Put(b"k", b"v"), Delete(b"d")), (Range(b"r"),))),
            b"\x12\x08\x12\x06\x0a\x01k\x12\x01v\x12\x05\x1a\x03\x0a\x01d\x1a\x05\x0a\x03\x0a\x01r",
        ),
        (
            codec.encode_txn(Txn((), (Txn((), (Put(b"k", b"v"),)),))),
            b"\x12\x0c\x22\x0a\x12\x08\x12\x06\x0a\x01k\x12\x01v",
        ),
        (codec.encode_lease_grant(5), b"\x08\x05"),
        (codec.encode_lease(-1), b"\x08" + b"\xff" * 9 + b"\x01"),
        (codec.encode_lease_keys(3), b"\x08\x03\x10\x01"),
        (codec.encode_watch(b"k", 4), b"\x0a\x08\x0a\x01k\x18\x04\x2a\x01\x00"),
        (codec.encode_watch_cancel(4), b"\x12\x02\x08\x04"),
        (codec.encode_authenticate("u", "p"), b"\x0a\x01u\x12\x01p"),
    ],
)
def test_a_request_is_the_bytes_that_the_field_numbers_ask_for(written: bytes, golden: bytes) -> None:
    assert written == golden


def test_an_answer_is_read_from_the_bytes_that_the_field_numbers_ask_for() -> None:
    kv = b"\x0a\x01k\x10\x02\x18\x03\x20\x04\x2a\x01v\x30\x05"
    read = KeyValue(b"k", b"v", 2, 3, 4, 5)
    header = Header(7, 8, 9)
    assert codec.decode_range(HEADER + b"\x12\x0e" + kv + b"\x20\x01") == (header, RangeAnswer((read,), 1, 9))
    answers = b"\x1a\x02\x12\x00" + b"\x1a\x04\x1a\x02\x10\x06"
    decoded, txn = codec.decode_txn(HEADER + b"\x10\x01" + answers)
    assert (decoded, txn.revision, txn.succeeded, txn.answers) == (header, 9, True, (PutDone(), DeleteAnswer(6)))
    assert codec.decode_lease(HEADER + b"\x10\x05\x18\x02") == (header, LeaseGranted(5, 2))
    minus_one = b"\x18" + b"\xff" * 9 + b"\x01"
    assert codec.decode_lease_keys(HEADER + minus_one + b"\x2a\x01k") == (header, (-1, [b"k"]))
    events = b"\x5a\x10\x12\x0e" + kv + b"\x5a\x12\x08\x01\x12\x0e" + kv  # a put and a delete
    watch = WatchAnswer(2, created=True, cancelled=True, compact_revision=6, reason="why", deleted_keys=(b"k",))
    assert codec.decode_watch(HEADER + b"\x10\x02\x18\x01\x20\x01\x28\x06\x32\x03why" + events) == (header, watch)


@given(st.binary(max_size=200))
def test_rubbish_is_a_value_error_and_nothing_else(rubbish: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(rubbish)
        except ValueError:
            continue
    assert len(DECODERS) == 10


@given(st.lists(st.tuples(st.integers(1, 12), st.binary(max_size=12) | st.integers(0, 2**64 - 1)), max_size=12))
def test_fields_of_the_wrong_kind_are_a_value_error_and_nothing_else(fields: list[tuple[int, bytes | int]]) -> None:
    message = b"".join(
        put_int(field, value) if isinstance(value, int) else put_bytes(field, value) for field, value in fields
    )
    Fields(message)
    for decode in DECODERS:
        try:
            decode(message)
        except ValueError:
            continue
    assert len(DECODERS) == 10


def test_transactions_that_are_nested_without_end_are_a_value_error() -> None:
    message = b""
    for _ in range(2000):
        message = put_bytes(3, put_bytes(4, message) or b"\x22\x00")
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.decode_txn(message)


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_comes_back_as_it_went(number: int) -> None:
    read, end = read_varint(varint(number), 0)
    assert (read, end) == (number % 2**64, len(varint(number)))


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2**63 - 1))
def test_a_message_comes_back_as_it_went(key: bytes, value: bytes, lease: int) -> None:
    read = Fields(codec.encode_put(Put(key, value, lease)))
    assert (read.bytes(1), read.bytes(2), read.signed(3)) == (key, value, lease)


@given(st.binary(min_size=1, max_size=6), st.binary(max_size=6))
def test_the_end_of_a_prefix_is_behind_all_that_begin_with_it_and_before_all_else(prefix: bytes, other: bytes) -> None:
    end = prefix_end(prefix)
    within = prefix <= other and (end == b"\0" or other < end)
    assert within == (other.startswith(prefix) or (end == b"\0" and other > prefix))
    assert end == b"\0" or prefix + other < end
