"""What a recorder makes of the facts that it hears: records of tenures, and which of them should be written now. Pure.

A renewal is heard of in each heartbeat, of ten thousand elections in one fact. Its margin is folded into the record, and goes with
its next writing: when the tenure ends; after a minute; and whenever it has lasted for twice as long as then. So of one that vanishes
it is known how it was doing, and a tenure of a year was written twenty times for that.

Facts beyond a queue are never heard, and nobody knows which they were. When that was is known (``missed``): the next tenure of each
election says that others may be lost since the last that was heard of. And of a candidate that is heard of in another tenure the one
before is over, though nobody has said how.
"""

from collections import OrderedDict, deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from tenure.apps.history.records import TEXT_MAX, Dropped, Record, Sighting
from tenure.errors import redact
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact
from tenure.model import Holder

KINDS: Final = (
    what.Stood,
    what.Waiting,
    what.Woken,
    what.Elected,
    what.Renewed,
    what.Overstayed,
    what.Left,
    what.Withdrew,
    what.StoreFailed,
    what.RefusedStale,
)
_REFRESH_AFTER_NS: Final = 60 * 10**9
# Of more tenures than this only beginning and end are written: what people look at one by one are few.
_REFRESHED_MAX: Final = 100
_BEGINNINGS: Final = (what.Stood, what.Waiting, what.Woken, what.Elected)
# Tenures that are over and may still be refused a write: a stale one comes late, and seldom long after.
_PAST_MAX: Final = 1000
# Elections of which it is known who led last here. Of others everything before a tenure may be lost, once facts were missed.
_LAST_MAX: Final = 20_000
_HOLES_MAX: Final = 20  # Of more the oldest are told as one: then more may be lost than was.


class _Last(NamedTuple):
    """The last tenure of an election here that was heard of."""

    token: int
    heard_ns: int
    is_over: bool


_NOBODY: Final = _Last(0, 0, is_over=True)


@dataclass(slots=True, eq=False)
class _Candidate:
    """What is known of one candidate of this process."""

    election: str
    holder: Holder
    ttl_s: float | None = None
    taken_by: int | None = (
        None  # the token for which the store last said "taken"; None: it did not, or there was trouble
    )
    first_told_ns: int = 0  # when it first said so of that token
    last_told_ns: int = 0
    woken_ns: int | None = None
    record: Record | None = None  # of its tenure, while it has one
    began_ns: int = 0
    refresh_ns: int = 0  # when what was folded is written
    margin_min_ns: int | None = None
    renewed_s: float | None = None
    serial: int | None = None  # of the bid that it leads by, once that was renewed
    is_unwritten: bool = False  # whether anything was folded since it was last told

    def begin(self, fact: Fact, token: int, dropped: Dropped | None) -> None:
        """Take office."""
        self.record = Record(
            token=token,
            holder=str(self.holder)[-TEXT_MAX:],
            began_s=_rounded(fact.at_s),
            ttl_s=self.ttl_s,
            elect_s=None if self.woken_ns is None else _seconds(fact.at_ns - self.woken_ns),
            sighting=self._sighting(fact.at_ns),
            dropped=dropped,
        )
        self.began_ns, self.refresh_ns = fact.at_ns, fact.at_ns + _REFRESH_AFTER_NS
        self.margin_min_ns = self.renewed_s = self.serial = self.taken_by = self.woken_ns = None

    def current(self) -> Iterator[tuple[str, Record]]:
        """Yield the record of its tenure with what was folded since, if it has one."""
        if self.record is not None:
            self.is_unwritten = False
            margin_s = None if self.margin_min_ns is None else _seconds(self.margin_min_ns)
            seen_s = None if self.renewed_s is None else _rounded(self.renewed_s)
            yield self.election, replace(self.record, margin_min_s=margin_s, seen_s=seen_s)

    def _sighting(self, now_ns: int) -> Sighting | None:
        """Return what it has seen of who was there before it."""
        if self.taken_by is None:
            return None
        ago_ns, watched_ns = now_ns - self.last_told_ns, self.last_told_ns - self.first_told_ns
        return Sighting(self.taken_by, _seconds(ago_ns), _seconds(watched_ns))


@dataclass(slots=True, eq=False)
class _Past:
    """A tenure that is over."""

    election: str
    record: Record
    is_unwritten: bool = False


