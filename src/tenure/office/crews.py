"""A crew: the seats of one store and timing that renew as a cohort, and the store's own list of them.

The cohort decides (``core/cohort.py``). A crew keeps the store's list in step with it, and looks after the seats: nobody
steps them while they are calm.
"""

from itertools import islice
from typing import Final, Protocol

from tenure.core.candidate import Candidate
from tenure.core.cohort import Asked, Cohort
from tenure.core.effects import Renew
from tenure.model import Bid, Ended, Grant
from tenure.stores.base import CanRenewTogether, Group, No, Roll, Unknown
from tenure.stores.groups import group_of
from tenure.timing import Timing

Renewal = Grant | Ended | No | Unknown
# In so many heartbeats every seat is looked at once.
_LOOK_AFTER_ROUNDS: Final = 16


class Renewing(Protocol):
    """A seat, as those know it who renew for it."""

    renews_at: int | None  # with which round it renews; None: with none, and it looks after the time itself
    crew: "Crew | None"  # in whose cohort it is, or was

    @property
    def candidate(self) -> Candidate:
        """The machine."""
        ...

    def renewal(self, now: int) -> Renew | None:
        """Let time pass up to ``now``, and return the renewal that is due then; None: there was something else to do."""
        ...

    def renewed(self, effect: Renew, outcome: Renewal, asked_at: int) -> None:
        """Hear what became of a renewal that was asked for at ``asked_at``."""
        ...

    def asked_to_resign(self) -> None:
        """Hear that somebody asks it to leave."""
        ...

    def look_after_time(self) -> None:
        """Have an alarm of your own from now on, if nobody else has one for you."""
        ...

    def look_after_tenant(self) -> None:
        """See whether there is still somebody on it who can say that the body has ended."""
        ...


class Crew:
    """Those who renew as one. Used on one event loop."""

    __slots__ = ("_bids", "_looked_at", "_passing", "cohort", "group", "store", "timing")

    def __init__(self, store: CanRenewTogether, timing: Timing, *, passing: bool = False) -> None:
        """``passing``: it is there for one round, and nobody stays in it."""
        self.store, self.timing, self._passing = store, timing, passing
        self.cohort: Cohort[Renewing] = Cohort(timing)
        self.group: Group = group_of(store, self.cohort.patience_ns)
        self._looked_at = 0
        self._bids: tuple[Bid, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it, nor waits for its round."""
        return not self.cohort.members and self.cohort.asked_at is None

    def bids(self) -> tuple[Bid, ...]:
        """Return who is in it; the very same for as long as nobody comes or goes: thousands of facts may wait that have it."""
        bids = tuple(self.cohort.members)
        if bids != self._bids:
            self._bids = bids
        return self._bids

    def enlist(self) -> bool:
        """Have the store's list be that of who renews now. False: nobody does."""
        for grant in self.cohort.gone():
            self.group.discard(grant)
        for one in self.cohort.apart:
            self.group.add(one.effect.grant)
        return bool(self.cohort.members or self.cohort.apart)

    def heard(self, outcome: Roll | No | Unknown, now: int) -> list[Asked[Renewing]]:
        """Take the answer; returns who must be told one by one, by ``tell``."""
        if not isinstance(outcome, Roll):
            return self.cohort.failed()
        return self.cohort.answered(now, {*outcome.ended, *outcome.missed} if outcome.missed else outcome.ended)

    def tell(self, one: Asked[Renewing], outcome: Roll | No | Unknown, asked_at: int) -> None:
        """Tell a seat what came of its renewal, and take it in if it is like the others now."""
        (effect, seat), grant = one, one.effect.grant
        if not isinstance(outcome, Roll):
            seat.renewed(effect, outcome, asked_at)
        elif grant.bid in outcome.ended:
            seat.renewed(effect, Ended(grant.bid, grant.token), asked_at)
        elif grant.bid in outcome.missed:
            seat.renewed(effect, outcome.missed[grant.bid], asked_at)
        else:
            seat.renewed(effect, grant, asked_at)
            if not self._passing and self.cohort.admit(seat):
                seat.crew = self
                seat.look_after_time()

    def strike_off(self, waiting: list[Asked[Renewing]]) -> None:
        """Have the store renew none of these any more who are not in the cohort, whether or not they could be told."""
        for one in waiting:
            if one.effect.grant.bid not in self.cohort.members:
                self.group.discard(one.effect.grant)

    def look_after(self, outcome: Roll | No | Unknown) -> None:
        """Do for seats what nobody else does while they are calm: not for all of them every time."""
        members = self.cohort.members
        for grant in outcome.asked if isinstance(outcome, Roll) else ():
            if grant.bid in members:
                members[grant.bid].asked_to_resign()
        count = len(members)
        first = self._looked_at if self._looked_at < count else 0
        self._looked_at = first + count // _LOOK_AFTER_ROUNDS + 1
        for seat in list(islice(members.values(), first, self._looked_at)):
            seat.look_after_tenant()
