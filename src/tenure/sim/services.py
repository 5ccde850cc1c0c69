"""What the candidates of a simulation talk to: the store, the sink and the worker.

The store runs the shipped ``MemoryEngine`` on a clock of its own; sink and worker keep the shipped ``Fence``, one for each
election.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tenure.core.events import Changed, Event, Failed, Granted, MustWait, Sealed
from tenure.errors import StaleToken
from tenure.model import Bid, Ended, Grant, Token, Wait
from tenure.sim.candidacies import election_name
from tenure.sim.history import Kind

if TYPE_CHECKING:
    from tenure.core.effects import Seal
    from tenure.sim.candidacies import Candidacy
    from tenure.sim.nodes import Round
    from tenure.sim.world import World

Operation = Callable[[Any, int, Any], None]


class Seen:
    """One election, as the store last wrote it down, and who watches it."""

    def __init__(self, election: int) -> None:
        self.number, self.name = election, election_name(election)
        self.held: Grant | None = None
        self.watches: dict[int, tuple[Candidacy, int, Wait]] = {}  # by process
        self.timer_at: int | None = None


class StoreNode:
    """The engine behind the network. Its record is durable; its watches are not."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self.clock = world.parts.clock(world.chance.between(10**9, 10**12), world.plan.clock_ppm[-1])
        self.engine = world.parts.engine(queue=world.plan.queue)
        self._elections = {election_name(number): Seen(number) for number in range(world.plan.elections)}
        self._down_until = 0
        self._silent = False
        self._ticket = 0
        self._in_service: dict[int, tuple[Candidacy | Round, int]] = {}  # of a fragile store

    # Requests

    def request(self, operation: Operation, asker: "Candidacy | Round", attempt: int, subject: Any) -> None:
        """Take one request from the wire: serve it, or be down, or fall over under it."""
        fragile = self.world.plan.fragile
        if self.world.now < self._down_until:
            if not self._silent:
                self._answer(asker, Failed(attempt, definite=self.world.chance.hit(0.5)))
        elif fragile is None:
            operation(asker, attempt, subject)
        else:
            ticket = self._ticket = self._ticket + 1
            self._in_service[ticket] = (asker, attempt)
            self.world.at(self.world.now + fragile.service_ns, self._serve, ticket, operation, subject)
            if len(self._in_service) >= fragile.limit:
                self.world.note(Kind.FAULT, "store", words="fell over under a herd")
                self.fail(self.world.now + fragile.down_ns, silent=False)

    def _serve(self, ticket: int, operation: Operation, subject: Any) -> None:
        asked = self._in_service.pop(ticket, None)
        if asked is not None:
            operation(*asked, subject)

    def claim(self, asker: "Candidacy", attempt: int, bid: Bid) -> None:
        seen = self._elections[bid.election]
        self.world.note(Kind.ASKED, asker.who, 0, bid.serial, election=seen.number)
        answer = self.engine.claim(bid, self._now())
        self._settle(seen)
        if isinstance(answer, Grant):
            self._note_lease(seen, answer.token)
            self._answer(asker, Granted(attempt, answer))
        else:
            self._answer(asker, MustWait(attempt, answer))

    def renew(self, asker: "Candidacy", attempt: int, grant: Grant) -> None:
        answer = self._renew(grant)
        if isinstance(answer, Grant):
            self._answer(asker, Granted(attempt, answer))
        else:
            self.world.send(self.number, asker.number, asker.deposed, grant.token)

    def renew_together(self, asker: "Round", attempt: int, grants: list[Grant]) -> None:
        """Renew all, and name those that have ended."""
        world, answers = self.world, [self._renew(grant) for grant in grants]
        ended = frozenset(answer.bid for answer in answers if isinstance(answer, Ended))
        if not world.healthy and world.chance.hit(world.plan.reset):
            self._answer(asker, Failed(attempt, definite=False))
        else:
            world.send(self.number, asker.number, asker.renewed, ended)

    def _renew(self, grant: Grant) -> Grant | Ended:
        seen = self._elections[grant.bid.election]
        self._settle(seen)
        answer = self.engine.renew(grant, self._now())
        if isinstance(answer, Grant):
            self.world.note(Kind.RENEWED, "store", answer.token, election=seen.number)
            self._settle(seen)
            self._note_lease(seen, answer.token)
        return answer

    def release(self, bid: Bid) -> None:
        if self.world.now >= self._down_until:
            self.engine.release(bid, self._now())
            self._settle(self._elections[bid.election])

    def watch(self, asker: "Candidacy", attempt: int, wait: Wait) -> None:
        if not asker.up:
            return  # It comes from a process that has died: its connection is closed, and nobody watches there.
        seen = self._elections[wait.bid.election]
        self._drop_watch(seen, asker.number)
        seen.watches[asker.number] = (asker, attempt, wait)
        self.engine.watching(wait.bid, +1, self._now())
        self._settle(seen)

    # Faults

    def hung_up(self, number: int) -> None:
        """The connection of a process that died is closed: nobody watches there any more."""
        for seen in self._elections.values():
            self._drop_watch(seen, number)
            self._settle(seen)

    def delete(self) -> None:
        """An operator deletes a record by hand: the office is free while its holder believes in it."""
        seen = self._elections[election_name(self.world.an_election())]
        if seen.held is not None:
            self.world.note(Kind.DELETED, "store", seen.held.token, election=seen.number)
        self.engine.delete(seen.name)
        self._settle(seen)

    def fail(self, until: int, *, silent: bool) -> None:
        """Be down: silently (no answer at all), or as a process that restarts (connections are refused or reset)."""
        self._down_until, self._silent = max(self._down_until, until), silent
        watches = [watch[:2] for seen in self._elections.values() for watch in seen.watches.values()]
        broken = [*self._in_service.values(), *watches]
        self._in_service.clear()
        for seen in self._elections.values():
            for number in list(seen.watches):
                self._drop_watch(seen, number)
        for asker, attempt in broken if not silent else ():
            self._answer(asker, Failed(attempt, definite=False))

    def come_back(self) -> None:
        self._down_until = 0

    # Inside

    def _now(self) -> int:
        return self.clock.now(self.world.now)

    def _answer(self, asker: "Candidacy | Round", event: Event) -> None:
        world = self.world
        if not world.healthy and isinstance(event, Granted | MustWait) and world.chance.hit(world.plan.reset):
            event = Failed(event.attempt, definite=False)
        world.send(self.number, asker.number, asker.receive, event)

    def _settle(self, seen: Seen) -> None:
        """Write down whose the office is, wake who may claim now, and come back when time alone will change that."""
        world, now = self.world, self._now()
        held = self.engine.holding(seen.name, now)
        if held != seen.held:
            if seen.held is not None:
                world.note(Kind.FREED, "store", seen.held.token, election=seen.number)
            if held is not None:
                world.note(Kind.GRANTED, held.bid.holder.host, held.token, held.bid.serial, election=seen.number)
            seen.held = held
        if held is None:
            self._wake(seen, now)
        self._set_timer(seen, now)

    def _note_lease(self, seen: Seen, token: Token) -> None:
        """Write down up to when the office is taken, whatever happens."""
        end = self.engine.next_expiry(seen.name, self._now())
        self.world.note(
            Kind.LEASED, "store", token, 0 if end is None else self.clock.true_at(end), election=seen.number
        )

    def _wake(self, seen: Seen, now: int) -> None:
        for number, (asker, attempt, wait) in list(seen.watches.items()):
            if self.engine.may_help(wait, now):
                self._drop_watch(seen, number)
                self._answer(asker, Changed(attempt))

    def _drop_watch(self, seen: Seen, number: int) -> None:
        watch = seen.watches.pop(number, None)
        if watch is not None:
            self.engine.watching(watch[2].bid, -1, self._now())

    def _set_timer(self, seen: Seen, now: int) -> None:
        expiry = self.engine.next_expiry(seen.name, now)
        if expiry is not None:
            instant = self.clock.true_at(expiry)
            if seen.timer_at is None or instant < seen.timer_at:
                seen.timer_at = instant
                self.world.at(instant, self._expire, seen, instant)

    def _expire(self, seen: Seen, instant: int) -> None:
        if instant == seen.timer_at:
            seen.timer_at = None
            self._settle(seen)


