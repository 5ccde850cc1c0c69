"""Deliberate breakages of machine, clock, sink, store and worker: the checkers' own test.

A mutant is one or two overridden methods, each a mistake that real systems have made. It names the checker that must
kill it; one that survives fails the build.
"""

from dataclasses import dataclass
from typing import Final

from tenure.core.candidate import Candidate
from tenure.core.effects import Release, StartBody
from tenure.core.events import Changed, Failed, Granted
from tenure.core.table import IDLE, LEADING, STOPPING
from tenure.errors import ConfigError, Reason
from tenure.model import Bid, Ended, Grant, Token
from tenure.sim.clocks import SimClock
from tenure.sim.services import StoreNode, WorkerNode
from tenure.sim.world import Parts
from tenure.sinks.fence import Fence
from tenure.stores.memory import MemoryEngine


class _DatedFromReceipt(Candidate):
    def _date(self, sent_at: int) -> int:
        return super()._date(max(sent_at, self._now))


class _NoDriftMargin(Candidate):
    def _date(self, sent_at: int) -> int:
        return sent_at + self._timing.ttl_ns


class _NoSeal(Candidate):
    def _seal(self) -> None:
        self.state = LEADING
        self._deadline = self._held.valid_until - self._timing.grace_ns
        self._out.append(StartBody(self._held.grant.token))


class _ResumedTenure(Candidate):
    def _stray_grant(self, event: Granted) -> None:
        if self.state is STOPPING and self._office and self._office.reason in (Reason.LAPSED, Reason.STORE_GONE):
            self.state, self._office.reason = LEADING, None
            self._renewed(event)
        else:
            super()._stray_grant(event)


class _ReleaseBeforeEnd(Candidate):
    def _stop(self, reason: Reason) -> None:
        super()._stop(reason)
        self._out.append(Release(self._held.grant.bid))


class _LateGrantKept(Candidate):
    def _stray_grant(self, event: Granted) -> None:
        if self.state is IDLE and event.grant.token > self._highest_token:
            self._bid = event.grant.bid
            self._open[event.attempt] = self._now
            self._take(event)
        else:
            super()._stray_grant(event)


class _UnknownIsRefused(Candidate):
    """A claim without an answer counts as never made: it is made again, and the first one's grant is handed back."""

    def _ask_failed(self, event: Failed) -> None:
        super()._ask_failed(Failed(event.attempt, definite=True))

    def _renewed(self, event: Granted) -> None:
        if event.attempt in self._open:
            super()._renewed(event)
        else:
            self._out.append(Release(event.grant.bid))


class _DeafToOlderWatch(Candidate):
    def _changed(self, event: Changed) -> None:
        if event.attempt == self._watching:
            super()._changed(event)


class _SuspendBlind(SimClock):
    def suspended(self, since: int, until: int) -> None:
        self.stand_still(since, until)


class _WallClock(SimClock):
    def wall_stepped(self, true: int, step_ns: int) -> None:
        if step_ns < 0:
            self.stand_still(true, true - step_ns)
        else:
            self._local, self._since = self.now(true) + step_ns, true


class _NoFence(Fence):
    def admit(self, token: Token) -> None:
        self.highest = max(self.highest, token)


class _FenceNotEqual(Fence):
    def admit(self, token: Token) -> None:
        if token != self.highest:  # "another leader, so a new one"
            self.highest = token


