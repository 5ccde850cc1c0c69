"""The candidate: the one file that changes election state.

``Candidate.step(event, now)`` takes what happened and returns what should be done. It never waits, reads no clock, draws no
lot, logs nothing and starts no thread, so the office (real IO) and the simulator (virtual time) run the very same machine.

Rules kept here (the numbers are those of DESIGN §1)
 1. Validity is dated from the send: a request is dated by the step that emitted it, ``Asking`` remembers that date, and
    an answer, however late, is judged by it. The engine must count a full ttl from every claim or renewal it grants.
 3. One token, one body: whatever ends a tenure also drops its bid. No event leads from STOPPING back to LEADING.
 4. Tokens strictly rise: a grant whose token is not larger than the last one is handed back.
 5. Seal before the body: StartBody is emitted by ``_sealed`` and nowhere else.
 6. Release after the body, by BodyEnded. Renewal ends when stopping begins: the lease of a body that will not end dies.
 7. Unknown is an outcome: after a lost answer the same bid is asked again, and the lost answer is still good if it comes.
 8. Belief is a comparison: ``valid_until`` is the whole of it; there is no flag that says "leader".
 9. Renewal cannot outlive work: GiveUp ends a tenure whose body has stalled, however well its renewals go.
10. Waiting is by watch; a standby asks again by itself only when the watch has been silent for two ttl.
11. Everything has a limit: attempts remembered, time to seal, time between tries. 13. Time and chance come in with the step.

Theory of operation. Time comes first: a deadline that has passed is acted on before the event that came with it, so a
grant that arrives after a long pause cannot revive what the pause has ended. Answers to attempts of another bid are strays:
what they got is released at once, because nobody else will. ``wake_at`` is the one timer; a driver calls ``step(Tick(), now)``
when it has come, early or late ticks do no harm. While a cohort renews it (``core/cohort.py``), any step takes it out first.
``core/table.py`` is the whole machine as data: which method below handles which event in which state.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from tenure.core import effects as do
from tenure.core import events as on
from tenure.core.asking import NEVER, Asking
from tenure.core.held import Held
from tenure.core.table import CLAIMING, IDLE, LEADING, SEALING, STANDBY, STOPPING, TRANSITIONS, State
from tenure.errors import ClockError, Reason
from tenure.facts.kinds import Elected, Left, Overstayed
from tenure.model import Bid, Grant, Token
from tenure.timing import Timing

if TYPE_CHECKING:
    from tenure.core.cohort import AnyCohort

_TICK: Final = on.Tick()
_BY_CHOICE: Final = (Reason.RESIGNED, Reason.STALLED)


class Candidate:
    """One candidate of one election. Not thread-safe: one driver steps it."""

    __slots__ = ("_asking", "_bid", "_chance", "_cohort", "_deadline", "_highest_token", "_now", "_out", "_phase_ns", "_seal_at",
                 "_seal_failures", "_sealing", "_serials", "_timing", "_wanted", "_watching", "held", "like", "state", "wake_at")  # fmt: skip

    def __init__(self, like: Bid, timing: Timing, serials: Iterator[int] | None = None, phase_ns: int = 0) -> None:
        """Its bids are ``like`` this one but for their ``serials``, which candidates that ever share a holder must share;
        ``phase_ns`` shifts the marks on which it renews.
        """
        self.state: State = IDLE
        self.wake_at: int | None = None
        self.like, self._timing, self._phase_ns = like, timing, phase_ns
        self._now, self._chance = 0, 0.5
        self._wanted, self._highest_token = False, 0
        self._serials = count(1) if serials is None else serials
        self._bid: Bid | None = None
        self.held: Held | None = None
        self._cohort: AnyCohort | None = None
        self._asking = Asking(timing)
        self._watching = self._sealing = 0  # the attempts of the current watch, and of the latest seal
        self._seal_failures, self._seal_at = 0, NEVER  # and when to seal again
        self._deadline = NEVER  # when to stop (SEALING, LEADING) or to call it an overstay (STOPPING)

    @property
    def token(self) -> Token | None:
        """The token of the office that is held, or None."""
        return self.held.grant.token if self.held else None

    @property
    def valid_until(self) -> int | None:
        """Up to when the office may be believed in, on the driver's clock; None if there is none. Compare, do not cache."""
        return self.held.valid_until if self.held else None

    def step(self, event: on.Event, now: int, chance: float = 0.5) -> list[do.Effect]:
        """Take one event at the instant ``now`` and return what should be done, in order. ``chance`` in [0, 1) is its lot; drivers
        draw it anew each time, or who fail together come back together. Raises ClockError, and changes nothing, if ``now`` is past.
        """
        if now < (before := self._now if self._cohort is None else self._cohort.now):
            raise ClockError(now, before)
        self.leave()
        self._now, self._chance = now, chance
        self._out: list[do.Effect] = []
        # Time first, but a body that has ended needs no telling to stop.
        while now >= self._deadline and not (self.state is LEADING and type(event) is on.BodyEnded):
            self._dispatch(_TICK)  # ends: a deadline leads to a later one, or to none
        self._dispatch(event)
        self._set_alarm()
        out = self._out
        del self._out  # There is nothing to do outside of a step.
        return out

    def _set_alarm(self) -> None:
        wake_at = min(self._asking.due_at, self._seal_at, self._deadline)
        self.wake_at = None if wake_at == NEVER else wake_at

    def _dispatch(self, event: on.Event) -> None:
        row = TRANSITIONS.get((self.state, type(event)))
        if row is not None:
            getattr(self, row.handler)(event)

    # --- Renewing with others
    def join(self, cohort: "AnyCohort") -> Grant | None:
        """Be renewed by a cohort until the next step; None: something sets this candidate apart from those in it."""
        alone = self._cohort is None and self.state is LEADING
        calm = alone and not self._asking.failures and self._asking.due_at == cohort.due_at
        if not calm or not self._held.join(cohort):
            return None
        cohort.attempt_max = max(cohort.attempt_max, self._asking.attempt_max)
        self._cohort, self.wake_at = cohort, None
        del self._asking, self._now, self._deadline  # It has no dates of its own in there.
        return self._held.grant

    def leave(self) -> None:
        """Leave the cohort, if there is one, as if each of its rounds had been a step of this candidate."""
        if self._cohort is not None:
            cohort, self._cohort = self._cohort, None
            self._held.leave()
            self._deadline = self._held.valid_until - self._timing.grace_ns
            self._now = cohort.now
            self._asking = Asking(self._timing, cohort.attempt_max)
            self._asking.catch_up(cohort.due_at, cohort.asked_at, self._chance)
            self._set_alarm()
            cohort.left(self._held.grant, self._asking.latest)

    # --- Standing and waiting
    def _stand(self, _: on.Stand) -> None:
        self._wanted, self._asking.failures = True, 0
        self._new_bid()
        self._claim()

    def _withdraw(self, _: on.Resign) -> None:
        # It may be granted unheard, so the bid is released whatever it got. If the release comes first, the grant is a stray.
        self._give_up_bid()
        self._wanted, self.state = False, IDLE

    def _claim_due(self, _: on.Tick) -> None:
        if self._now >= self._asking.due_at:
            self._claim()

    def _ask_failed(self, event: on.Failed) -> None:
        if self._asking.failed(event.attempt, definite=event.definite):
            self._asking.retry(self._now, self._chance)

    def _wait(self, event: on.MustWait) -> None:
        if self._asking.answered(event.attempt) is None:
            self._stray_wait(event)
            return
        self.state, self._watching = STANDBY, self._asking.number()
        self._asking.due_at = self._now + self._timing.recheck_after_ns(self._chance)
        self._out.append(do.Watch(self._watching, event.wait))

    def _watch_failed(self, event: on.Failed) -> None:
        if event.attempt == self._watching:
            self.state = CLAIMING
            self._asking.at_once(self._now)  # If it held for a while, this failure is not one in a row.
            self._asking.retry(self._now, self._chance)

    def _changed(self, _: on.Changed) -> None:
        self._claim_again()  # Whichever watch it ends: if the latest was lost on its way, an older one is all that there is.

    # --- Office
    def _take(self, event: on.Granted) -> None:
        sent_at = self._asking.answered(event.attempt)
        if sent_at is None:
            self._stray_grant(event)
            if event.grant.bid == self._bid:  # Ours, but undated (a copy of an answered claim): ask, to have it dated.
                self._claim_again()
            return
        valid_until = self._date(sent_at)
        stop_at = valid_until - self._timing.grace_ns
        if self._now >= stop_at or event.grant.token <= self._highest_token:
            self._try_anew()
            return
        self.state, self._highest_token = SEALING, event.grant.token
        self.held = Held(event.grant, valid_until)
        self._seal_failures = 0
        self._asking.due_at = self._timing.renew_at(sent_at, self._phase_ns)
        # A seal must fit into what the claim alone gave: an office that is held but never led keeps out those who could lead.
        self._deadline = stop_at
        self._seal()

    def _seal(self) -> None:
        self._sealing = self._asking.number()
        self._seal_at = self._now + self._timing.answer_within_ns(self._seal_failures, self._chance)
        self._out.append(do.Seal(self._sealing, self._held.grant.token))

    def _sealed(self, event: on.Sealed) -> None:
        office = self._held
        if event.token != office.grant.token:
            return
        self.state = LEADING
        self._asking.succeeded()
        self._seal_at, self._deadline = NEVER, office.valid_until - self._timing.grace_ns
        self._out.append(do.Publish(Elected(event.token, office.valid_until)))
        self._out.append(do.StartBody(event.token))

    def _renewed(self, event: on.Granted) -> None:
        office = self._held
        sent_at = self._asking.answered(event.attempt)
        if event.grant is not office.grant and event.grant.bid != office.grant.bid:
            self._out.append(do.Release(event.grant.bid))
        elif event.grant.token > office.grant.token:
            # An old claim of this very bid reached the store late and was granted anew: our tenure had ended before.
            # A smaller token is the reverse, the late answer of a tenure before ours, and says nothing about it.
            self._depose()
        elif event.grant.token == office.grant.token and sent_at is not None:
            office.renewed(self._date(sent_at), self._now)
            if self.state is LEADING:
                self._asking.succeeded()
                self._deadline = office.valid_until - self._timing.grace_ns
            # An older answer is welcome, but a younger request is on its way already.
            if event.attempt == self._asking.latest:
                self._asking.due_at = self._timing.renew_at(sent_at, self._phase_ns)

    def _office_failed(self, event: on.Failed) -> None:
        if event.attempt == self._sealing and self.state is SEALING:
            self._seal_failures += 1
            self._seal_at = self._now + self._timing.retry_after_ns(self._seal_failures, self._chance)
        else:
            self._ask_failed(event)

    def _office_due(self, _: on.Tick) -> None:
        if self._now >= self._deadline:
            if self.state is SEALING:
                self._try_anew()
            else:
                self._stop(Reason.STORE_GONE if self._asking.failures else Reason.LAPSED)
            return
        if self._now >= self._asking.due_at:
            self._out.append(do.Renew(self._asking.send(self._now, self._chance), self._held.grant))
        if self._now >= self._seal_at:
            self._seal()

    def _deposed(self, event: on.Deposed) -> None:
        if event.token == self._held.grant.token:
            self._depose()

    def _resign(self, _: on.Resign) -> None:
        self._wanted = False
        self._stop(Reason.RESIGNED)

    def _give_up(self, event: on.GiveUp) -> None:
        self._stop(event.reason)

    # --- Stopping
    def _stop(self, reason: Reason) -> None:
        self.state, self._held.reason, self._asking.due_at = STOPPING, reason, NEVER
        self._deadline = self._held.valid_until
        self._out.append(do.StopBody(self._held.grant.token, reason))

    def _depose(self) -> None:
        if self.state is SEALING:
            self._try_anew()
        else:
            self._stop(Reason.DEPOSED)
            self._end_validity()

    def _deposed_while_stopping(self, event: on.Deposed) -> None:
        if event.token == self._held.grant.token and self._now < self._held.valid_until:
            self._end_validity()  # Once over, an overstay has been told.

    def _end_validity(self) -> None:
        self._held.valid_until = min(self._held.valid_until, self._now)
        self._deadline = min(self._deadline, self._now + self._timing.grace_ns)

    def _overstay_due(self, _: on.Tick) -> None:
        if self._now >= self._deadline:
            office, self._deadline = self._held, NEVER
            self._out.append(do.Publish(Overstayed(office.grant.token, self._now - office.valid_until)))

    def _note_wish(self, event: on.Stand | on.Resign) -> None:
        self._wanted = isinstance(event, on.Stand)

    def _body_ended(self, event: on.BodyEnded) -> None:
        office = self._held
        if event.token != office.grant.token:
            return
        if office.reason is None:  # The body ended by itself: the work is done.
            self._wanted = False
            office.reason = Reason.RESIGNED
            if self._now >= office.valid_until:  # … though later than it should have been.
                office.reason = Reason.LAPSED
                self._out.append(do.Publish(Overstayed(event.token, self._now - office.valid_until)))
        self._give_up_bid()
        office.valid_until = 0
        self._out.append(do.Publish(Left(event.token, office.reason)))
        self.state = IDLE
        if self._wanted:
            self._asking.failures = 0
            self._new_bid()
            (self._let_others_go_first if office.reason in _BY_CHOICE else self._claim)()

    # --- Strays: answers that nobody waits for any more
    def _stray_grant(self, event: on.Granted) -> None:
        if event.grant.bid != self._bid:
            self._out.append(do.Release(event.grant.bid))

    def _stray_wait(self, event: on.MustWait) -> None:
        if event.wait.bid != self._bid:
            self._out.append(do.Release(event.wait.bid))

    # --- Bids and attempts
    @property
    def _held(self) -> Held:
        assert self.held is not None, f"no office in state {self.state}"
        return self.held

    def _new_bid(self) -> None:
        self._bid = self.like = replace(self.like, serial=next(self._serials))

    def _give_up_bid(self) -> None:
        assert self._bid is not None, f"no bid in state {self.state}"
        self._out.append(do.Release(self._bid))
        self._bid = self.held = None
        self._asking.stop()
        self._seal_at = self._deadline = NEVER

    def _try_anew(self) -> None:
        self._give_up_bid()
        self._new_bid()
        self._let_others_go_first()

    def _let_others_go_first(self) -> None:
        # Who claims at once wins again, before others have heard that it may; and one that cannot seal, again and again.
        self.state = CLAIMING
        self._asking.retry(self._now, self._chance)
        self._asking.due_at += self._timing.renew_every_ns

    def _claim(self) -> None:
        assert self._bid is not None, f"no bid in state {self.state}"
        self.state = CLAIMING
        self._out.append(do.Claim(self._asking.send(self._now, self._chance), self._bid))

    def _claim_again(self) -> None:
        if self._asking.at_once(self._now):
            self._claim()
        else:
            self.state = CLAIMING
            self._asking.retry(self._now, self._chance)

    def _date(self, sent_at: int) -> int:
        return self._timing.valid_until(sent_at)