class SinkNode:
    """Where leaders write. Check and write are one step; the highest token seen is as durable as the data."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self._fences = [world.parts.fence() for _ in range(world.plan.elections)]

    def seal(self, asker: "Candidacy", effect: "Seal") -> None:
        try:
            self._fences[asker.election].admit(effect.token)
        except StaleToken:
            self.world.send(self.number, asker.number, asker.deposed, effect.token)
        else:
            self.world.note(Kind.SEALED, "sink", effect.token, election=asker.election)
            self.world.send(self.number, asker.number, asker.receive, Sealed(effect.token))

    def write(self, asker: "Candidacy", token: Token) -> None:
        try:
            self._fences[asker.election].admit(token)
        except StaleToken:
            self.world.note(Kind.REFUSED, "sink", token, election=asker.election)
            self.world.send(self.number, asker.number, asker.write_refused, token)
        else:
            self.world.note(Kind.ACCEPTED, "sink", token, election=asker.election)


class WorkerNode:
    """Takes orders with a token not older than any it has seen, and goes on executing the last one of each election."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self._fences = [world.parts.fence() for _ in range(world.plan.elections)]
        self._orders: dict[int, Token] = {}

    def order(self, election: int, token: Token) -> None:
        try:
            self._fences[election].admit(token)
        except StaleToken:
            return
        self._orders[election] = token
        self._execute(election)
        self.world.at(self.world.now + self.world.plan.act_every_ns, self._execute, election)

    def restart(self) -> None:
        """Begin anew with what is durable: the orders and the highest token seen."""
        for election in self._orders:
            self._execute(election)

    def _execute(self, election: int) -> None:
        self.world.note(Kind.EXECUTED, "worker", self._orders[election], election=election)
