"""The mistakes that mutants make: each a subclass of one shipped or simulated part with a method or two overridden.

What each does wrong stands beside its name in ``mutants``.
"""

from collections.abc import Collection

from tenure.core.asking import NEVER
from tenure.core.candidate import Candidate
from tenure.core.cohort import Asked, Cohort
from tenure.core.effects import Publish, Release, StartBody
from tenure.core.events import Changed, Deposed, Failed, Granted, Sealed, Tick
from tenure.core.table import IDLE, LEADING, STOPPING
from tenure.errors import Reason, StaleToken
from tenure.model import Bid, Ended, Grant, Token
from tenure.sim.candidacies import Candidacy
from tenure.sim.clocks import SimClock
from tenure.sim.services import Seen, StoreNode, WorkerNode
from tenure.sinks.fence import Fence
from tenure.stores.memory import MemoryEngine


class DatedFromReceipt(Candidate):
    def _date(self, sent_at: int) -> int:
        return super()._date(max(sent_at, self._now))


class NoDriftMargin(Candidate):
    def _date(self, sent_at: int) -> int:
        return sent_at + self._timing.ttl_ns


class NoSeal(Candidate):
    def _seal(self) -> None:
        self.state = LEADING
        self._deadline = self._held.valid_until - self._timing.grace_ns
        self._out.append(StartBody(self._held.grant.token))


class ResumedTenure(Candidate):
    def _stray_grant(self, event: Granted) -> None:
        if self.state is STOPPING and self.held and self.held.reason in (Reason.LAPSED, Reason.STORE_GONE):
            self.state, self.held.reason = LEADING, None
            self._renewed(event)
        else:
            super()._stray_grant(event)


class ReleaseBeforeEnd(Candidate):
    def _stop(self, reason: Reason) -> None:
        super()._stop(reason)
        self._out.append(Release(self._held.grant.bid))


class LateGrantKept(Candidate):
    def _stray_grant(self, event: Granted) -> None:
        if self.state is IDLE and event.grant.token > self._highest_token:
            self._bid = event.grant.bid
            self._asking.open(event.attempt, self._now)
            self._take(event)
        else:
            super()._stray_grant(event)


class UnknownIsRefused(Candidate):
    """A claim without an answer counts as never made: it is made again, and the first one's grant is handed back."""

    def _ask_failed(self, event: Failed) -> None:
        super()._ask_failed(Failed(event.attempt, definite=True))

    def _renewed(self, event: Granted) -> None:
        if event.attempt in self._asking:
            super()._renewed(event)
        else:
            self._out.append(Release(event.grant.bid))


class NeverReleases(Candidate):
    def _give_up_bid(self) -> None:
        super()._give_up_bid()
        self._out.pop()


class NeverRenews(Candidate):
    def _sealed(self, event: Sealed) -> None:
        super()._sealed(event)
        self._asking.due_at = NEVER


class NeverStops(Candidate):
    def _stop(self, reason: Reason) -> None:
        super()._stop(reason)
        self._out.pop()


class HiddenOverstay(Candidate):
    def _overstay_due(self, event: Tick) -> None:
        super()._overstay_due(event)
        self._out = [effect for effect in self._out if not isinstance(effect, Publish)]


class DeafToDeposal(Candidate):
    def _deposed(self, event: Deposed) -> None:
        pass


class DatedFromLatest(Candidate):
    def _date(self, sent_at: int) -> int:
        return super()._date(max(sent_at, self._asking.latest_sent_at))


class EarlyExpiry(MemoryEngine):
    def holding(self, election: str, now: int) -> Grant | None:
        record = self._records.get(election)
        if record is None or record.grant is None or now >= record.expires_at - record.grant.bid.ttl_ns // 8:
            return None
        return record.grant

    def next_expiry(self, election: str, now: int) -> int | None:
        expiry, held = super().next_expiry(election, now), self.holding(election, now)
        return expiry if expiry is None or held is None else expiry - held.bid.ttl_ns // 8


class GrudgingFence(Fence):
    _count = 0

    def admit(self, token: Token) -> None:
        self._count += 1
        if self._count % 7 == 0 and token == self.highest:
            raise StaleToken(token, self.highest)
        super().admit(token)


class DeafToOlderWatch(Candidate):
    def _changed(self, event: Changed) -> None:
        if event.attempt == self._watching:
            super()._changed(event)


class SuspendBlind(SimClock):
    def suspended(self, since: int, until: int) -> None:
        self.stand_still(since, until)


class WallClock(SimClock):
    def wall_stepped(self, true: int, step_ns: int) -> None:
        if step_ns < 0:
            self.stand_still(true, true - step_ns)
        else:
            self._local, self._since = self.now(true) + step_ns, true


class NoFence(Fence):
    def admit(self, token: Token) -> None:
        self.highest = max(self.highest, token)


class FenceNotEqual(Fence):
    def admit(self, token: Token) -> None:
        if token != self.highest:  # "another leader, so a new one"
            self.highest = token


class UnlockWithoutVersion(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        held = self.holding(bid.election, now)
        super().release(bid if held is None else held.bid, now)


class EqualTokens(MemoryEngine):
    _last: Bid | None = None

    def _next_token(self, bid: Bid) -> Token:
        last, self._last = self._last, bid
        if last is not None and last.holder == bid.holder:
            return Token(self._last_token)
        return super()._next_token(bid)


class RenewRevives(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        record = self._records.get(grant.bid.election)
        if record is not None and record.grant == grant:
            record.expires_at = now + grant.bid.ttl_ns
        return super().renew(grant, now)


class MissedWatchEvent(StoreNode):
    def _expire(self, seen: Seen, instant: int) -> None:
        watches, seen.watches = seen.watches, {}
        super()._expire(seen, instant)
        seen.watches = watches


class ForgetfulWorker(WorkerNode):
    def restart(self) -> None:
        self._fences = [self.world.parts.fence() for _ in self._fences]
        super().restart()


class CohortDatedFromAnswer(Cohort[Candidacy]):
    def _date(self, sent_at: int, now: int) -> None:
        super()._date(sent_at, now)
        if self.members:  # Who comes in has dated its own, and would not fit.
            self.valid_until = self._timing.valid_until(now)


class CohortKeepsTheEnded(Cohort[Candidacy]):
    def answered(self, now: int, ended: Collection[Bid]) -> list[Asked[Candidacy]]:
        return super().answered(now, [bid for bid in ended if bid not in self.members])


class CohortBlindToTime(Cohort[Candidacy]):
    @property
    def _stop_at(self) -> int:
        return NEVER
