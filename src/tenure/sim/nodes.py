"""The candidates of a simulation, each running the shipped machine.

A candidate here is the office in virtual time: it performs the machine's effects over the simulated network and feeds
back what came of them. Its body is as careless as real ones are: it writes with the token it was given, whether or not
that is still good, because the fence and not the body's care must keep the promise.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tenure.core import effects as do
from tenure.core.events import BodyEnded, Changed, Deposed, Event, Failed, GiveUp, Resign, Stand, Tick
from tenure.core.table import State
from tenure.errors import Reason
from tenure.model import Bid, Holder, Token
from tenure.sim.clocks import SimClock
from tenure.sim.history import REASONS, Kind
from tenure.sim.plan import name_of

if TYPE_CHECKING:
    from tenure.core.candidate import Candidate
    from tenure.sim.world import World

ELECTION: Final = "sim"
_STAND, _RESIGN, _TICK = Stand(), Resign(), Tick()
_GIVE_UP: Final = GiveUp(Reason.RESIGNED)


class CandidateNode:
    """One process that stands, with its clock, its machine and its body."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self.clock = world.parts.clock(world.chance.between(10**9, 10**12), world.plan.clock_ppm[number])
        self.starts = 0
        self.who = name_of(number)
        self.up = False
        self._frozen_since: int | None = None
        self._frozen_until = 0
        self._suspended = False
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._boot()

    def _boot(self) -> None:
        timing = self.world.plan.timing
        like = Bid(ELECTION, Holder(self.who, self.starts, "sim"), 0, timing.ttl_ns)
        self.machine: Candidate = self.world.parts.candidate(like, timing)
        self._body: Token | None = None
        self._serial = 0  # of the bid that was last asked for
        self._timer_at: int | None = None
        self._shown: tuple[Token | None, int | None] = (None, None)
        self._waiting = False
        self._stand_due = False

    # What the world does to it

    def start(self) -> None:
        """Start the process, unless it runs: a new holder every time (rule 14)."""
        if not self.up:
            self.up = True
            self.starts += 1
            self.who = f"{name_of(self.number)}{self.starts}"
            self._boot()
            self.world.note(Kind.STARTED, self.who)
            self._run(self._feed, _STAND)
        elif self.world.healthy and self.machine.state is State.IDLE:
            self._run(self._feed, _STAND)

    def crash(self) -> None:
        """Kill -9: whatever was believed, running or in the inbox is gone; what is on the wire is not."""
        if self.up:
            self.up = False
            self._inbox.clear()
            self.world.note(Kind.CRASHED, self.who, self._body or 0)
            self.world.store.hung_up(self.number)

    def freeze(self, until: int, *, suspended: bool) -> None:
        """Stop the process but not time. Suspended: the whole machine sleeps, and with it clocks that do not count that."""
        if self._frozen_since is None:
            self._frozen_since = self.world.now
            self._suspended = suspended
            self.world.note(Kind.FROZE, self.who)
        self._frozen_until = max(self._frozen_until, until)
        self.world.at(until, self.thaw)

    def thaw(self) -> None:
        """Go on, with everything that came meanwhile, the timer before or after it."""
        if self._frozen_since is None or (self.world.now < self._frozen_until and not self.world.healthy):
            return
        since, self._frozen_since = self._frozen_since, None
        self.world.note(Kind.THAWED, self.who)
        if self._suspended:
            self.bend_clock(lambda clock: clock.suspended(since, self.world.now))
        inbox, self._inbox = self._inbox, []
        late_timer = self.world.chance.hit(0.5)
        if not late_timer:
            self._check_timer()
        for call, arguments in inbox:
            if self.up:
                call(*arguments)
        if late_timer:
            self._check_timer()

    def bend_clock(self, bend: Callable[[SimClock], None]) -> None:
        """Change the clock and whatever was computed from it."""
        bend(self.clock)
        token, valid_until = self._shown
        if self.up and token is not None and valid_until is not None and self.clock.now(self.world.now) < valid_until:
            self.world.note(Kind.RECLOCKED, self.who, token, self.clock.true_at(valid_until))
        self._timer_at = None
        self._set_timer()

    def set_clock_rate(self, ppm: int) -> None:
        self.bend_clock(lambda clock: clock.set_rate(self.world.now, ppm))

    def resign(self) -> None:
        """Leave by choice: for good, or in favour of another; now and then the wish changes while the body stops."""
        if self.up:
            self._run(self._feed, _RESIGN if self.world.chance.hit(0.5) else _GIVE_UP)
            if self.world.chance.hit(0.2):
                self._run(self._feed, _STAND)

    def receive(self, start: int, event: Event) -> None:
        """Take an answer from the wire; one for an earlier start of this process finds nobody."""
        if self.up and start == self.starts:
            self._run(self._feed, event)

    def deposed(self, start: int, token: Token) -> None:
        """Take the word of the store, or of the sink, that a tenure is over."""
        if self.up and start == self.starts:
            self._run(self._hear_deposed, token)

    def write_refused(self, start: int, token: Token) -> None:
        """A sink said that the token is stale: the body raises, and so ends."""
        if self.up and start == self.starts:
            self._run(self._end_body, token)

    # Running the machine

    def _run(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._frozen_since is None:
            call(*arguments)
        else:
            self._inbox.append((call, arguments))

    def _hear_deposed(self, token: Token) -> None:
        self.world.note(Kind.DEPOSED, self.who, token)
        self._feed(Deposed(token))

    def _feed(self, event: Event) -> None:
        world = self.world
        if type(event) is Changed:
            world.note(Kind.WOKEN, self.who)
        todo = self.machine.step(event, self.clock.now(world.now), world.parts.lot(world.chance))
        for effect in todo:
            _PERFORM[type(effect)](self, effect)
        self._observe()
        self._set_timer()

    def _observe(self) -> None:
        """Write down what the machine believes now, where that has changed."""
        machine, world = self.machine, self.world
        shown = machine.token, machine.valid_until
        if shown != self._shown:
            if shown[0] is not None and shown[1] is not None:
                world.note(Kind.HOLDS, self.who, shown[0], self.clock.true_at(shown[1]))
            elif self._shown[0] is not None:
                world.note(Kind.LEFT, self.who, self._shown[0])
            self._shown = shown
        waiting = machine.state is State.STANDBY
        if waiting is not self._waiting:
            self._waiting = waiting
            world.note(Kind.STANDBY if waiting else Kind.WAITS_NO_MORE, self.who)
        if machine.state is State.IDLE and not self._stand_due:
            self._stand_due = True
            idle_ns = 0 if world.healthy else world.chance.between(0, world.plan.idle_max_ns)
            world.at(world.now + idle_ns, self._stand_again, self.starts)

    def _stand_again(self, start: int) -> None:
        if self.up and start == self.starts:
            self._stand_due = False
            self._run(self._feed, _STAND)

    def _set_timer(self) -> None:
        wake_at = self.machine.wake_at
        if wake_at is not None:
            instant = max(self.world.now, self.clock.true_at(wake_at))
            if self._timer_at is None or instant < self._timer_at:
                self._timer_at = instant
                self.world.at(instant, self._timer, self.starts, instant)

    def _timer(self, start: int, instant: int) -> None:
        if self.up and start == self.starts and instant == self._timer_at and self._frozen_since is None:
            self._check_timer()

    def _check_timer(self) -> None:
        self._timer_at = None
        wake_at = self.machine.wake_at
        if self.up and wake_at is not None:
            if self.clock.now(self.world.now) >= wake_at:
                self._feed(_TICK)
            else:
                self._set_timer()

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
        self.world.send(self.number, store.number, store.request, operation, self, self.starts, attempt, subject)

    def _release(self, effect: do.Release) -> None:
        world = self.world
        world.note(Kind.RELEASED, self.who, 0, effect.bid.serial)
        world.send(self.number, world.store.number, world.store.release, effect.bid)

    def _seal(self, effect: do.Seal) -> None:
        world, plan = self.world, self.world.plan
        if world.healthy:
            delay_ns = 0
        elif world.chance.hit(plan.seal_loss):
            if world.chance.hit(0.5):  # the sink is there but cannot be sealed now
                delay_ns = world.chance.between(0, plan.seal_delay_max_ns)
                world.at(world.now + delay_ns, self.receive, self.starts, Failed(effect.attempt, definite=False))
            return
        else:
            delay_ns = world.chance.between(0, plan.seal_delay_max_ns)
        world.at(
            world.now + delay_ns, world.send, self.number, world.sink.number, world.sink.seal, self, self.starts, effect
        )

    def _start_body(self, effect: do.StartBody) -> None:
        world = self.world
        self._body = effect.token
        world.note(Kind.BEGAN, self.who, effect.token, self._serial)
        world.at(world.now, self._act, self.starts, effect.token)
        world.at(
            world.now + world.chance.between(0, world.plan.body_max_ns), self._body_over, self.starts, effect.token
        )

    def _stop_body(self, effect: do.StopBody) -> None:
        world, plan = self.world, self.world.plan
        stubborn = not world.healthy and world.chance.hit(plan.stubborn)
        longest_ns = plan.stubborn_max_ns if stubborn else plan.timing.grace_ns
        world.note(Kind.STOPPING, self.who, effect.token, REASONS.index(effect.reason), effect.reason.value)
        world.at(world.now + world.chance.between(0, longest_ns), self._body_over, self.starts, effect.token)

    def _publish(self, effect: do.Publish) -> None:
        if isinstance(effect.fact, do.Overstayed):
            self.world.note(Kind.OVERSTAYED, self.who, effect.fact.token)

    # The body

    def _act(self, start: int, token: Token) -> None:
        """Write, or give the worker an order, and come again."""
        if self.up and start == self.starts and self._body == token:
            self._run(self._act_now, token)

    def _act_now(self, token: Token) -> None:
        world, plan = self.world, self.world.plan
        if self._body != token:
            return
        valid_until = self.machine.valid_until
        if not plan.body_checks or (valid_until is not None and self.clock.now(world.now) < valid_until):
            if world.chance.hit(0.5):
                world.send(self.number, world.sink.number, world.sink.write, self, self.starts, token)
            else:
                world.send(self.number, world.worker.number, world.worker.order, token)
        world.at(world.now + plan.act_every_ns, self._act, self.starts, token)

    def _body_over(self, start: int, token: Token) -> None:
        if self.up and start == self.starts:
            self._run(self._end_body, token)

    def _end_body(self, token: Token) -> None:
        if self._body == token:
            self._body = None
            self.world.note(Kind.ENDED, self.who, token, self._serial)
            self._feed(BodyEnded(token))


_PERFORM: Final[dict[type[do.Effect], Callable[[CandidateNode, Any], None]]] = {
    do.Claim: CandidateNode._claim,  # noqa: SLF001
    do.Renew: CandidateNode._renew,  # noqa: SLF001
    do.Watch: CandidateNode._watch,  # noqa: SLF001
    do.Seal: CandidateNode._seal,  # noqa: SLF001
    do.StartBody: CandidateNode._start_body,  # noqa: SLF001
    do.StopBody: CandidateNode._stop_body,  # noqa: SLF001
    do.Release: CandidateNode._release,  # noqa: SLF001
    do.Publish: CandidateNode._publish,  # noqa: SLF001
}