class Notes:
    """Of all candidates of one store in this process. Used by one thread at a time."""

    def __init__(self, store: str, elections: Container[str] | None = None, identity: str = "") -> None:
        self._store, self._elections, self._identity = store, elections, identity
        self._candidates: dict[
            str, list[_Candidate]
        ] = {}  # Most elections have one here, and a name is quickly hashed.
        self._leading: dict[
            int, list[_Candidate]
        ] = {}  # by token: where each election counts for itself, some are equal
        self._past: dict[int, list[_Past]] = {}  # likewise
        self._past_in_order: deque[_Past] = deque()  # the oldest first
        self._last: OrderedDict[str, _Last] = OrderedDict()  # by election, who was elected longest ago first
        self._holes: list[tuple[int, int]] = []  # from when to when facts were missed, the oldest first

    def hear(self, fact: Fact) -> Iterator[tuple[str, Record]]:
        """Take note of a fact, and yield what is to be written because of it: an election and a record of it."""
        if isinstance(fact.what, what.RefusedStale):  # A sink knows a fence, and not where its election is held.
            yield from self._refused(fact.what)
        elif fact.store != self._store:
            return
        elif isinstance(fact.what, what.Renewed):
            yield from self._renewed(fact.what, fact)
        elif fact.holder is not None and (self._elections is None or fact.election in self._elections):
            one = self._candidate(fact.election, fact.holder, may_be_new=isinstance(fact.what, _BEGINNINGS))
            if one is not None:
                _wait_on(one, fact)
                yield from self._of_tenure(one, fact)

    def missed(self, from_ns: int, to_ns: int) -> None:
        """Take note of it that facts were lost which were published between these instants: which ones, nobody knows."""
        if self._holes and from_ns <= self._holes[-1][1]:
            from_ns, _ = self._holes.pop()
        self._holes.append((from_ns, to_ns))
        if len(self._holes) > _HOLES_MAX:
            self._holes[:2] = [(self._holes[0][0], self._holes[1][1])]

    def unwritten(self) -> Iterator[tuple[str, Record]]:
        """Yield the records of which there is more to say than was told: by renewals, and by writes that were refused."""
        for one in (one for kept in self._leading.values() for one in kept):
            if one.is_unwritten:
                yield from one.current()
        for past in self._past_in_order:
            if past.is_unwritten:
                past.is_unwritten = False
                yield past.election, past.record

    def _of_tenure(self, one: _Candidate, fact: Fact) -> Iterator[tuple[str, Record]]:
        match fact.what:
            case what.Elected(token):
                self._lose_sight(one)
                one.begin(fact, token, self._lost_before(fact, token))
                self._leading.setdefault(token, []).append(one)
                self._note_last(one.election, _Last(token, fact.at_ns, is_over=False))
                yield from one.current()
            case what.Overstayed(token, late_by_ns) if one.record is not None and one.record.token == token:
                one.record = replace(one.record, overstay_s=_seconds(late_by_ns))
                yield from one.current()
            case what.Left(token, reason) if one.record is not None and one.record.token == token:
                one.record = replace(one.record, ended_s=_rounded(fact.at_s), reason=reason.value)
                for election, record in one.current():
                    self._remember(_Past(election, record))
                    yield election, record
                self._end(one, token)
                if self._last.get(one.election, _NOBODY).token == token:
                    self._last[one.election] = _Last(token, fact.at_ns, is_over=True)
            case what.Left(token) if one.record is not None and one.record.token < token:
                self._lose_sight(one)
            case what.Withdrew():
                self._lose_sight(one)
                self._forget(one)

    def _candidate(self, election: str, holder: Holder, *, may_be_new: bool) -> _Candidate | None:
        for one in self._candidates.get(election, ()):
            if one.holder == holder:
                return one
        if not may_be_new:  # What is said of one that has withdrawn must not be kept for ever.
            return None
        self._candidates.setdefault(election, []).append(_Candidate(election, holder))
        return self._candidates[election][-1]

    def _forget(self, one: _Candidate) -> None:
        _take_out(self._candidates, one.election, one)

    def _end(self, one: _Candidate, token: int) -> None:
        one.record = None
        _take_out(self._leading, token, one)

    def _lose_sight(self, one: _Candidate) -> None:
        """Take its tenure for one that is over, if it has one: its end was missed. A write may still be refused to it."""
        is_unwritten = one.is_unwritten
        for election, record in one.current():
            self._remember(_Past(election, record, is_unwritten))
            self._end(one, record.token)

    def _lost_before(self, fact: Fact, token: int) -> Dropped | None:
        """Return of which tenures of its election it may be that they were held here, and never heard of."""
        last = self._last.get(fact.election, _NOBODY)
        if not any(from_ns <= fact.at_ns and last.heard_ns <= to_ns for from_ns, to_ns in self._holes):
            return None
        least = last.token + 1 if last.is_over else last.token
        return Dropped(least, token - 1) if least < token else None

    def _note_last(self, election: str, last: _Last) -> None:
        self._last[election] = last
        self._last.move_to_end(election)
        if len(self._last) > _LAST_MAX:
            self._last.popitem(last=False)

    def _renewed(self, renewed: what.Renewed, fact: Fact) -> Iterator[tuple[str, Record]]:
        margin_ns, candidates, at_s, at_ns = renewed.margin_ns, self._candidates, fact.at_s, fact.at_ns
        are_few = len(self._leading) <= _REFRESHED_MAX
        for bid in renewed.bids:
            for one in candidates.get(bid.election, ()):
                if one.record is not None and (one.holder is bid.holder or one.holder == bid.holder):
                    if one.serial != bid.serial:
                        if one.serial is not None:  # It is by another tenure that this one is in office.
                            self._lose_sight(one)
                            continue
                        one.serial = bid.serial
                    if one.margin_min_ns is None or margin_ns < one.margin_min_ns:
                        one.margin_min_ns = margin_ns
                    if one.renewed_s is None and bid.advertise:
                        one.record = replace(one.record, advertised=redact(bid.advertise)[:TEXT_MAX])
                    one.renewed_s, one.is_unwritten = at_s, True
                    if are_few and at_ns >= one.refresh_ns:
                        one.refresh_ns = at_ns + (at_ns - one.began_ns)
                        yield from one.current()

    def _refused(self, refused: what.RefusedStale) -> Iterator[tuple[str, Record]]:
        """Count it for the tenure whose token it was, if there is but one of that token and fence here."""
        leading, past = self._leading.get(refused.token, []), self._past.get(refused.token, [])
        if refused.fence:  # Not every sink says. Where each election counts for itself, many have had a token 7.
            election = self._election_of(refused.fence)
            leading = [one for one in leading if one.election == election]
            past = [one for one in past if one.election == election]
        if len(leading) + len(past) != 1:
            return
        if leading:
            record = leading[0].record
            assert record is not None
            leading[0].record = record = replace(record, refused_count=record.refused_count + 1)
            leading[0].is_unwritten = True
            if _is_worth_telling(record.refused_count):
                yield from leading[0].current()
            return
        past[0].record = replace(past[0].record, refused_count=past[0].record.refused_count + 1)
        past[0].is_unwritten = not _is_worth_telling(past[0].record.refused_count)
        if not past[0].is_unwritten:
            yield past[0].election, past[0].record

    def _election_of(self, fence: str) -> str | None:
        """Return which election of this store a fence is of; None: it is of another store."""
        prefix = f"{self._identity}/"
        return fence[len(prefix) :] if fence.startswith(prefix) else None

    def _remember(self, past: _Past) -> None:
        self._past.setdefault(past.record.token, []).append(past)
        self._past_in_order.append(past)
        if len(self._past_in_order) > _PAST_MAX:  # Not by tokens: locks of ever new names may all have had a token 1.
            oldest = self._past_in_order.popleft()
            _take_out(self._past, oldest.record.token, oldest)


def _wait_on(one: _Candidate, fact: Fact) -> None:
    """Take note of how a candidate waits for office."""
    match fact.what:
        case what.Stood(ttl_ns):
            one.ttl_s = _seconds(ttl_ns)
        case what.Waiting(incumbent):
            one.woken_ns = None
            token = None if incumbent is None else incumbent.token
            if token != one.taken_by:
                one.taken_by, one.first_told_ns = token, fact.at_ns
            one.last_told_ns = fact.at_ns
        case what.Woken():
            one.woken_ns = fact.at_ns
        case what.StoreFailed():
            one.taken_by = (
                None  # An engine that was away may have kept a dead leader's office for longer than it promises.
            )


def _is_worth_telling(count: int) -> bool:
    """Say whether a count is a power of two. A leader that goes on writing is refused a thousand times a second."""
    return count & (count - 1) == 0


K = TypeVar("K")
V = TypeVar("V")


def _take_out(kept: dict[K, list[V]], key: K, one: V) -> None:
    if one in kept.get(key, ()):
        kept[key].remove(one)
        if not kept[key]:
            del kept[key]


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 6)


def _rounded(at_s: float) -> float:
    return round(at_s, 3)
