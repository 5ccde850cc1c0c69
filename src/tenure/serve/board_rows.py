"""What is known of one election: put together from pictures of the store and from facts, in whichever order they come. Pure.

A picture of the store is what counts for who leads. A fact is what counts for what this process does, which the store cannot know:
that a body still runs though its office is gone, and how close a renewal was.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tenure.errors import Reason
from tenure.facts.kinds import Fact
from tenure.model import Holder, Incumbent
from tenure.serve.board_timeline import Stint, Timeline
from tenure.stores.base import ElectionStatus

MARGINS_KEPT: Final = 60  # two minutes of renewals, with a heartbeat of two seconds
MARKS_KEPT: Final = 20
# A lease that was let go with more than this left was let go by choice. Less may be the time between two pictures.
_BY_CHOICE_S: Final = 0.5
# A renewal is dated by how far it moved the end of the lease. That is right for one renewal, so pictures have to be closer
# together than two renewals are: a quarter of the lease as derived, and less if somebody has chosen another heartbeat.
_PICTURES_PER_LEASE: Final = 6
# A lease that is at less than half at a look was due to be renewed twice since: it is at three quarters when a renewal is due.
_LATE_SHARE: Final = 1 / 2
# A picture may have been taken before what this process has told since: it then shows a leader that we know has left, or none.
_SETTLED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment: ``refused`` for a stale write, ``noted`` for what somebody wants to be seen."""

    at_s: float
    kind: str
    text: str
    token: int | None = None


