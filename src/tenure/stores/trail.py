"""What is kept with a document so that a writer whose answer was lost can find out whether its write landed.

Every write has a nonce. Beside the value stand the nonces of the last writes, oldest first, each of which was made on top of
the one before it. So whoever wrote on top of what it had seen finds there either its own nonce, or that another stands
where its own would have had to: then it did not land, and never will, because the version that it named is gone.

    tenure/1 5f0c… 9a41… c27e…\\n
    the value, byte for byte
"""

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tenure.errors import Refused
from tenure.model import Document

# How many writes of others a writer may miss before it can no longer tell what became of its own. It asks again at
# once, and 32 of them are 544 bytes.
TRAIL_MAX: Final = 32
# What a value may have. Consul takes 512 KiB, ZooKeeper and a Kubernetes object (in Base64) 1 MiB, etcd 1.5 MiB; and whatever
# is read and written as a whole, again at every conflict, should not be large.
VALUE_BYTES_MAX: Final = 256 * 1024
_FORM: Final = re.compile(rb"tenure/1((?: [0-9a-f]{16}){1,%d})\n" % TRAIL_MAX)


class Fate(StrEnum):
    """What became of a write whose answer was lost."""

    LANDED = "landed"
    LOST = "lost"  # and it can never land any more
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """A document's value, and who wrote it: the nonces of its last writes, oldest first."""

    value: bytes
    trail: tuple[str, ...]

    def pack(self) -> bytes:
        """Return what the store keeps."""
        return f"tenure/1 {' '.join(self.trail)}\n".encode() + self.value


def follow(seen: Entry | None, value: bytes) -> Entry:
    """Return the entry that puts ``value`` on top of ``seen``, under a nonce that nobody has used."""
    before = () if seen is None else seen.trail[1 - TRAIL_MAX :]
    return Entry(value, (*before, secrets.token_hex(8)))


def unpack(address: str, key: str, document: Document) -> Entry:
    """Return the entry of what a store keeps under ``key``. Raises Refused for what was not written by ``pack``."""
    form = _FORM.match(document.value)
    if form is None:
        rule = f"what is kept under {key!r} was written by another program; delete it, or use another key"
        raise Refused(address, "fetch", rule)
    return Entry(document.value[form.end() :], tuple(form[1].decode().split()))


def fate_of(written: Entry, seen: Entry | None, found: Entry | None) -> Fate:
    """Say what became of ``written`` on top of ``seen``, where ``found`` is what is there now at another version."""
    if found is None:  # Deleted by hand, with whatever had been written.
        return Fate.LOST
    if written.trail[-1] in found.trail:
        return Fate.LANDED
    if seen is None:
        return Fate.LOST if len(found.trail) < TRAIL_MAX else Fate.UNKNOWN
    return Fate.LOST if seen.trail[-1] in found.trail else Fate.UNKNOWN
