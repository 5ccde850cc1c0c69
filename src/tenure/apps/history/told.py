"""A log of tenures as people are told it: what each holder said, and what follows from all of it. Pure.

Rules of this file
1. A tenure that has a successor and never said how it ended has ``vanished``. When is not known, and no instant is made up for
   it: it is told between which two instants that was, and by whose clocks.
2. A gap is the time from the end of one tenure to the beginning of the next. By one clock it is measured, by the clocks of two
   machines it is off by as much as they differ (one that comes out negative says only that), and of a leader that vanished
   it is told from what up to what it lies.
3. The lower bound of a vanished leader's end comes from its successor: as long as the store says "taken" to somebody who has
   watched for longer than a dead leader's office stays taken, its holder has renewed within that time.
4. One whose end was recorded, and lost before it was written, has not vanished: its process lives to say so. Why it ended is
   ``unknown``.
5. Between two tenures that are recorded somebody may have led of whom there is no record: the store has named them to the second
   one, or the process that had recorded them says that it lost them. Then there is no gap to tell, whatever the clocks say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from tenure.apps.history.records import Dropped, Log, Record
from tenure.model import Incumbent
from tenure.stores.base import Traits

VANISHED: Final = "vanished"
UNKNOWN: Final = "unknown"


class Clocks(StrEnum):
    """By whose clocks something was measured."""

    ONE = "one"  # of one machine
    TWO = "two"  # of two machines, which may differ


@dataclass(frozen=True, slots=True)
class Span:
    """From what up to what something lies, in seconds; both are the same where it was measured."""

    least_s: float
    most_s: float
    clocks: Clocks

    @property
    def exact_s(self) -> float | None:
        """What was measured; None: it is known only from what up to what it lies."""
        return self.least_s if self.least_s == self.most_s else None


@dataclass(frozen=True, slots=True)
class TenureRecord:
    """One tenure of an election. ``_s`` are seconds: of the wall clock of its holder, if it is when something happened."""

    election: str
    token: int
    holder: str
    began_s: float
    ended_s: float | None  # by its holder's own word; None: in office, vanished, or that word was lost
    reason: str | None  # why it ended, or "vanished" or "unknown"; None: it is in office
    ended_between: Span | None  # of one that vanished, or whose word was lost: the instants between which it ended
    gap: Span | None  # the time without a leader before it; None: it is the first known, or that was not measured
    overlaps: bool  # the one before it ended later than this began: its body overstayed, or their clocks differ
    unrecorded: bool  # somebody led between the one before it and this who keeps no history, or whose record was lost
    elect_s: float | None  # of that time, from hearing that the office was free: on its own clock, and exact
    margin_min_s: float | None
    overstay_s: float | None
    refused_count: int
    ttl_s: float | None
    advertised: str

    @property
    def gap_s(self) -> float | None:
        """The time without a leader before it, if it was measured."""
        return None if self.gap is None else self.gap.exact_s

    @property
    def in_office(self) -> bool:
        """Whether it goes on, as far as was known when this was read."""
        return self.reason is None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it: instants in UTC, durations in seconds."""
        shown: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in {"began_s", "ended_s"}:
                shown[one.name.removesuffix("_s") + "_at"] = instant(value)
                shown[one.name] = _rounded(value)
            elif one.name == "ended_between":
                shown["ended_after"] = None if value is None else instant(value.least_s)
                shown["ended_before"] = None if value is None else instant(value.most_s)
                shown["ended_clocks"] = None if value is None else value.clocks.value
            elif one.name == "gap":
                shown["gap_s"] = _rounded(self.gap_s)
                shown["gap_min_s"] = None if value is None else _rounded(value.least_s)
                shown["gap_max_s"] = None if value is None else _rounded(value.most_s)
                shown["gap_clocks"] = None if value is None else value.clocks.value
            elif one.name == "advertised":
                shown["advertised"] = value or None
            else:
                shown[one.name] = _rounded(value) if one.name.endswith("_s") else value
        return shown | {"in_office": self.in_office}


def told(  # noqa: PLR0913  (each by its name)
    election: str, log: Log, traits: Traits, incumbent: Incumbent | None, now_s: float, *, is_here: bool = False
) -> list[TenureRecord]:
    """Return the tenures of a log, the first first. ``incumbent`` is who is in office at ``now_s``, as the store says.

    ``is_here``: the clock of ``now_s`` is that of every holder in the log.
    """
    found: list[TenureRecord] = []
    before: Record | None = None
    losses = [(_process_of(record), record.dropped) for record in log if record.dropped is not None]
    for record, after in pairwise((*log, None)):
        assert record is not None
        unrecorded = before is not None and _another_between(before, record, losses)
        gap, overlaps = (None, False) if before is None or unrecorded else _gap(before, record, traits)
        reason, between = record.reason, None
        if record.ended_s is None and (after is not None or incumbent is None or incumbent.token != record.token):
            reason = UNKNOWN if _has_lost_its_end(record, losses) else VANISHED
            # If nobody has written down that it succeeded, the store says that this one is no longer there.
            between = (
                _ordered(_last_sign_s(record), now_s, Clocks.ONE if is_here else Clocks.TWO)
                if after is None
                else _end_of(record, after, traits)
            )
        found.append(_told(election, record, reason, between, gap, overlaps=overlaps, unrecorded=unrecorded))
        before = record
    return found