class _UnlockWithoutVersion(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        held = self.holding(bid.election, now)
        super().release(bid if held is None else held.bid, now)


class _EqualTokens(MemoryEngine):
    _last: Bid | None = None

    def _next_token(self, bid: Bid) -> Token:
        last, self._last = self._last, bid
        if last is not None and last.holder == bid.holder:
            return Token(self._last_token)
        return super()._next_token(bid)


class _RenewRevives(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        record = self._records.get(grant.bid.election)
        if record is not None and record.grant == grant:
            record.expires_at = now + grant.bid.ttl_ns
        return super().renew(grant, now)


class _MissedWatchEvent(StoreNode):
    def _expire(self, instant: int) -> None:
        watches, self._watches = self._watches, {}
        super()._expire(instant)
        self._watches = watches


class _ForgetfulWorker(WorkerNode):
    def restart(self) -> None:
        self._fence = self.world.parts.fence()
        super().restart()


@dataclass(frozen=True, slots=True)
class Mutant:
    """One breakage: its name, what it does wrong, the checker that must notice, and the parts that it changes."""

    name: str
    mistake: str
    checker: str
    parts: Parts


MUTANTS: Final = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "dated-from-receipt",
            "validity counts from the answer, not from the send",
            "one-valid-tenure",
            Parts(candidate=_DatedFromReceipt),
        ),
        Mutant(
            "no-drift-margin",
            "the holder believes in the whole ttl, as if its clock were the engine's",
            "one-valid-tenure",
            Parts(candidate=_NoDriftMargin),
        ),
        Mutant(
            "suspend-blind-clock",
            "the clock stands still while the machine sleeps, as CLOCK_MONOTONIC does",
            "one-valid-tenure",
            Parts(clock=_SuspendBlind),
        ),
        Mutant(
            "wall-clock",
            "leases are judged by a clock that can be set",
            "one-valid-tenure",
            Parts(clock=_WallClock),
        ),
        Mutant("no-fence", "the sink takes every write", "fence-holds", Parts(fence=_NoFence)),
        Mutant(
            "fence-not-equal",
            "the sink takes any token that differs from the last as a new leader's",
            "fence-holds",
            Parts(fence=_FenceNotEqual),
        ),
        Mutant(
            "no-seal",
            "the body starts before the sinks know its token",
            "no-write-after-successor",
            Parts(candidate=_NoSeal),
        ),
        Mutant(
            "resumed-tenure",
            "a renewal that is answered after the lapse puts the leader back in office",
            "never-resumed",
            Parts(candidate=_ResumedTenure),
        ),
        Mutant(
            "release-before-end",
            "the office is released when the body is told to stop, not when it has",
            "release-after-body",
            Parts(candidate=_ReleaseBeforeEnd),
        ),
        Mutant(
            "unlock-without-version",
            "a release frees the office whoever holds it",
            "one-valid-tenure",
            Parts(engine=_UnlockWithoutVersion),
        ),
        Mutant(
            "equal-tokens",
            "a holder that claims again gets the token that it had",
            "tokens-rise",
            Parts(engine=_EqualTokens),
        ),
        Mutant(
            "renew-revives",
            "a renewal brings back a lease that had expired",
            "never-resumed",
            Parts(engine=_RenewRevives),
        ),
        Mutant(
            "late-grant-kept",
            "a grant that arrives after the resignation is taken",
            "one-valid-tenure",
            Parts(candidate=_LateGrantKept),
        ),
        Mutant(
            "unknown-is-refused",
            "a claim without an answer counts as refused, so its late grant is handed back from under the second",
            "one-valid-tenure",
            Parts(candidate=_UnknownIsRefused),
        ),
        Mutant(
            "missed-watch-event",
            "the store tells nobody of a lease that expired",
            "no-lost-wake-up",
            Parts(store=_MissedWatchEvent),
        ),
        Mutant(
            "deaf-to-older-watch",
            "a wake-up through any but the latest watch is ignored, though the latest may have been lost",
            "no-lost-wake-up",
            Parts(candidate=_DeafToOlderWatch),
        ),
        Mutant(
            "no-jitter",
            "candidates that failed together come back together",
            "office-filled",
            Parts(lot=lambda _: 0.5),
        ),
        Mutant(
            "forgetful-worker",
            "a worker forgets the highest token when it restarts",
            "orders-in-order",
            Parts(worker=_ForgetfulWorker),
        ),
    )
}


def find(name: str) -> Mutant:
    """Return the mutant of that name; an unknown one is refused with the list."""
    if name not in MUTANTS:
        raise ConfigError("mutant", name, f"must be one of {', '.join(MUTANTS)}")
    return MUTANTS[name]
