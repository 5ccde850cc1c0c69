"""What a candidate writes beside its place in a queue that it shares with programs of others.

Engines with a queue of keys or nodes (etcd, ZooKeeper) let every candidate attach a text. Ours says who stands, with
which bid, and where it can be reached, as one line of JSON that people and other programs can read. Theirs may say
anything, or nothing.
"""

import json
from dataclasses import dataclass, replace
from typing import Final

from tenure.model import Bid, Holder

# More than this of a stranger's text is of no use to anybody who is told of it.
_SHOWN_MAX: Final = 200
# Made once: ``json.dumps`` would make another with every claim.
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One candidate's text, read."""

    holder: Holder
    serial: int | None  # None: not written by us
    advertised: str
    resign_asked: bool = False
    token: int = 0  # where the engine forgets it when the text is written anew; 0: it has not been

    def asked_to_resign(self) -> "Entry":
        """Return the same with a word that its holder should leave."""
        return replace(self, resign_asked=True)

    def encode(self) -> bytes:
        """Return it as it is written."""
        fields: dict[str, object] = {"holder": str(self.holder), "serial": self.serial, "advertise": self.advertised}
        if self.resign_asked:
            fields["resign"] = True
        if self.token:
            fields["token"] = self.token
        return _JSON.encode(fields).encode()


def entry_of(bid: Bid) -> Entry:
    """Return what the candidate of ``bid`` writes."""
    return Entry(bid.holder, bid.serial, bid.advertise)


def read_entry(text: bytes, place: str) -> Entry:
    """Return what somebody wrote; ``place`` names a stranger among those who wrote the same.

    Never fails: whoever may write to the engine may write anything. A stranger's whole text is also its address, because
    that is what such programs mostly write there.
    """
    return _ours(text) or _theirs(text, place)


def _ours(text: bytes) -> Entry | None:
    try:
        fields = json.loads(text)
        host, pid, nonce = fields["holder"].rsplit("/", 2)
        serial, advertised, asked = fields["serial"], fields["advertise"], fields.get("resign", False)
        token = fields.get("token", 0)
        holder = Holder(_printable(host), int(pid), _printable(nonce))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if type(serial) is not int or type(advertised) is not str or type(asked) is not bool or type(token) is not int:
        return None
    return Entry(holder, serial, _printable(advertised), asked, token)


def _theirs(text: bytes, place: str) -> Entry:
    shown = _printable(text[:_SHOWN_MAX].decode("utf-8", "replace"))
    return Entry(Holder(shown or "unnamed", 0, _printable(place)), None, shown)


def _printable(text: str) -> str:
    """A terminal obeys what it is shown, so nothing but characters that can be seen gets through."""
    return "".join(character if character.isprintable() else "?" for character in text)
