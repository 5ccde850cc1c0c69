"""What is in a Lease: client-go's record of an election, and beside it what only our own programs know.

The record is ``spec``, as client-go writes and reads it. ``holderIdentity`` is the holder and the serial of its bid, so that
a lost answer is found again and no two holders share one. What a bid says beyond that stands in one annotation,
``tenure/incumbent``, which names the holder that it is of: client-go leaves annotations as they are, so that of a former
holder may still be there.

``leaseTransitions`` is raised by every tenure. It is the token, unless somebody raised it by hand under a leader, who then
keeps its token in the annotation. client-go raises it whenever another holder than itself was in office. It begins with 0,
and no token is 0: its first two holders are both told as 1, since 2 is for whoever of ours comes after the second.
"""

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tenure.clients.kubernetes.client import Object, part_of
from tenure.model import Bid, Holder, Incumbent, Token

NOTE: Final = "tenure/incumbent"
CLOSED: Final = "tenure/closed"
TRANSITIONS_MAX: Final = 2**31 - 1
# What a Lease that does not say counts for: client-go's own default, so that nobody waits for ever or not at all.
_DURATION_S: Final = 15
# More than this is nonsense: nobody would live to see its end.
DURATION_MAX_S: Final = 7 * 24 * 3600
# As many digits as we write, and no more: Python refuses to read a number of thousands of them.
_OURS: Final = re.compile(r"(?P<host>.+)/(?P<pid>[0-9]{1,10})/(?P<nonce>[^/#]+)#(?P<serial>[0-9]{1,18})", re.DOTALL)
_VERSION: Final = re.compile(r"[0-9]{1,19}")
_TOKEN_MAX: Final = 2**63 - 1
_SHOWN_MAX: Final = 200
_compact: Final = json.JSONEncoder(separators=(",", ":")).encode
# What every Lease says of itself, and so what none of them need keep.
_KIND: Final = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


@dataclass(frozen=True, slots=True)
class Note:
    """What a bid of ours says beside the record."""

    advertised: str = ""
    resign_asked: bool = False
    token: int | None = None  # where it is not what the record counts


_NO_NOTE: Final = Note()


