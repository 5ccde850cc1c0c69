"""The cohort: candidates that lead, and that were last renewed by one and the same round. Changes no state of an election.

Ten thousand leaders of one process that have the same timing and store would take the same two steps in every heartbeat:
it is time to renew; it was renewed. While nothing else happens to them, the cohort takes these steps for all of them: it
has one date of sending, one validity and one alarm.

Rules of this file (the numbers are those of DESIGN §1)
 1. Validity is dated from the send: from when the round began, never from its answer.
 3. Whatever else happens to a member takes it out first, with the validity of that moment (``Candidate.step`` does so by
    itself). No later round can prolong it.
 7. Unknown is an outcome, of each of them: a round that fails, or takes too long, is left to the members' own machines,
    which have then asked when it began, and may still hear its answer.
 8. Belief is a comparison: an answer that comes when a member should have stopped is left to the members' machines, too.
    They look at the time first.

So a member's machine is at any time where it would be if it had taken each of these steps itself, as soon as anybody
looks. Drivers call ``begin`` when ``due_at`` has come, ``late`` when ``patience_ns`` have passed without an answer, and
``answered`` or ``failed`` once, in this order.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tenure.core.asking import NEVER
from tenure.core.effects import Renew
from tenure.errors import ClockError
from tenure.model import Bid, Grant
from tenure.timing import Timing

if TYPE_CHECKING:
    from tenure.core.candidate import Candidate

_MARGINS_MAX: Final = 64


class Member(Protocol):
    """What a driver has for each candidate."""

    @property
    def candidate(self) -> "Candidate":
        """The machine."""
        ...


M = TypeVar("M", bound=Member)


class Asked(NamedTuple, Generic[M]):
    """One renewal with an attempt of its own, and who waits for its outcome."""

    effect: Renew
    member: M


class Cohort(Generic[M]):
    """Those who are renewed together. Used by one driver, but ``valid_until`` and margins are read from any thread."""

    __slots__ = ("_gone", "_margins", "_timing", "apart", "asked_at", "attempt_max", "due_at", "heard_at", "members", "round_count", "valid_until")  # fmt: skip

    def __init__(self, timing: Timing) -> None:
        self.members: dict[Bid, M] = {}
        self.asked_at: int | None = None  # when the round began that is under way
        self.heard_at = 0  # when the last round was answered
        self.valid_until = 0
        self.due_at = NEVER  # when the next round should begin
        self.round_count = 0
        self.attempt_max = 0  # the largest number that any of them has given to an attempt
        self._timing = timing
        self.apart: list[Asked[M]] = []  # who waits for the round under way, but is no member
        self._gone: list[Grant] = []  # who left between rounds
        self._margins: tuple[tuple[int, int], ...] = ()  # of later rounds the larger: a round, and what was left then

    @property
    def now(self) -> int:
        """The instant of its last step."""
        return self.heard_at if self.asked_at is None else self.asked_at

    @property
    def patience_ns(self) -> int:
        """How long to wait for an answer: the shortest time after which a candidate would ask again by itself."""
        return self._timing.attempt_timeout_ns * 3 // 4

    def least_margin_ns(self, since: int) -> int | None:
        """Return the least that was left of the validity in any round after that many; None: there was none."""
        return next((left_ns for number, left_ns in self._margins if number > since), None)

    # A round

    def begin(self, now: int) -> list[M]:
        """Begin a round; returns who cannot wait for its answer, no longer members. They may ask with the newcomers."""
        assert self.asked_at is None, "one round at a time"
        self._check_clock(now)
        out = list(self.members.values())
        if now + self.patience_ns < self._stop_at:
            out = []
        self._dissolve(out)
        self.asked_at = now
        return out

    def ask(self, effect: Renew, member: M) -> None:
        """Have one who is not a member be renewed by the round that has just begun."""
        self.apart.append(Asked(effect, member))

    def late(self) -> list[Asked[M]]:
        """The answer takes long: return who waits for it. From now on all of them look after the time themselves."""
        self._dissolve(list(self.members.values()))
        return self.apart

    def answered(self, now: int, ended: Collection[Bid]) -> list[Asked[M]]:
        """Take the answer: all were renewed but those ``ended``. Returns who must hear it one by one."""
        assert self.asked_at is not None, "a round is answered once"
        self._check_clock(now)
        self._dissolve([self.members[bid] for bid in ended if bid in self.members])
        if now >= self._stop_at:
            self._dissolve(list(self.members.values()))
        elif self.members:
            self._note_margin(now)
        self._date(self.asked_at, now)
        return self._over()

    def failed(self) -> list[Asked[M]]:
        """Nothing good came of the round. Returns who must hear that one by one: all."""
        self._dissolve(list(self.members.values()))
        return self._over()

    # Members

    def admit(self, member: M) -> bool:
        """Take in who was renewed by the last round, if nothing else sets it apart."""
        grant = member.candidate.join(self)
        if grant is None:
            return False
        self.members[grant.bid] = member
        return True

    def left(self, grant: Grant, attempt: int) -> None:
        """Hear from a candidate that it has left. If a round is under way, ``attempt`` is what that is to it."""
        member = self.members.pop(grant.bid)
        if self.asked_at is None:
            self._gone.append(grant)
        else:
            self.apart.append(Asked(Renew(attempt, grant), member))

    def gone(self) -> list[Grant]:
        """Return whose grants are no longer to be renewed, since this was last asked."""
        gone, self._gone = self._gone, []
        return gone

    # Inside

    @property
    def _stop_at(self) -> int:
        return self.valid_until - self._timing.grace_ns

    def _date(self, sent_at: int, now: int) -> None:
        self.heard_at = now
        self.round_count += 1
        self.due_at = self._timing.renew_at(sent_at)
        self.valid_until = self._timing.valid_until(sent_at)

    def _over(self) -> list[Asked[M]]:
        apart, self.apart = self.apart, []
        self.asked_at = None
        return apart

    @staticmethod
    def _dissolve(members: list[M]) -> None:
        for member in members:
            member.candidate.leave()

    def _note_margin(self, now: int) -> None:
        left_ns = max(0, self.valid_until - now)
        margins = [*(one for one in self._margins if one[1] < left_ns), (self.round_count + 1, left_ns)]
        # Some are then told of a margin that was before their time, and smaller than theirs.
        if len(margins) > _MARGINS_MAX:
            margins = [(later, least) for (_, least), (later, _) in pairwise(margins[:2])] + margins[2:]
        self._margins = tuple(margins)

    def _check_clock(self, now: int) -> None:
        if now < self.heard_at:
            raise ClockError(now, self.heard_at)


AnyCohort = Cohort[Any]
