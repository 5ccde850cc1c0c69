"""etcd's messages as bytes. The field numbers are those of etcd's ``rpc.proto`` and ``kv.proto``.

Each function is named by the message that it writes or reads. Bytes that are no such message are a ``ValueError``.
"""
# ruff: noqa: D103  (the name says which message)

from tenure.clients.etcd.messages import (
    CREATE_REVISION,
    MOD_REVISION,
    Alarm,
    Compare,
    Delete,
    DeleteAnswer,
    Header,
    KeyValue,
    LeaseGranted,
    Member,
    Put,
    PutDone,
    Range,
    RangeAnswer,
    Status,
    Txn,
    TxnAnswer,
    WatchAnswer,
)
from tenure.clients.etcd.wire import Fields, put_bytes, put_int, put_message

_ASCEND, _DESCEND, _BY_CREATE_REVISION = 1, 2, 2
_OPERAND_FIELD = {CREATE_REVISION: 5, MOD_REVISION: 6}
_NO_PUT = b"\x2a\x01\x00"  # field 5, a packed list of one filter: NOPUT, which is 0 and would be left out otherwise
_ALARMS = {1: "NOSPACE", 2: "CORRUPT"}
_DELETED = 1  # an EventType
_TXN_DEPTH_MAX = 16  # Nobody nests like that; rubbish bytes may.


def encode_put(put: Put) -> bytes:
    return put_bytes(1, put.key) + put_bytes(2, put.value) + put_int(3, put.lease)


def encode_range(ask: Range) -> bytes:
    ordered = ask.oldest_first or ask.newest_first
    return b"".join(
        (
            put_bytes(1, ask.key),
            put_bytes(2, ask.end),
            put_int(3, ask.limit),
            put_int(5, _DESCEND if ask.newest_first else _ASCEND) if ordered else b"",
            put_int(6, _BY_CREATE_REVISION) if ordered else b"",
            put_int(7, ask.serializable),
            put_int(8, ask.keys_only),
            put_int(13, ask.max_create_revision),
        )
    )


def encode_delete(delete: Delete) -> bytes:
    return put_bytes(1, delete.key) + put_bytes(2, delete.end)


def encode_txn(txn: Txn) -> bytes:
    return b"".join(
        (
            *(put_message(1, _encode_compare(compare)) for compare in txn.compare),
            *(put_message(2, _encode_operation(operation)) for operation in txn.success),
            *(put_message(3, _encode_operation(operation)) for operation in txn.failure),
        )
    )


def _encode_operation(operation: Put | Range | Delete | Txn) -> bytes:
    if isinstance(operation, Put):
        return put_message(2, encode_put(operation))
    if isinstance(operation, Range):
        return put_message(1, encode_range(operation))
    if isinstance(operation, Txn):
        return put_message(4, encode_txn(operation))
    return put_message(3, encode_delete(operation))


def _encode_compare(compare: Compare) -> bytes:
    key, target, result, operand = compare
    against = put_message(7, operand) if isinstance(operand, bytes) else put_int(_OPERAND_FIELD[target], operand)
    return put_int(1, result) + put_int(2, target) + put_bytes(3, key) + against


def encode_lease_grant(ttl_s: int) -> bytes:
    return put_int(1, ttl_s)


def encode_lease(lease: int) -> bytes:
    """Return what ``LeaseRevoke`` and ``LeaseKeepAlive`` take."""
    return put_int(1, lease)


def encode_lease_keys(lease: int) -> bytes:
    return put_int(1, lease) + put_int(2, 1)


def encode_watch(key: bytes, start_revision: int) -> bytes:
    return put_message(1, put_bytes(1, key) + put_int(3, start_revision) + _NO_PUT)


def encode_watch_cancel(watch_id: int) -> bytes:
    return put_message(2, put_int(1, watch_id))


def encode_authenticate(user: str, password: str) -> bytes:
    return put_bytes(1, user.encode()) + put_bytes(2, password.encode())


def decode_header(message: Fields) -> Header:
    header = Fields(message.bytes(1))  # field 1 of every answer
    return Header(header.unsigned(1), header.unsigned(2), header.signed(3), header.unsigned(4))