class Lease:
    """One Lease as it was at one version. Reads whatever is there, and fails at nothing: people edit Leases by hand."""

    __slots__ = ("_outside", "duration_s", "identity", "note", "number", "record", "transitions")

    def __init__(self, body: Object) -> None:
        metadata, spec = part_of(body, "metadata"), part_of(body, "spec")
        # Who changed which field takes half of the room, and is kept by the API server if it is left out.
        metadata.pop("managedFields", None)
        # As text it takes a third of the room that it takes as dicts. A process may have thousands, each of which is read as
        # a whole once in a heartbeat.
        self._outside = _compact({name: body[name] for name in body if name not in _KIND and name != "spec"})
        self.record = _compact(spec)  # what a renewal changes; a label that somebody adds is none
        self.number = number_of(str(metadata.get("resourceVersion", "")))  # the version; 0: it is no number
        self.identity = str(spec.get("holderIdentity") or "")  # the holder, as the record names it; empty: nobody
        duration_s, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        self.duration_s = duration_s if type(duration_s) is int and duration_s > 0 else _DURATION_S
        self.transitions = max(1, transitions) if type(transitions) is int else 1
        self.note = _note_in(metadata, self.identity)

    @property
    def body(self) -> Object:
        """The whole, which whoever asks may change."""
        return {**_KIND, **json.loads(self._outside), "spec": json.loads(self.record)}

    @property
    def version(self) -> str:
        """The version as the API server has it, whatever that is. Kept with the rest: it is not asked for in a calm heartbeat."""
        return str(part_of(json.loads(self._outside), "metadata").get("resourceVersion", ""))

    @property
    def is_ours(self) -> bool:
        """Whether a program of ours is in office."""
        return _OURS.fullmatch(self.identity) is not None

    @property
    def serial(self) -> int:
        """The serial of the bid in office; 0: it is none of ours."""
        ours = _OURS.fullmatch(self.identity)
        return int(ours["serial"]) if ours else 0

    @property
    def holder(self) -> Holder:
        ours = _OURS.fullmatch(self.identity)
        if ours is None:
            return Holder(_printable(self.identity[:_SHOWN_MAX]) or "unnamed", 0, "lease")
        return Holder(_printable(ours["host"]), int(ours["pid"]), ours["nonce"])

    def is_by(self, holder: Holder) -> bool:
        """Say whether a bid of this holder is in office."""
        return self.is_ours and self.identity.rpartition("#")[0] == str(holder)

    def is_of(self, bid: Bid) -> bool:
        """Say whether this bid is in office."""
        return self.identity == identity_of(bid)

    def token(self, *, by_version: bool) -> Token:
        """Return the token of the tenure in office."""
        return Token(self.note.token or (by_version and self.number) or self.transitions)

    def incumbent(self, election: str, *, by_version: bool) -> Incumbent:
        advertised = self.note.advertised if self.is_ours else self.holder.host
        return Incumbent(election, self.holder, self.token(by_version=by_version), advertised)

    def instant(self, field: str) -> datetime | None:
        """Return a time that the holder wrote, by its own clock. For people to see; nothing is decided by it."""
        try:
            return datetime.fromisoformat(str(json.loads(self.record)[field]))
        except (KeyError, ValueError):
            return None

    # What is written. Each is a copy with the version that it is based on.

    def taken(self, bid: Bid, transitions: int) -> Object:
        """Return the Lease as a new tenure of ``bid`` has it."""
        body, now = self._copy(), micro_time(datetime.now(UTC))
        body["spec"] |= {
            "holderIdentity": identity_of(bid),
            "leaseDurationSeconds": _whole_s(bid.ttl_ns),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return _noted(body, identity_of(bid), Note(bid.advertise))

    def renewed(self, bid: Bid, note: Note, transitions: int) -> Object:
        """Return the Lease as a tenure has it that goes on. Whatever somebody did to the record meanwhile is put right."""
        body = self._copy()
        now = other_than(body["spec"].get("renewTime"), datetime.now(UTC))
        body["spec"] |= {
            "leaseDurationSeconds": _whole_s(bid.ttl_ns),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return _noted(body, self.identity, note)

    def noted(self, note: Note) -> Object:
        """Return the Lease with another note. It prolongs nothing."""
        return _noted(self._copy(), self.identity, note)

    def left(self) -> Object:
        """Return the Lease as client-go's ReleaseOnCancel writes it: nobody's, for a second, and with its count kept."""
        body, now = self._copy(), micro_time(datetime.now(UTC))
        body["spec"].pop("holderIdentity", None)
        body["spec"] |= {"leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        body["metadata"]["annotations"].pop(NOTE, None)
        return body

    def closed(self, bid: Bid) -> Object:
        """Return the Lease with another version and nothing else: a write based on the old one comes too late then."""
        body = self._copy()
        body["metadata"]["annotations"][CLOSED] = identity_of(bid)
        return body

    def _copy(self) -> Object:
        """Return the whole with a record, metadata and annotations, whatever somebody made of those."""
        body = self.body
        metadata = part_of(body, "metadata")
        return {**body, "metadata": {**metadata, "annotations": part_of(metadata, "annotations")}}


def new_lease(name: str, namespace: str) -> Lease:
    """Return a Lease that is not there yet."""
    metadata = {"name": name, "namespace": namespace}
    return Lease({"metadata": metadata, "spec": {}})


def identity_of(bid: Bid) -> str:
    """Return how a bid is named in a Lease."""
    return f"{bid.holder}#{bid.serial}"


def micro_time(instant: datetime) -> str:
    """Return an instant as a Lease has it, with six digits always: the API server refuses any other number of them."""
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def other_than(before: object, now: datetime) -> str:
    """Return the time of day, or a microsecond more if that stands there already.

    A write that changes nothing is not carried out, and those who watch would not see that somebody is alive.
    """
    said = micro_time(now)
    return said if said != before else micro_time(now + timedelta(microseconds=1))


def number_of(version: object) -> int:
    """Return a version as a number; 0: it is none."""
    return int(version) if isinstance(version, str) and _VERSION.fullmatch(version) else 0


def number_in(body: Object) -> int:
    """Return the version of a Lease as a number; 0: it is none."""
    return number_of(part_of(body, "metadata").get("resourceVersion"))


def _note_in(metadata: dict[str, Any], identity: str) -> Note:
    """Return what the bid in office says beside the record."""
    text = part_of(metadata, "annotations").get(NOTE)
    if text is None:
        return _NO_NOTE
    try:
        fields = json.loads(text)
        if fields["holder"] != identity:
            return _NO_NOTE
        advertised, asked, token = fields.get("advertise", ""), fields.get("resign", False), fields.get("token")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _NO_NOTE
    return Note(
        _printable(advertised) if type(advertised) is str else "",
        asked is True,
        token if type(token) is int and 0 < token <= _TOKEN_MAX else None,
    )


def _whole_s(ttl_ns: int) -> int:
    return math.ceil(ttl_ns / 10**9)


def _noted(body: Object, identity: str, note: Note) -> Object:
    annotations = body["metadata"]["annotations"]
    if note == _NO_NOTE:
        annotations.pop(NOTE, None)
        return body
    fields: dict[str, Any] = {"holder": identity}
    if note.advertised:
        fields["advertise"] = note.advertised
    if note.resign_asked:
        fields["resign"] = True
    if note.token is not None:
        fields["token"] = note.token
    annotations[NOTE] = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return body


def _printable(text: str) -> str:
    """A terminal obeys what it is shown, so nothing but characters that can be seen gets through."""
    return "".join(character if character.isprintable() else "?" for character in text)
