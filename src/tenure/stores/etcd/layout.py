"""How an election looks in etcd: the layout of etcd's own ``concurrency.Election``, ``Mutex`` and of ``etcdctl``.

A candidate is one key ``<name>/<lease id in hex>``, attached to that lease. The key with the smallest create revision
leads, and the create revision is its token: the cluster never gives one out twice, so tokens rise through release,
expiry and deletion. etcd's own libraries take every key below ``<name>/`` for a candidate, also those of an election
``<name>/other``; here a candidate is a key with nothing but a lease id behind the name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tenure.clients.etcd.messages import KeyValue, Range, RangeAnswer, TxnAnswer, prefix_end
from tenure.model import Incumbent, Token
from tenure.stores.entry import Entry, read_entry

_LEASE: Final = re.compile(rb"[0-9a-f]{1,16}\Z")


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of one election."""

    election: str
    prefix: bytes

    @classmethod
    def of(cls, namespace: str, election: str) -> "Names":
        """Return the keys of an election below ``namespace``, which is empty or ends in a slash."""
        return cls(election, f"{namespace}{election}/".encode())

    @property
    def end(self) -> bytes:
        """The first key behind those of this election."""
        return prefix_end(self.prefix)

    def key(self, lease: int) -> bytes:
        """Return the key of the candidate with that lease."""
        return self.prefix + b"%x" % lease

    def has(self, key: bytes) -> bool:
        """Say whether a key is a candidate's, and not one of an election whose name goes on where this one ends."""
        return key.startswith(self.prefix) and _LEASE.match(key, len(self.prefix)) is not None

    def candidates(self, kvs: Iterable[KeyValue]) -> list[KeyValue]:
        """Return the candidates among ``kvs``."""
        return [kv for kv in kvs if self.has(kv.key)]

    def entry(self, kv: KeyValue) -> Entry:
        """Return what a candidate wrote."""
        return read_entry(kv.value, kv.key[len(self.prefix) :].decode("ascii", "replace"))

    def incumbent(self, kv: KeyValue) -> Incumbent:
        """Return the incumbent whose key this is."""
        entry = self.entry(kv)
        return Incumbent(self.election, entry.holder, Token(kv.create_revision), entry.advertised)

    def oldest(self) -> Range:
        """Ask for the first key below the name: the leader's, unless another election is named below this one."""
        return Range(self.prefix, self.end, limit=1, oldest_first=True)

    def before(self, revision: int) -> Range:
        """Ask for the last key below the name that is older than ``revision``: the predecessor's, with the same proviso."""
        return Range(self.prefix, self.end, limit=1, newest_first=True, max_create_revision=revision - 1)

    def everybody(self) -> Range:
        """Ask for all keys below the name, oldest first."""
        return Range(self.prefix, self.end, oldest_first=True)


def found(answer: TxnAnswer, part: int) -> tuple[KeyValue, ...]:
    """Return what the range in this part of a transaction has found."""
    ranged = answer.answers[part]
    assert isinstance(ranged, RangeAnswer), f"a range was asked for, and {ranged} came"
    return ranged.kvs


def looks_like_a_candidate(key: bytes) -> bool:
    """Say whether a key ends in a lease id. Whether it has that lease, etcd 3.7 tells only with its value."""
    return _LEASE.match(key, key.rfind(b"/") + 1) is not None


def split(key: bytes, lease: int) -> bytes | None:
    """Return the name of the election that a key with this lease is a candidate of; None if it is none."""
    name, slash, tail = key.rpartition(b"/")
    return name if slash and name and lease and tail == b"%x" % lease else None