def _decode_key_value(data: bytes) -> KeyValue:
    kv = Fields(data)
    return KeyValue(kv.bytes(1), kv.bytes(5), kv.signed(2), kv.signed(3), kv.signed(4), kv.signed(6))


def decode_range(data: bytes) -> tuple[Header, RangeAnswer]:
    message = Fields(data)
    header = decode_header(message)
    kvs = tuple(_decode_key_value(kv) for kv in message.all_bytes(2))
    return header, RangeAnswer(kvs, message.signed(4), header.revision)


def decode_txn(data: bytes) -> tuple[Header, TxnAnswer]:
    message = Fields(data)
    header = decode_header(message)
    return header, _decode_txn_answer(message, header.revision)._replace(term=header.term)


def _decode_txn_answer(message: Fields, revision: int, depth: int = 0) -> TxnAnswer:
    if depth > _TXN_DEPTH_MAX:
        raise ValueError("transactions are nested too deeply")
    answers = tuple(_decode_answer(Fields(answer), revision, depth) for answer in message.all_bytes(3))
    return TxnAnswer(revision, message.unsigned(2) != 0, answers)


def _decode_answer(answer: Fields, revision: int, depth: int) -> PutDone | RangeAnswer | DeleteAnswer | TxnAnswer:
    if answer.has(2):
        return PutDone()
    if answer.has(1):
        return decode_range(answer.bytes(1))[1]
    if answer.has(3):
        return DeleteAnswer(Fields(answer.bytes(3)).signed(2))
    if answer.has(4):
        return _decode_txn_answer(Fields(answer.bytes(4)), revision, depth + 1)
    raise ValueError("a transaction answered an operation that nobody asked for")


def decode_lease(data: bytes) -> tuple[Header, LeaseGranted]:
    """Read the answer of ``LeaseGrant`` and of ``LeaseKeepAlive``: lease and ttl stand in the same places."""
    message = Fields(data)
    return decode_header(message), LeaseGranted(message.signed(2), message.signed(3))


def decode_lease_keys(data: bytes) -> tuple[Header, tuple[int, list[bytes]]]:
    message = Fields(data)
    return decode_header(message), (message.signed(3), message.all_bytes(5))


def decode_nothing(data: bytes) -> tuple[Header, None]:
    """Read an answer that says no more than that it is one."""
    return decode_header(Fields(data)), None


def decode_watch(data: bytes) -> tuple[Header, WatchAnswer]:
    message = Fields(data)
    events = map(Fields, message.all_bytes(11))
    deleted = tuple(_decode_key_value(event.bytes(2)).key for event in events if event.unsigned(1) == _DELETED)
    created, cancelled = message.unsigned(3) != 0, message.unsigned(4) != 0
    answer = WatchAnswer(message.signed(2), created, cancelled, message.signed(5), message.text(6), deleted)
    return decode_header(message), answer


def decode_token(data: bytes) -> tuple[Header, str]:
    message = Fields(data)
    return decode_header(message), message.text(2)


def decode_status(data: bytes) -> tuple[Header, Status]:
    message = Fields(data)
    header = decode_header(message)
    size_bytes, leader_id, raft_term = message.signed(3), message.unsigned(4), message.unsigned(6)
    learner, errors = message.unsigned(10) != 0, tuple(message.all_texts(8))
    return header, Status(header.member_id, message.text(2), size_bytes, leader_id, raft_term, learner, errors)


def decode_members(data: bytes) -> tuple[Header, list[Member]]:
    message = Fields(data)
    members = map(Fields, message.all_bytes(2))
    return decode_header(message), [
        Member(member.unsigned(1), member.text(2), tuple(member.all_texts(4)), member.unsigned(5) != 0)
        for member in members
    ]


def decode_alarms(data: bytes) -> tuple[Header, list[Alarm]]:
    message = Fields(data)
    alarms = map(Fields, message.all_bytes(2))
    return decode_header(message), [
        Alarm(alarm.unsigned(1), _ALARMS.get(alarm.unsigned(2), f"alarm {alarm.unsigned(2)}")) for alarm in alarms
    ]
