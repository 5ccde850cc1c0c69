"""What the holder of a tenure says of it, and the log of that for one election. Pure: nothing here speaks to a store.

Rules of this file
1. A record is its holder's own word, and nobody else writes it. What a successor concludes (that a leader went without a
   word, how long nobody led) is not written down but worked out when the log is read (``told``): a leader that was
   frozen and comes back can still say how it ended, and overwrites nobody's guess.
2. ``join`` of two versions of a record, and of two logs, is the same in whatever order and however often they come, because
   every field only grows: absent to present, a margin to a smaller one, a count to a larger one. So a write that was lost
   and is sent again, or comes late, does no harm.
3. The log has the tenures with the highest tokens, and no more than ``TENURES_MAX``. What is older is not kept.
4. Who lost records before they were written says so with the next that it writes (``Dropped``): what is missing between two
   tenures must not be read as nobody's time.
5. Instants (``_s`` after a verb in the past: ``began_s``) are on the wall clock of the holder's machine. Durations before the
   election (``elect_s``, ``Sighting``) are on its boot clock, and exact.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from tenure.errors import ConfigError

# At 200 to 240 bytes each they fit into what a process remembers of a document (16 KiB), so that a write is one request.
TENURES_MAX: Final = 64
# What a text in a record may have, so that the log is far from what a store takes, whatever its writers are called.
TEXT_MAX: Final = 300
_FORMAT: Final = 1
# No clock shows more, in 30,000 years; and up to there milliseconds can be told apart, as a picture has to.
_SECONDS_MAX: Final = 1e12
_NOTHING: Final = {"refused_count": 0, "advertised": ""}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last word of the store, before this tenure, that another was in office: how long before it, and since when."""

    token: int
    ago_s: float  # from that word to taking office
    watched_s: float  # from the first such word to the last, without any trouble in between


@dataclass(frozen=True, slots=True)
class Dropped:
    """Tenures whose records were lost before they were written: the lowest of their tokens, and the highest.

    One range for all of them, so that it stays small however many they are. What others have recorded may lie in it as well.
    """

    least: int
    most: int

    def may_lie_between(self, one: int, other: int) -> bool:
        """Say whether one of them may have come after the first of two tokens and before the second."""
        return max(one + 1, self.least) <= min(other - 1, self.most)


def covering(one: Dropped, other: Dropped) -> Dropped:
    """Return the range of all of both."""
    return Dropped(min(one.least, other.least), max(one.most, other.most))


@dataclass(frozen=True, slots=True)
class Record:
    """One tenure, as its holder tells it."""

    token: int
    holder: str
    began_s: float
    ttl_s: float | None = None
    elect_s: float | None = None  # from hearing that the office is free to taking it; None: it was free at once
    sighting: Sighting | None = None
    seen_s: float | None = None  # its last renewal that was written down, which is done now and then
    margin_min_s: float | None = None  # the least that was left of the validity when a renewal was answered
    overstay_s: float | None = None  # by how much the body was late when that was told
    refused_count: int = 0  # writes under this token that sinks of its process refused as stale
    ended_s: float | None = None
    reason: str | None = None
    advertised: str = ""
    dropped: Dropped | None = None  # tenures of this election that its process had recorded until then, and lost

    @property
    def key(self) -> tuple[int, str]:
        """What is one tenure: a store that is best effort may give one token to two."""
        return self.token, self.holder


def join(one: Record, other: Record) -> Record:
    """Return what two versions of one record say together."""
    assert one.key == other.key, "two tenures are not one"
    return replace(
        one,
        began_s=min(one.began_s, other.began_s),
        ttl_s=either(max, one.ttl_s, other.ttl_s),
        elect_s=either(min, one.elect_s, other.elect_s),
        sighting=either(_plain_max, one.sighting, other.sighting),
        seen_s=either(max, one.seen_s, other.seen_s),
        margin_min_s=either(min, one.margin_min_s, other.margin_min_s),
        overstay_s=either(max, one.overstay_s, other.overstay_s),
        refused_count=max(one.refused_count, other.refused_count),
        ended_s=either(min, one.ended_s, other.ended_s),
        reason=either(min, one.reason, other.reason),
        advertised=max(one.advertised, other.advertised),
        dropped=either(covering, one.dropped, other.dropped),
    )


