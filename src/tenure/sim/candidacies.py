"""The candidates of a simulation, each running the shipped machine.

A candidate here is the office in virtual time: it performs the machine's effects over the simulated network and feeds
back what came of them. Its body is as careless as real ones are: it writes with the token it was given, whether or not
that is still good, because the fence and not the body's care must keep the promise.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tenure.core import effects as do
from tenure.core.events import BodyEnded, Changed, Deposed, Event, Failed, Stand, Tick
from tenure.core.table import State
from tenure.facts.kinds import Overstayed
from tenure.model import Bid, Holder, Token
from tenure.sim.history import REASONS, Kind

if TYPE_CHECKING:
    from tenure.core.candidate import Candidate
    from tenure.sim.nodes import ProcessNode

_STAND, _TICK = Stand(), Tick()


def election_name(election: int) -> str:
    """Return what the store calls an election."""
    return f"sim/{election}"


class Candidacy:
    """One process that stands in one election: its machine and its body, from one start of the process to its end."""

    def __init__(self, process: "ProcessNode", election: int) -> None:
        self.process, self.world, self.election = process, process.world, election
        self.number, self.who, self._start = process.number, process.who, process.starts
        timing = self.world.plan.timing
        like = Bid(election_name(election), Holder(self.who, self._start, "sim"), 0, timing.ttl_ns)
        self.candidate: Candidate = self.world.parts.candidate(like, timing)
        self._body: Token | None = None
        self._serial = 0  # of the bid that was last asked for
        self._timer_at: int | None = None
        self._shown: tuple[Token | None, int | None] = (None, None)
        self._waiting = False
        self._stand_due = False

    @property
    def up(self) -> bool:
        """Whether the process has not ended since."""
        return self.process.up and self._start == self.process.starts

    # What the world does to it

    def stand(self) -> None:
        self.process.run(self.feed, _STAND)

    def receive(self, event: Event) -> None:
        """Take an answer from the wire; one for an earlier start of this process finds nobody."""
        if self.up:
            self.process.run(self.feed, event)

    def deposed(self, token: Token) -> None:
        """Take the word of the store, or of the sink, that a tenure is over."""
        if self.up:
            self.process.run(self.hear_deposed, token)

    def write_refused(self, token: Token) -> None:
        """A sink said that the token is stale: the body raises, and so ends."""
        if self.up:
            self.process.run(self._end_body, token)

    def reclocked(self) -> None:
        """Compute anew what was computed from the clock, which was bent."""
        token, valid_until = self._shown
        if self.up and token is not None and valid_until is not None and self.process.local_now() < valid_until:
            self._note(Kind.RECLOCKED, token, self.process.clock.true_at(valid_until))
        self._timer_at = None
        self._set_timer()

    # Running the machine

    def _note(self, kind: Kind, token: int = 0, number: int = 0, words: str = "") -> None:
        self.world.note(kind, self.who, token, number, words, election=self.election)

    def hear_deposed(self, token: Token) -> None:
        self._note(Kind.DEPOSED, token)
        self.feed(Deposed(token))

    def feed(self, event: Event) -> None:
        if type(event) is Changed:
            self._note(Kind.WOKEN)
        self._perform(self._step(event))

    def renewal(self) -> do.Renew | None:
        """Let time pass up to now, and return the renewal that is due then; None: there was something else to do."""
        todo = self._step(_TICK)
        if len(todo) == 1 and isinstance(todo[0], do.Renew):
            self._perform([])
            return todo[0]
        self._perform(todo)
        return None

    def _step(self, event: Event) -> list[do.Effect]:
        return self.candidate.step(event, self.process.local_now(), self.world.parts.lot(self.world.chance))

    def _perform(self, todo: list[do.Effect]) -> None:
        for effect in todo:
            _PERFORM[type(effect)](self, effect)
        self.observe()
        self._set_timer()

    def observe(self) -> None:
        """Write down what the machine believes now, where that has changed."""
        machine, world = self.candidate, self.world
        shown = machine.token, machine.valid_until
        if shown != self._shown:
            if shown[0] is not None and shown[1] is not None:
                self._note(Kind.HOLDS, shown[0], self.process.clock.true_at(shown[1]))
            elif self._shown[0] is not None:
                self._note(Kind.LEFT, self._shown[0])
            self._shown = shown
        waiting = machine.state is State.STANDBY
        if waiting is not self._waiting:
            self._waiting = waiting
            self._note(Kind.STANDBY if waiting else Kind.WAITS_NO_MORE)
        if machine.state is State.IDLE and not self._stand_due:
            self._stand_due = True
            idle_ns = 0 if world.healthy else world.chance.between(0, world.plan.idle_max_ns)
            world.at(world.now + idle_ns, self._stand_again)

    def _stand_again(self) -> None:
        if self.up:
            self._stand_due = False
            self.stand()

    # Time

    def look_after_time(self) -> None:
        """See to it that the machine is woken: it is, or was, renewed by a cohort."""
        self.observe()
        self._set_timer()

    def _set_timer(self) -> None:
        wake_at = self.candidate.wake_at
        if wake_at is not None:
            instant = max(self.world.now, self.process.clock.true_at(wake_at))
            if self._timer_at is None or instant < self._timer_at:
                self._timer_at = instant
                self.world.at(instant, self._timer, instant)

    def _timer(self, instant: int) -> None:
        if self.up and instant == self._timer_at and not self.process.frozen:
            self.check_timer()

    def check_timer(self) -> None:
        """Do what is due; renew with others if that is what it is, and it is their time as well."""
        self._timer_at = None
        if self.up and self.candidate.wake_at is not None:
            if not self.is_due():
                self._set_timer()
            elif not (self.may_renew_together() and self.process.begin_round()):
                self.feed(_TICK)

    def is_due(self) -> bool:
        wake_at = self.candidate.wake_at
        return wake_at is not None and self.process.local_now() >= wake_at

    def may_renew_together(self) -> bool:
        """Say whether what it waits for is the mark on which all renew."""
        due, plan = self.candidate.wake_at, self.world.plan
        leads = self.candidate.state is State.LEADING
        return plan.together and leads and due is not None and plan.timing.is_mark(due)

    # Effects

    def _claim(self, effect: do.Claim) -> None:
        self._serial = effect.bid.serial
        self._ask(self.world.store.claim, effect.attempt, effect.bid)

    def _renew(self, effect: do.Renew) -> None:
        self._ask(self.world.store.renew, effect.attempt, effect.grant)

    def _watch(self, effect: do.Watch) -> None:
        if not self.world.healthy and self.world.chance.hit(self.world.plan.watch_loss):
            return
        self._ask(self.world.store.watch, effect.attempt, effect.wait)

    def _ask(self, operation: Callable[..., None], attempt: int, subject: Any) -> None:
        store = self.world.store
        self.world.send(self.number, store.number, store.request, operation, self, attempt, subject)

    def _release(self, effect: do.Release) -> None:
        world = self.world
        self._note(Kind.RELEASED, 0, effect.bid.serial)
        world.send(self.number, world.store.number, world.store.release, effect.bid)

    def _seal(self, effect: do.Seal) -> None:
        world, plan = self.world, self.world.plan
        if world.healthy:
            delay_ns = 0
        elif world.chance.hit(plan.seal_loss):
            if world.chance.hit(0.5):  # the sink is there but cannot be sealed now
                delay_ns = world.chance.between(0, plan.seal_delay_max_ns)
                world.at(world.now + delay_ns, self.receive, Failed(effect.attempt, definite=False))
            return
        else:
            delay_ns = world.chance.between(0, plan.seal_delay_max_ns)
        world.at(world.now + delay_ns, world.send, self.number, world.sink.number, world.sink.seal, self, effect)

    def _start_body(self, effect: do.StartBody) -> None:
        world = self.world
        self._body = effect.token
        self._note(Kind.BEGAN, effect.token, self._serial)
        world.at(world.now, self._act, effect.token)
        world.at(world.now + world.chance.between(0, world.plan.body_max_ns), self._body_over, effect.token)

    def _stop_body(self, effect: do.StopBody) -> None:
        world, plan = self.world, self.world.plan
        stubborn = not world.healthy and world.chance.hit(plan.stubborn)
        longest_ns = plan.stubborn_max_ns if stubborn else plan.timing.grace_ns
        self._note(Kind.STOPPING, effect.token, REASONS.index(effect.reason), effect.reason.value)
        world.at(world.now + world.chance.between(0, longest_ns), self._body_over, effect.token)

    def _publish(self, effect: do.Publish) -> None:
        if isinstance(effect.what, Overstayed):
            self._note(Kind.OVERSTAYED, effect.what.token)

    # The body

    def _act(self, token: Token) -> None:
        """Write, or give the worker an order, and come again."""
        if self.up and self._body == token:
            self.process.run(self._act_now, token)

    def _act_now(self, token: Token) -> None:
        world, plan = self.world, self.world.plan
        if self._body != token:
            return
        valid_until = self.candidate.valid_until
        if not plan.body_checks or (valid_until is not None and self.process.local_now() < valid_until):
            if world.chance.hit(0.5):
                world.send(self.number, world.sink.number, world.sink.write, self, token)
            else:
                world.send(self.number, world.worker.number, world.worker.order, self.election, token)
        world.at(world.now + plan.act_every_ns, self._act, token)

    def _body_over(self, token: Token) -> None:
        if self.up:
            self.process.run(self._end_body, token)

    def _end_body(self, token: Token) -> None:
        if self._body == token:
            self._body = None
            self._note(Kind.ENDED, token, self._serial)
            self.feed(BodyEnded(token))


_PERFORM: Final[dict[type[do.Effect], Callable[[Candidacy, Any], None]]] = {
    do.Claim: Candidacy._claim,  # noqa: SLF001
    do.Renew: Candidacy._renew,  # noqa: SLF001
    do.Watch: Candidacy._watch,  # noqa: SLF001
    do.Seal: Candidacy._seal,  # noqa: SLF001
    do.StartBody: Candidacy._start_body,  # noqa: SLF001
    do.StopBody: Candidacy._stop_body,  # noqa: SLF001
    do.Release: Candidacy._release,  # noqa: SLF001
    do.Publish: Candidacy._publish,  # noqa: SLF001
}
