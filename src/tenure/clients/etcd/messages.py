"""What is asked of etcd and what it answers, as plain values. ``codec.py`` turns them into bytes and back.

Only what a caller here uses is named: etcd's own messages have many more fields.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Put(NamedTuple):
    """Write one key. With a lease, the key dies with it."""

    key: bytes
    value: bytes
    lease: int = 0


class Range(NamedTuple):
    """Read one key, or those from ``key`` to below ``end``. The order is by create revision; without one, by key."""

    key: bytes
    end: bytes = b""
    limit: int = 0
    oldest_first: bool = False
    newest_first: bool = False
    max_create_revision: int = 0
    keys_only: bool = False
    serializable: bool = False  # Answered by one member from its memory, which may be old: decide nothing by it.


class Delete(NamedTuple):
    """Delete one key, or those from ``key`` to below ``end``."""

    key: bytes
    end: bytes = b""


class Compare(NamedTuple):
    """A condition of a transaction: made by ``created``, ``modified``, ``has_value`` and ``value_below``."""

    key: bytes
    target: int  # the numbers of etcd's CompareTarget, and of CompareResult below
    result: int
    operand: int | bytes


_EQUAL, _LESS = 0, 2
CREATE_REVISION, MOD_REVISION, VALUE = 1, 2, 3


def created(key: bytes, revision: int) -> Compare:
    """Hold if the key was created by that revision; 0: if it does not exist."""
    return Compare(key, CREATE_REVISION, _EQUAL, revision)


def modified(key: bytes, revision: int) -> Compare:
    """Hold if that revision was the last to write the key; 0: if it does not exist."""
    return Compare(key, MOD_REVISION, _EQUAL, revision)


def has_value(key: bytes, value: bytes) -> Compare:
    """Hold if the key exists and has that value."""
    return Compare(key, VALUE, _EQUAL, value)


def value_below(key: bytes, value: bytes) -> Compare:
    """Hold if the key exists and its value is lower, compared byte by byte: write numbers with leading zeros."""
    return Compare(key, VALUE, _LESS, value)


class Txn(NamedTuple):
    """If every comparison holds, carry out ``success``, else ``failure``: all of it or nothing. May stand in another one."""

    compare: tuple[Compare, ...]
    success: "tuple[Put | Range | Delete | Txn, ...]"
    failure: "tuple[Put | Range | Delete | Txn, ...]" = ()


class Header(NamedTuple):
    """What etcd says of itself with every answer."""

    cluster_id: int = 0
    member_id: int = 0
    revision: int = 0
    term: int = 0  # which leader of the cluster the member that answers has, counted from the first


class KeyValue(NamedTuple):
    """A key as it stands."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """What a range found; ``count`` is how many there are, whatever the limit."""

    kvs: tuple[KeyValue, ...]
    count: int
    revision: int = 0


class PutDone(NamedTuple):
    """A key was written."""


class DeleteAnswer(NamedTuple):
    """How many keys were deleted."""

    deleted: int


class TxnAnswer(NamedTuple):
    """Which branch was carried out, at which revision, and what each of its operations found."""

    revision: int
    succeeded: bool
    answers: "tuple[PutDone | RangeAnswer | DeleteAnswer | TxnAnswer, ...]"
    term: int = 0  # as in the header


class LeaseGranted(NamedTuple):
    """A lease and the ttl that etcd gave it, which may be longer than was asked."""

    lease: int
    ttl_s: int


class Renewal(NamedTuple):
    """The ttl that a lease has from now on (0: it is gone), and the term in which that was said, as in the header."""

    ttl_s: int
    term: int


class WatchAnswer(NamedTuple):
    """One message of a watch stream; ``deleted_keys`` are the keys of its delete events."""

    watch_id: int
    created: bool
    cancelled: bool
    compact_revision: int
    reason: str
    deleted_keys: tuple[bytes, ...]


class Member(NamedTuple):
    """A member of the cluster as the cluster lists it."""

    member_id: int
    name: str
    client_urls: tuple[str, ...]
    learner: bool


class Status(NamedTuple):
    """What one member says of itself."""

    member_id: int
    version: str
    db_size_bytes: int
    leader_id: int  # 0: it knows of none
    raft_term: int
    learner: bool
    errors: tuple[str, ...]


class Seen(NamedTuple):
    """What one member said of itself, and how long it took to say it."""

    status: Status
    cluster_id: int
    latency_s: float


class Alarm(NamedTuple):
    """A member that has raised an alarm: NOSPACE or CORRUPT."""

    member_id: int
    kind: str


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key behind all that begin with ``prefix``."""
    kept = prefix.rstrip(b"\xff")
    if not kept:
        return b"\x00"  # etcd's word for "to the end"
    return kept[:-1] + bytes((kept[-1] + 1,))
