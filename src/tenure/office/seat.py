"""A seat: one candidate run over real IO, on the office's loop.

It performs the machine's effects against a store and feeds back what came of them. What concerns the body (seal, start,
stop) goes to its ``Tenant``, which lives where the user called. The seat decides nothing: ``core/candidate.py`` does.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import random
from typing import Any, Final, TypeVar

from tenure.core import effects as do
from tenure.core import events as on
from tenure.core.candidate import Candidate
from tenure.core.table import IDLE, LEADING
from tenure.errors import ConfigError, Reason, StoreError
from tenure.facts import kinds as facts
from tenure.facts import publish
from tenure.model import Ended, Grant, Token, Wait
from tenure.office.crews import Crew, Renewal
from tenure.office.rounds import broken, in_time, told_of_broken_store
from tenure.office.tenant import Tenant
from tenure.office.term import Term
from tenure.office.thread import Office
from tenure.stores.base import CanAskToResign, CanProclaim, CanRenewTogether, No, Ok, Store, Unknown, offers, outcome_of
from tenure.timing import Timing

T = TypeVar("T")
_TICK: Final = on.Tick()
# Drawn from these and not made anew: a candidate keeps its last one, and there may be ten thousand of them.
_LOTS: Final = tuple(lot / 1024 for lot in range(1024))
# One for all seats: most of the time nothing is under way for most of them.
_NOTHING: Final[Mapping["asyncio.Task[None]", int]] = {}


class Seat:
    """One candidate of one election in one process."""

    __slots__ = ("_idle", "_kill", "_left", "_office", "_tasks", "_tenant", "_term", "_timing", "_together", "_watch", "candidate", "crew", "due", "renews_at", "store", "trouble")  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917  (a desk knows all of it, and nobody else makes seats)
        self,
        office: Office,
        store: Store,
        candidate: Candidate,
        timing: Timing,
        tenant: Tenant,
        kill: Callable[[], None] | None,
    ) -> None:
        self._office, self.store, self._timing, self._tenant = office, store, timing, tenant
        self.candidate, self._kill = candidate, kill
        self.crew: Crew | None = None  # in whose cohort the candidate is, or was
        self._together = store if offers(store, CanRenewTogether) else None
        self.due: int | None = None  # as an Alarm
        self.renews_at: int | None = None  # with which round
        self._tasks = _NOTHING  # what is under way, and the attempt that it answers
        self._watch: asyncio.Task[None] | None = None
        self._term: Term | None = None
        self._idle = True
        self._left: asyncio.Event | None = None  # what who evicts it waits for
        self.trouble: StoreError | None = None  # why the store's last answer was none; None while it answers

    # From any thread

    def feed(self, event: on.Event) -> None:
        """Hand an event to the candidate, soon."""
        self._office.call(self._step, event)

    def feed_in(self, term: Term, event: on.Event) -> None:
        """Hand an event to the candidate, soon, unless that tenure is over by then."""
        self._office.call(self._step_in, term, event)

    def leave(self, token: Token) -> None:
        """Hear, soon, that the body has ended and that its candidate does not stand again."""
        self._office.call(self._leave, token)

    def expect_progress(self, term: Term, by: int | None) -> None:
        """Set or lift the body's own deadline."""
        term.progress_by = by
        self._office.call(self.look_after_time)

    def proclaim(self, term: Term, address: str) -> None:
        """Have the store say anew where the holder of this tenure is, soon."""
        if not isinstance(self.store, CanProclaim):
            raise ConfigError("proclaim", address, f"{self.store.address} cannot change what was said when standing")
        term.address = address
        self._office.call(self._proclaim, term, self.store)

    def forget(self) -> None:
        """Nothing is held any more in this process, which is the child of a fork."""
        if self._term is not None:
            self._term.held.forget()

    # On the office's loop

    def _step_in(self, term: Term, event: on.Event) -> None:
        if self._term is term:
            self._step(event)

    def _leave(self, token: Token) -> None:
        if self.candidate.state is not LEADING:  # Else the body's own end says so, and nobody need tell it to stop.
            self._step(on.Resign())
        self._step(on.BodyEnded(token))

    def _step(self, event: on.Event) -> None:
        self._perform(self._stepped(event, self._office.clock.now()))

    def _stepped(self, event: on.Event, now: int) -> list[do.Effect]:
        # Before anything is done: from here on other threads see the new word.
        return self.candidate.step(event, now, _LOTS[int(random() * len(_LOTS))])

    def _perform(self, todo: list[do.Effect]) -> None:
        for effect in todo:
            _PERFORM[type(effect)](self, effect)
        self.look_after_time()
        if self._idle is not (self.candidate.state is IDLE):
            self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        idle = self.candidate.state is IDLE
        if idle and self._watch is not None:
            self._watch.cancel()
            self._watch = None
        idle = idle and not self._tasks
        if self._idle is not idle:
            self._idle = idle
            self._office.keep(self, kept=not idle)
            self._tell(facts.Withdrew() if idle else facts.Stood(self._timing.ttl_ns))
            if idle:
                self._tenant.idle()
                if self._left is not None:
                    self._left.set()

    async def evict(self) -> None:
        """The store is about to be closed: end the body, and give back what is held. A body gets its grace, no more."""
        self._left = asyncio.Event()
        self._tenant.evicted()
        self._step(on.Resign())
        within_s = (self._timing.grace_ns + self._timing.attempt_timeout_ns) / 1e9
        with suppress(TimeoutError):
            await asyncio.wait_for(self._left.wait(), within_s)

    async def close(self) -> None:
        """The interpreter leaves: no body runs any more, whatever it was; give back what is held."""
        term = self._term
        self._step(on.Resign())
        if term is not None:
            self._step(on.BodyEnded(term.token))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._timing.attempt_timeout_ns / 1e9)

    def ring(self) -> None:
        """It is time for something."""
        kill_at, term = self._kill_at, self._term
        if self._kill is not None and kill_at is not None and self._office.clock.now() >= kill_at:
            self._kill()
        progress_by = None if term is None else term.progress_by  # the body may lift it at any moment
        if term is not None and progress_by is not None and self._office.clock.now() >= progress_by:
            term.progress_by = None
            self._step(on.GiveUp(Reason.STALLED))
        else:
            self._step(_TICK)

    @property
    def _kill_at(self) -> int | None:
        """When a body that was told to stop ends with its process; None: it does not."""
        if self._kill is None or self._term is None or self._term.reason is None:
            return None
        # A quarter of the grace before the end: the kernel needs a moment, and nobody may be in office before.
        return self._term.valid_until - self._timing.grace_ns // 4

    def look_after_time(self) -> None:
        """Be woken when there is something to do; by a round, if that is to renew with others."""
        due, term, together = self.candidate.wake_at, self._term, self._together
        if together is not None:
            leads = self.candidate.state is LEADING
            marked = due and leads and self._timing.is_mark(due)
            if self.renews_at is not None and not (marked and self.renews_at == due):
                self._office.rounds.leave(self, together, self._timing)
            if due and marked:
                if self.renews_at is None:
                    self._office.rounds.join(self, together, self._timing, due)
                due = None
            if self.crew is not None and not (leads and self.candidate.wake_at is None):
                crew, self.crew = self.crew, None
                self._office.rounds.left(crew)
        if term is not None:
            for other in (term.progress_by, self._kill_at):
                if other is not None and (due is None or other < due):
                    due = other
        self._office.timetable.set(self, due)

    # Effects

    def _watch_for(self, effect: do.Watch) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._ask(self._watched(effect), effect.attempt)
        self._tell(facts.Waiting(effect.wait.incumbent))
        self._tenant.wait()

    def _start_body(self, _: do.StartBody) -> None:
        if self.candidate.held is not None:
            self._term = Term(self.candidate.held)
            self._tenant.start(self._term)

    def _stop_body(self, effect: do.StopBody) -> None:
        term = self._term
        if term is not None:
            term.progress_by = None
            self._tell(facts.Ending(effect.token, effect.reason))
            self._tenant.stop(term)

    def _publish(self, effect: do.Publish) -> None:
        if isinstance(effect.what, facts.Left):
            self._term = None
        self._tell(effect.what)

    def _tell(self, what: facts.What) -> None:
        publish(what, self.store.address, self.candidate.like.election, self.candidate.like.holder)

    # Requests

    def _ask(self, request: Coroutine[Any, Any, None], attempt: int = 0) -> "asyncio.Task[None]":
        task = self._office.loop.create_task(request)
        self._tasks = {**self._tasks, task: attempt}
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        attempt = self._tasks[task]
        self._tasks = {other: its for other, its in self._tasks.items() if other is not task} or _NOTHING
        if not task.cancelled() and (error := task.exception()) is not None:
            told_of_broken_store(self._office.loop, error)
            self._step(on.Failed(attempt, definite=False))
        self._tell_if_idle()

    async def _claimed(self, effect: do.Claim) -> None:
        match await outcome_of(self._in_time("claim", self.store.claim(effect.bid))):
            case Ok(Grant() as grant):
                self._hear(on.Granted(effect.attempt, grant))
            case Ok(Wait() as wait):
                self._hear(on.MustWait(effect.attempt, wait))
            case Ok(answer):
                told_of_broken_store(self._office.loop, TypeError(f"claim answered {answer!r}"))
                self._miss(effect.attempt, broken("claim", self.store))
            case No() | Unknown() as failure:
                self._miss(effect.attempt, failure)

    def renewal(self, now: int) -> do.Renew | None:
        """Let time pass up to ``now``, and return the renewal that is due then; None: there was something else to do."""
        todo, wake_at = self._stepped(_TICK, now), self.candidate.wake_at
        if len(todo) == 1 and isinstance(todo[0], do.Renew):
            self._tenant.look_after()
            if wake_at is not None and wake_at < now + self._timing.attempt_timeout_ns * 3 // 4:
                self.look_after_time()  # Its round would be late.
            return todo[0]
        self._perform(todo)
        return None

    def _renew(self, effect: do.Renew) -> None:
        self._tenant.look_after()
        if self._together is None:
            self._ask(self._renew_alone(effect, self._office.clock.now()), effect.attempt)
        else:
            self._office.rounds.add(self._together, self._timing, effect, self)

    async def _renew_alone(self, effect: do.Renew, asked_at: int) -> None:
        outcome = await outcome_of(self._in_time("renew", self.store.renew(effect.grant)))
        self.renewed(effect, outcome.value if isinstance(outcome, Ok) else outcome, asked_at)

    def renewed(self, effect: do.Renew, outcome: Renewal, asked_at: int) -> None:
        """Hear what became of a renewal that was asked for at ``asked_at``."""
        if self._idle:  # It has left meanwhile, and a renewal of what was released changes nothing.
            return
        if isinstance(outcome, Grant):
            now, held = self._office.clock.now(), self.candidate.held
            if held is not None and held.grant.token == outcome.token:  # Else there is nothing left to tell of.
                self._tell(facts.Renewed((outcome.bid,), max(0, held.valid_until - now), now - asked_at))
            self._hear(on.Granted(effect.attempt, outcome))
            if offers(self.store, CanAskToResign) and self.store.resign_asked(outcome):
                self.asked_to_resign()
        elif isinstance(outcome, Ended):
            self._hear(on.Deposed(effect.grant.token))
        else:
            self._miss(effect.attempt, outcome)

    def asked_to_resign(self) -> None:
        """Hear that somebody asks it to leave."""
        self._step(on.GiveUp(Reason.RESIGNED))

    def look_after_tenant(self) -> None:
        """See whether there is still somebody on it who can say that the body has ended."""
        self._tenant.look_after()

    async def _watched(self, effect: do.Watch) -> None:
        match await outcome_of(self.store.changed(effect.wait)):
            case Ok():
                self._tell(facts.Woken())
                self._hear(on.Changed(effect.attempt))
            case No() | Unknown() as failure:
                self._miss(effect.attempt, failure)

    def _proclaim(self, term: Term, store: CanProclaim) -> None:
        if self._term is term and not term.proclaiming:
            term.proclaiming = True
            self._ask(self._proclaimed(term, store))

    async def _proclaimed(self, term: Term, store: CanProclaim) -> None:
        said = term.address
        outcome = await outcome_of(self._in_time("proclaim", store.proclaim(term.held.grant, said)))
        term.proclaiming = False
        if not isinstance(outcome, Ok):
            self._office.loop.call_later(self._timing.renew_every_ns / 1e9, self._proclaim, term, store)
        elif term.address != said:  # Said anew meanwhile.
            self._proclaim(term, store)

    async def _released(self, effect: do.Release) -> None:
        # Whatever comes of it, the lease dies by itself; and nobody waits for the answer but a caller that leaves.
        await outcome_of(self._in_time("release", self.store.release(effect.bid)))

    def _in_time(self, operation: str, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return in_time(self.store, self._timing.attempt_timeout_ns, operation, call)

    def _hear(self, answer: on.Event) -> None:
        self.trouble = None
        self._office.absences.heard(self.store)
        self._step(answer)

    def _miss(self, attempt: int, failure: No | Unknown) -> None:
        self.trouble = failure.error
        self._office.absences.missed(self.candidate.like, self.store, failure.error)
        self._step(on.Failed(attempt, definite=isinstance(failure, No)))


_PERFORM: Final[dict[type[do.Effect], Callable[[Seat, Any], object]]] = {
    do.Claim: lambda seat, effect: seat._ask(seat._claimed(effect), effect.attempt),  # noqa: SLF001
    do.Renew: Seat._renew,  # noqa: SLF001
    do.Watch: Seat._watch_for,  # noqa: SLF001
    do.Seal: lambda seat, effect: seat._tenant.seal(effect.attempt, effect.token),  # noqa: SLF001
    do.StartBody: Seat._start_body,  # noqa: SLF001
    do.StopBody: Seat._stop_body,  # noqa: SLF001
    do.Release: lambda seat, effect: seat._ask(seat._released(effect)),  # noqa: SLF001
    do.Publish: Seat._publish,  # noqa: SLF001
}