class Row:
    """One election."""

    def __init__(self, election: str) -> None:
        self.election = election
        self.leader: Incumbent | None = None
        self.since_s: float | None = None  # in office
        self.until_s: float | None = None  # the end of its lease, as the store has it
        self.lease_s = 0.0  # the most that was left of it at any look: close to the ttl
        self.standbys: tuple[str, ...] = ()
        self.resign_asked = False
        self.seen_s: float | None = None
        self.listed = False  # the store knows of it
        self.told_s = 0.0  # when this process last took or left the office
        self.vacant_since_s: float | None = None
        self.standing: set[Holder] = set()  # candidates of this process
        self.leading: dict[int, str] = {}  # tenures whose bodies run here, by token
        self.overstaying: set[int] = set()
        self.margins: deque[float] = deque(maxlen=MARGINS_KEPT)
        self.margins_added = 0  # since somebody has taken them; as many as are kept if all are new
        self.renewals = 0
        self.margins_are_ours = False  # False: read off the store's pictures
        self.refused = 0
        self._refused_heard: Counter[int] = Counter()  # by token: in this process
        self._refused_recorded: dict[int, Mark] = {}  # by token: elsewhere, as is on record
        self.marks: deque[Mark] = deque(maxlen=MARKS_KEPT)
        self.timeline = Timeline()

    @property
    def here(self) -> str:
        """What this process is in it."""
        return "leading" if self.leading else "standing" if self.standing else "none"

    @property
    def lease_is_late(self) -> bool:
        """Whether a renewal should have been seen by now."""
        if self.until_s is None or self.seen_s is None:
            return False
        return self.until_s - self.seen_s < _LATE_SHARE * self.lease_s

    # What the store shows

    def saw(self, status: ElectionStatus, at_s: float) -> bool:
        """Take in a picture of the store; False: nothing in it is news, but that the lease was prolonged."""
        before, was_until_s, was_seen_s = self.leader, self.until_s, self.seen_s
        known = (before, self.standbys, self.resign_asked, self.lease_is_late, self.listed)
        margins = self.margins_added
        self.listed, self.seen_s = True, at_s
        self.standbys = tuple(str(holder) for holder in status.standbys)
        self.resign_asked = status.resign_asked
        if 0 <= at_s - self.told_s < _SETTLED_S:
            return known != (before, self.standbys, self.resign_asked, self.lease_is_late, self.listed)
        found = status.incumbent
        until_s = None if status.remaining_ns is None else at_s + status.remaining_ns / 1e9
        if before is not None and (found is None or found.token != before.token):
            self._is_over(before, at_s, was_until_s)
        if found is None:
            self._is_vacant(at_s)
        elif before is None or found.token != before.token:
            held_s = None if status.held_for_ns is None else at_s - status.held_for_ns / 1e9
            # Seen to begin, if another one was there at the last look. At the first look it may be as old as the hills.
            self._leads(found, held_s if held_s is not None or was_seen_s is None else at_s)
        else:
            self.leader = found  # It may advertise another address.
            self._renewed_in_pictures(until_s, was_until_s, at_s, was_seen_s)
        self.until_s = until_s
        if until_s is not None:
            self.lease_s = max(self.lease_s, until_s - at_s)
        now = (self.leader, self.standbys, self.resign_asked, self.lease_is_late, self.listed)
        return now != known or self.margins_added != margins

    def vanished(self, at_s: float) -> None:
        """Note that the store does not list it any more."""
        self.listed = False
        if self.leader is not None:
            self._is_over(self.leader, at_s, self.until_s)
            self._is_vacant(at_s)
        self.standbys = ()

    def _leads(self, found: Incumbent, from_s: float | None) -> None:
        token = int(found.token)
        self.timeline.began(token, str(found.holder), from_s)
        last = self.timeline.last
        self.leader, self.vacant_since_s, self.lease_s = found, None, 0.0
        self.since_s = last.from_s if last is not None and last.token == token else from_s
        if not self.margins_are_ours:
            self._forget_margins()

    def _is_vacant(self, at_s: float) -> None:
        if self.leader is not None or self.vacant_since_s is None:
            last = self.timeline.last
            ended_s = None if last is None else last.to_s
            self.vacant_since_s = at_s if ended_s is None else min(ended_s, at_s)
        self.leader = self.since_s = self.until_s = None

    def _is_over(self, before: Incumbent, at_s: float, until_s: float | None) -> None:
        let_go = until_s is not None and until_s - at_s > _BY_CHOICE_S
        end_s = at_s if until_s is None else min(at_s, until_s)
        self.timeline.ended(int(before.token), end_s, Reason.RESIGNED.value if let_go else "")

    def _renewed_in_pictures(
        self, until_s: float | None, was_until_s: float | None, at_s: float, was_seen_s: float | None
    ) -> None:
        if self.margins_are_ours or until_s is None or was_until_s is None or was_seen_s is None:
            return
        moved_s = until_s - was_until_s
        if moved_s > _BY_CHOICE_S / 10 and at_s - was_seen_s <= self.lease_s / _PICTURES_PER_LEASE:
            self._margin(max(0.0, self.lease_s - moved_s))

    # What this process tells

    def elected(self, fact: Fact, token: int) -> None:
        """A body of this process begins."""
        holder, self.told_s = fact.holder, fact.at_s
        self.forget_body(holder)
        self.timeline.began(token, str(holder or ""), fact.at_s)
        self.leading[token] = str(holder or "")
        if not self.margins_are_ours:
            self._forget_margins()
            self.margins_are_ours = True
        if self.leader is not None and self.leader.token == token:
            self.since_s = fact.at_s  # Closer than what the pictures show.
        elif holder is not None and (self.leader is None or self.leader.token < token):
            if self.leader is not None:
                self.timeline.ended(int(self.leader.token), fact.at_s)
            self._leads(Incumbent(self.election, holder, token), fact.at_s)  # type: ignore[arg-type]

    def left(self, fact: Fact, token: int, reason: str) -> None:
        """A body of this process has ended."""
        self.told_s = fact.at_s
        self.leading.pop(token, None)
        self.overstaying.discard(token)
        self.margins_are_ours = bool(self.leading)
        self.timeline.ended(token, fact.at_s, reason)
        if self.leader is not None and self.leader.token == token:
            self._is_vacant(fact.at_s)

    def forget_body(self, holder: Holder | None) -> None:
        """Note that a candidate leads no longer with what it had: one candidate has one tenure, whichever facts were lost."""
        for token in [token for token, name in self.leading.items() if name == str(holder)]:
            del self.leading[token]
            self.overstaying.discard(token)

    def died(self, token: int, at_s: float, reason: str) -> None:
        """A process was ended that can tell nobody. Its office stays taken until the store lets it go."""
        self.leading.pop(token, None)
        self.overstaying.discard(token)
        self.timeline.ended(token, at_s, reason)

    def renewed(self, holder: Holder, margin_s: float) -> None:
        """A renewal of this process was answered in time."""
        for token, name in self.leading.items():
            if name == str(holder):
                self.timeline.renewed(token, margin_s)
        self._margin(margin_s)

    def refused_write(self, at_s: float, token: int, text: str) -> None:
        """A sink has refused a token of this election."""
        self.refused += 1
        self._refused_heard[token] += 1
        self.marks.append(Mark(at_s, "refused", text, token))

    def recorded(self, stints: Iterable[Stint]) -> None:
        """Take in what is on record."""
        stints = list(stints)
        self.timeline.recorded(stints)
        for stint, after in pairwise([*stints, None]):
            assert stint is not None
            self._refused_elsewhere(stint, after)
        last = self.timeline.last
        if self.leader is not None and last is not None and last.token == self.leader.token:
            self.since_s = last.from_s if self.since_s is None else self.since_s

    def forget_past(self, at_s: float, why: str) -> None:
        """Forget what others have told of the tenures before, which cannot be shown, and mark that."""
        self.timeline, self._refused_recorded, self.since_s = Timeline(), {}, None
        if self.leader is not None:
            self.timeline.began(int(self.leader.token), str(self.leader.holder), None)
        self.marks.clear()
        self.marks.append(Mark(at_s, "noted", f"What was told of the time before cannot be shown: {why}"))

    def _refused_elsewhere(self, stint: Stint, after: Stint | None) -> None:
        """Mark what sinks of other processes refused. When they did is not on record: not before another led."""
        count, known = stint.refused_count - self._refused_heard[stint.token], self._refused_recorded.get(stint.token)
        at_s = stint.to_s if after is None else after.from_s
        if count <= 0 or at_s is None:
            return
        text = f"{count} write{'s' if count > 1 else ''} with token {stint.token} refused as stale, at {stint.holder}."
        mark = Mark(at_s if known is None else known.at_s, "refused", text, stint.token)
        if mark == known:
            return
        self._refused_recorded[stint.token] = mark
        self.refused += 1 if known is None else 0
        kept = sorted([one for one in self.marks if one is not known] + [mark], key=lambda one: one.at_s)
        self.marks = deque(kept, maxlen=MARKS_KEPT)

    def _forget_margins(self) -> None:
        if self.margins:
            self.margins.clear()
            self.margins_added = MARGINS_KEPT

    def _margin(self, margin_s: float) -> None:
        self.margins.append(round(margin_s, 2))
        self.margins_added += 1
        self.renewals += 1
        if self.leader is not None and not self.margins_are_ours:
            self.timeline.renewed(int(self.leader.token), margin_s)