def _told(  # noqa: PLR0913  (each by its name)
    election: str,
    record: Record,
    reason: str | None,
    between: Span | None,
    gap: Span | None,
    *,
    overlaps: bool,
    unrecorded: bool,
) -> TenureRecord:
    return TenureRecord(
        election=election,
        token=record.token,
        holder=record.holder,
        began_s=record.began_s,
        ended_s=record.ended_s,
        reason=reason,
        ended_between=between,
        gap=gap,
        overlaps=overlaps,
        unrecorded=unrecorded,
        elect_s=record.elect_s,
        margin_min_s=record.margin_min_s,
        overstay_s=record.overstay_s,
        refused_count=record.refused_count,
        ttl_s=record.ttl_s,
        advertised=record.advertised,
    )


_Losses = Sequence[tuple[str, Dropped]]  # by which process, and what


def _another_between(before: Record, after: Record, losses: _Losses) -> bool:
    """Say whether the store named another to the second one while it waited, who came after the first; or may have been lost."""
    if after.sighting is not None and after.sighting.token > before.token:
        return True
    if any(lost.may_lie_between(before.token, after.token) for _, lost in losses):
        return True
    # Of one whose end was lost it is not known since when nobody led.
    return before.ended_s is None and _has_lost_its_end(before, losses)


def _has_lost_its_end(record: Record, losses: _Losses) -> bool:
    """Say whether what its own process has lost may be its end. What others have lost is none of its records."""
    process = _process_of(record)
    return any(loser == process and lost.least <= record.token <= lost.most for loser, lost in losses)


def _process_of(record: Record) -> str:
    return record.holder.rpartition("/")[0]


def stays_taken_s(record: Record, traits: Traits) -> float | None:
    """Return for how long an office stays taken after the last renewal of a holder that is dead, as the store promises."""
    if record.ttl_s is None:
        return None
    return record.ttl_s + traits.slack_ns(round(record.ttl_s * 1e9)) / 1e9


def _gap(before: Record, after: Record, traits: Traits) -> tuple[Span | None, bool]:
    """Return the time without a leader between two tenures, and whether the second began before the first had ended."""
    if before.ended_s is not None and before.ended_s <= after.began_s:
        gap_s = after.began_s - before.ended_s
        return Span(gap_s, gap_s, _clocks(before, after)), False
    overlaps = before.ended_s is not None
    # Then its word is of no use here: its body went on for longer than it held the office, or its clock is ahead.
    end = _seen_end(before, after, traits) if overlaps else _end_of(before, after, traits)
    if end is None:
        return None, overlaps
    return Span(max(0.0, after.began_s - end.most_s), max(0.0, after.began_s - end.least_s), end.clocks), overlaps


def _end_of(record: Record, after: Record, traits: Traits) -> Span:
    """Return between which instants a tenure has ended whose holder said nothing of it."""
    seen, clocks = _seen_end(record, after, traits), _clocks(record, after)
    if seen is None:
        return _ordered(_last_sign_s(record), _free_by_s(after), clocks)
    if clocks is Clocks.ONE:  # Then its own last word is on the same clock.
        return _ordered(max(seen.least_s, _last_sign_s(record)), seen.most_s, clocks)
    return seen


def _seen_end(record: Record, after: Record, traits: Traits) -> Span | None:
    """Return the same by the word of its successor alone, on its one clock; None: it was not there to see it."""
    seen, stays_s = after.sighting, stays_taken_s(record, traits)
    if seen is None or stays_s is None or seen.token != record.token or seen.watched_s < stays_s:
        return None
    return _ordered(after.began_s - seen.ago_s - stays_s, _free_by_s(after), Clocks.ONE)


def _free_by_s(after: Record) -> float:
    """Return when the office was free at the latest."""
    return after.began_s - (after.elect_s or 0.0)


def _ordered(earliest_s: float, latest_s: float, clocks: Clocks) -> Span:
    """Return these two, of which the first may be of a clock that is ahead."""
    return Span(min(earliest_s, latest_s), latest_s, clocks)


def _last_sign_s(record: Record) -> float:
    return record.began_s if record.seen_s is None else max(record.began_s, record.seen_s)


def host_of(holder: str) -> str:
    """Return the machine that a holder is on."""
    return holder.rsplit("/", 2)[0]


def _clocks(one: Record, other: Record) -> Clocks:
    return Clocks.ONE if host_of(one.holder) == host_of(other.holder) else Clocks.TWO


def last(tenures: Sequence[TenureRecord], count: int | None) -> list[TenureRecord]:
    """Return the last so many of them; None: all."""
    return list(tenures) if count is None else list(tenures[max(0, len(tenures) - count) :])


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def instant(at_s: float | None) -> str | None:
    """Return an instant of the wall clock in UTC; None: it is not known, or no year that a calendar has."""
    if at_s is None:
        return None
    try:
        return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # A clock, or a hand, that wrote the year 300,000.
        return None
