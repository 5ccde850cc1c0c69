"""The processes of a simulation: each has a clock, a candidate in every election, and a cohort of those that lead."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tenure.core.events import Event, Failed, GiveUp, Granted, Resign
from tenure.core.table import State
from tenure.errors import Reason
from tenure.sim.candidacies import Candidacy
from tenure.sim.clocks import SimClock
from tenure.sim.history import Kind
from tenure.sim.plan import name_of

if TYPE_CHECKING:
    from tenure.core.cohort import Asked, Cohort
    from tenure.model import Bid
    from tenure.sim.world import World

_RESIGN: Final = Resign()
_GIVE_UP: Final = GiveUp(Reason.RESIGNED)


class ProcessNode:
    """One process that stands."""

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
        self.candidacies = [Candidacy(self, election) for election in range(self.world.plan.elections)]
        self.cohort: Cohort[Candidacy] = self.world.parts.cohort(self.world.plan.timing)
        self._round: Round | None = None  # the one that is under way

    # What the world does to it

    def start(self) -> None:
        """Start the process, unless it runs: a new holder every time (rule 14)."""
        if not self.up:
            self.up = True
            self.starts += 1
            self.who = f"{name_of(self.number)}{self.starts}"
            self._boot()
            self.world.note(Kind.STARTED, self.who)
            for candidacy in self.candidacies:
                candidacy.stand()
        elif self.world.healthy:
            for candidacy in self.candidacies:
                if candidacy.candidate.state is State.IDLE:
                    candidacy.stand()

    def crash(self) -> None:
        """Kill -9: whatever was believed, running or in the inbox is gone; what is on the wire is not."""
        if self.up:
            self.up = False
            self._inbox.clear()
            self.world.note(Kind.CRASHED, self.who)
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
        """Go on, with everything that came meanwhile, the timers before or after it."""
        if self._frozen_since is None or (self.world.now < self._frozen_until and not self.world.healthy):
            return
        since, self._frozen_since = self._frozen_since, None
        self.world.note(Kind.THAWED, self.who)
        if self._suspended:
            self.bend_clock(lambda clock: clock.suspended(since, self.world.now))
        inbox, self._inbox = self._inbox, []
        late_timer = self.world.chance.hit(0.5)
        if not late_timer:
            self._check_timers()
        for call, arguments in inbox:
            if self.up:
                call(*arguments)
        if late_timer:
            self._check_timers()

    @property
    def frozen(self) -> bool:
        return self._frozen_since is not None

    def bend_clock(self, bend: Callable[[SimClock], None]) -> None:
        """Change the clock and whatever was computed from it."""
        bend(self.clock)
        for candidacy in self.candidacies:
            candidacy.reclocked()
        self._set_timer()

    def set_clock_rate(self, ppm: int) -> None:
        self.bend_clock(lambda clock: clock.set_rate(self.world.now, ppm))

    def resign(self) -> None:
        """Leave by choice: for good, or in favour of another; now and then the wish changes while the body stops."""
        if self.up:
            candidacy = self.candidacies[self.world.an_election()]
            self.run(candidacy.feed, _RESIGN if self.world.chance.hit(0.5) else _GIVE_UP)
            if self.world.chance.hit(0.2):
                candidacy.stand()

    def run(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call now, or when the process goes on."""
        if self._frozen_since is None:
            call(*arguments)
        else:
            self._inbox.append((call, arguments))

    def local_now(self) -> int:
        return self.clock.now(self.world.now)

    # Renewing together, as the office does it

    def begin_round(self) -> bool:
        """Renew all who are due on this mark with one request. False: that is not possible now."""
        cohort, now = self.cohort, self.local_now()
        if self._round is not None or (cohort.members and now < cohort.due_at):
            return False
        out = cohort.begin(now)
        due = [one for one in self.candidacies if one in out or (one.may_renew_together() and one.is_due())]
        for candidacy in due:
            effect = candidacy.renewal()
            if effect is not None:
                cohort.ask(effect, candidacy)
        begun = Round(self, now)
        if begun.grants:
            self._round = begun
            store = self.world.store
            self.world.send(self.number, store.number, store.request, store.renew_together, begun, 0, begun.grants)
        else:
            cohort.failed()
        self._set_timer()
        return True

    def _set_timer(self) -> None:
        if self._round is None and self.cohort.members:
            self._call_at(self.cohort.due_at)
        elif self._round is not None:
            self._call_at(self._round.asked_at + self.cohort.patience_ns)
            self._call_at(self._round.asked_at + self.world.plan.timing.attempt_timeout_ns)

    def _call_at(self, instant: int) -> None:
        self.world.at(max(self.world.now, self.clock.true_at(instant)), self._timer, self.starts)

    def _timer(self, start: int) -> None:
        if self.up and start == self.starts and not self.frozen:
            self._check_timer()

    def _check_timers(self) -> None:
        if self.up:
            for candidacy in self.candidacies:
                candidacy.check_timer()
            self._check_timer()

    def _check_timer(self) -> None:
        now, begun = self.local_now(), self._round
        if begun is None:
            if self.cohort.members and now >= self.cohort.due_at:
                self.begin_round()
        elif now >= begun.asked_at + self.world.plan.timing.attempt_timeout_ns:
            self.hear(begun, None)
        elif now >= begun.asked_at + self.cohort.patience_ns:
            for one in self.cohort.late():
                one.member.look_after_time()

    def hear(self, begun: "Round", ended: "frozenset[Bid] | None", definite: bool = False) -> None:
        """Take the answer to a round, or None for a failure. One that had been given up is good all the same (rule 7)."""
        apart = begun.apart
        if begun is self._round:
            self._round = None
            apart = self.cohort.failed() if ended is None else self.cohort.answered(self.local_now(), ended)
            for member in list(self.cohort.members.values()):
                member.observe()
            begun.apart = apart
        for one in apart:
            effect = one.effect
            if ended is None:
                one.member.feed(Failed(effect.attempt, definite=definite))
            elif effect.grant.bid in ended:
                one.member.hear_deposed(effect.grant.token)
            else:
                one.member.feed(Granted(effect.attempt, effect.grant))
                if self._round is None and self.cohort.admit(one.member):
                    one.member.look_after_time()
        self._set_timer()


class Round:
    """One request for all who renew together, as the store sees who asks."""

    def __init__(self, process: ProcessNode, asked_at: int) -> None:
        self._process, self._start = process, process.starts
        self.number, self.who, self.asked_at = process.number, process.who, asked_at
        self.apart: list[Asked[Candidacy]] = []  # who can still be told, after it was given up
        members = (member.candidate.held for member in process.cohort.members.values())
        grants = [held.grant for held in members if held is not None]
        self.grants = [*grants, *(one.effect.grant for one in process.cohort.apart)]

    @property
    def up(self) -> bool:
        return self._process.up and self._start == self._process.starts

    def receive(self, event: Event) -> None:
        """Hear that the store could not be asked, or that its answer was lost."""
        if self.up and isinstance(event, Failed):
            self._process.run(self._process.hear, self, None, event.definite)

    def renewed(self, ended: "frozenset[Bid]") -> None:
        if self.up:
            self._process.run(self._process.hear, self, ended)