def either(choose: Callable[[T, T], T], one: T | None, other: T | None) -> T | None:
    """Return what is chosen of two, or the one that is there."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _plain_max(one: Sighting, other: Sighting) -> Sighting:
    return max(one, other, key=lambda seen: (seen.token, seen.ago_s, seen.watched_s))


Log = tuple[Record, ...]
"""The tenures of one election, by token: the lowest first."""


def merged(log: Log, records: Iterable[Record]) -> Log:
    """Return the log with these records in it, as far as it goes back."""
    found = {one.key: one for one in log}
    for record in records:
        found[record.key] = join(found[record.key], record) if record.key in found else record
    return tuple(found[key] for key in sorted(found))[-TENURES_MAX:]


# As it is kept

_SHORT: Final = {
    "token": "t",
    "holder": "h",
    "began_s": "b",
    "ttl_s": "l",
    "elect_s": "c",
    "sighting": "w",
    "seen_s": "s",
    "margin_min_s": "m",
    "overstay_s": "o",
    "refused_count": "x",
    "ended_s": "e",
    "reason": "r",
    "advertised": "a",
    "dropped": "d",
}


def dumped(log: Log) -> bytes:
    """Return the document of a log."""
    tenures = [_packed(record) for record in log]
    return json.dumps({"format": _FORMAT, "tenures": tenures}, separators=(",", ":")).encode()


def loaded(election: str, text: bytes | None) -> Log:
    """Return the log of a document. Raises ConfigError for one that no ``dumped`` of this version has made.

    Whatever is in it: an instant of four hundred digits would end the thread that records, and one of three hundred the command
    that shows how long ago that is.
    """
    if text is None:
        return ()
    try:
        found = json.loads(text)
        if found["format"] != _FORMAT:
            raise _unknown_form(election)
        return tuple(sorted((_unpacked(one) for one in found["tenures"]), key=lambda record: record.key))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise _unknown_form(election) from error


def _unknown_form(election: str) -> ConfigError:
    return ConfigError("history", election, "is kept in a form that this version does not know")


def _packed(record: Record) -> dict[str, Any]:
    packed: dict[str, Any] = {}
    for name, short in _SHORT.items():
        value = getattr(record, name)
        if isinstance(value, Sighting):
            value = [value.token, value.ago_s, value.watched_s]
        elif isinstance(value, Dropped):
            value = [value.least, value.most]
        if value is not None and value != _NOTHING.get(name):  # A margin of 0 is no default, but what it was.
            packed[short] = value
    return packed


def _unpacked(packed: dict[str, Any]) -> Record:
    values = {one.name: packed[_SHORT[one.name]] for one in fields(Record) if _SHORT[one.name] in packed}
    if "sighting" in values:
        token, ago_s, watched_s = values["sighting"]
        values["sighting"] = Sighting(_int(token), _float(ago_s), _float(watched_s))
    if "dropped" in values:
        least, most = values["dropped"]
        values["dropped"] = Dropped(_int(least), _int(most))
    for name, value in values.items():
        if name.endswith("_s"):
            values[name] = _float(value)
        elif name in {"token", "refused_count"}:
            _int(value)
        elif not isinstance(value, str | Sighting | Dropped):
            raise TypeError(name)
    return Record(**values)


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _float(value: object) -> float:
    if type(value) not in (int, float) or not abs(float(value)) <= _SECONDS_MAX:  # type: ignore[arg-type]
        raise TypeError(value)
    return float(value)  # type: ignore[arg-type]  # It is one of the two.
