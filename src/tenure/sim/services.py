"""What the candidates of a simulation talk to: the store, the sink and the worker.

The store runs the shipped ``MemoryEngine`` on a clock of its own; sink and worker keep the shipped ``Fence``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tenure.core.events import Changed, Event, Failed, Granted, MustWait, Sealed
from tenure.errors import StaleToken
from tenure.model import Bid, Grant, Token, Wait
from tenure.sim.history import Kind
from tenure.sim.nodes import ELECTION

if TYPE_CHECKING:
    from tenure.core.effects import Seal
    from tenure.sim.nodes import CandidateNode
    from tenure.sim.world import World

Operation = Callable[["CandidateNode", int, int, Any], None]


class StoreNode:
    """The engine behind the network. Its record is durable; its watches are not."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self.clock = world.parts.clock(world.chance.between(10**9, 10**12), world.plan.clock_ppm[-1])
        self.engine = world.parts.engine(queue=world.plan.queue)
        self._held: Grant | None = None  # as last written down
        self._watches: dict[int, tuple[CandidateNode, int, int, Wait]] = {}
        self._down_until = 0
        self._silent = False
        self._timer_at: int | None = None
        self._ticket = 0
        self._in_service: dict[int, tuple[CandidateNode, int, int]] = {}  # of a fragile store

    # Requests

    def request(self, operation: Operation, asker: "CandidateNode", start: int, attempt: int, subject: Any) -> None:
        """Take one request from the wire: serve it, or be down, or fall over under it."""
        fragile = self.world.plan.fragile
        if self.world.now < self._down_until:
            if not self._silent:
                self._answer(asker, start, Failed(attempt, definite=self.world.chance.hit(0.5)))
        elif fragile is None:
            operation(asker, start, attempt, subject)
        else:
            ticket = self._ticket = self._ticket + 1
            self._in_service[ticket] = (asker, start, attempt)
            self.world.at(self.world.now + fragile.service_ns, self._serve, ticket, operation, subject)
            if len(self._in_service) >= fragile.limit:
                self.world.note(Kind.FAULT, "store", words="fell over under a herd")
                self.fail(self.world.now + fragile.down_ns, silent=False)

    def _serve(self, ticket: int, operation: Operation, subject: Any) -> None:
        asked = self._in_service.pop(ticket, None)
        if asked is not None:
            operation(*asked, subject)

    def claim(self, asker: "CandidateNode", start: int, attempt: int, bid: Bid) -> None:
        self.world.note(Kind.ASKED, asker.who, 0, bid.serial)
        answer = self.engine.claim(bid, self._now())
        self._settle()
        if isinstance(answer, Grant):
            self._note_lease(answer.token)
            self._answer(asker, start, Granted(attempt, answer))
        else:
            self._answer(asker, start, MustWait(attempt, answer))

    def renew(self, asker: "CandidateNode", start: int, attempt: int, grant: Grant) -> None:
        self._settle()
        answer = self.engine.renew(grant, self._now())
        if isinstance(answer, Grant):
            self.world.note(Kind.RENEWED, "store", answer.token)
            self._settle()
            self._note_lease(answer.token)
            self._answer(asker, start, Granted(attempt, answer))
        else:
            self.world.send(self.number, asker.number, asker.deposed, start, grant.token)

    def release(self, bid: Bid) -> None:
        if self.world.now >= self._down_until:
            self.engine.release(bid, self._now())
            self._settle()

    def watch(self, asker: "CandidateNode", start: int, attempt: int, wait: Wait) -> None:
        if not asker.up or start != asker.starts:
            return  # It comes from a process that has died: its connection is closed, and nobody watches there.
        self._drop_watch(asker.number)
        self._watches[asker.number] = (asker, start, attempt, wait)
        self.engine.watching(wait.bid, +1, self._now())
        self._settle()

    # Faults

    def hung_up(self, number: int) -> None:
        """The connection of a process that died is closed: nobody watches there any more."""
        self._drop_watch(number)
        self._settle()

    def delete(self) -> None:
        """An operator deletes the record by hand: the office is free while its holder believes in it."""
        if self._held is not None:
            self.world.note(Kind.DELETED, "store", self._held.token)
        self.engine.delete(ELECTION)
        self._settle()

    def fail(self, until: int, *, silent: bool) -> None:
        """Be down: silently (no answer at all), or as a process that restarts (connections are refused or reset)."""
        self._down_until, self._silent = max(self._down_until, until), silent
        broken = [*self._in_service.values(), *(watch[:3] for watch in self._watches.values())]
        self._in_service.clear()
        for number in list(self._watches):
            self._drop_watch(number)
        for asker, start, attempt in broken if not silent else ():
            self._answer(asker, start, Failed(attempt, definite=False))

    def come_back(self) -> None:
        self._down_until = 0

    # Inside

    def _now(self) -> int:
        return self.clock.now(self.world.now)

    def _answer(self, asker: "CandidateNode", start: int, event: Event) -> None:
        world = self.world
        if not world.healthy and isinstance(event, Granted | MustWait) and world.chance.hit(world.plan.reset):
            event = Failed(event.attempt, definite=False)
        world.send(self.number, asker.number, asker.receive, start, event)

    def _settle(self) -> None:
        """Write down whose the office is, wake who may claim now, and come back when time alone will change that."""
        world, now = self.world, self._now()
        held = self.engine.holding(ELECTION, now)
        if held != self._held:
            if self._held is not None:
                world.note(Kind.FREED, "store", self._held.token)
            if held is not None:
                world.note(Kind.GRANTED, held.bid.holder.host, held.token, held.bid.serial)
            self._held = held
        if held is None:
            self._wake(now)
        self._set_timer(now)

    def _note_lease(self, token: Token) -> None:
        """Write down up to when the office is taken, whatever happens."""
        end = self.engine.next_expiry(ELECTION, self._now())
        self.world.note(Kind.LEASED, "store", token, 0 if end is None else self.clock.true_at(end))

    def _wake(self, now: int) -> None:
        for number, (asker, start, attempt, wait) in list(self._watches.items()):
            if self.engine.may_help(wait, now):
                self._drop_watch(number)
                self._answer(asker, start, Changed(attempt))

    def _drop_watch(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            self.engine.watching(watch[3].bid, -1, self._now())

    def _set_timer(self, now: int) -> None:
        expiry = self.engine.next_expiry(ELECTION, now)
        if expiry is not None:
            instant = self.clock.true_at(expiry)
            if self._timer_at is None or instant < self._timer_at:
                self._timer_at = instant
                self.world.at(instant, self._expire, instant)

    def _expire(self, instant: int) -> None:
        if instant == self._timer_at:
            self._timer_at = None
            self._settle()


class SinkNode:
    """Where leaders write. Check and write are one step; the highest token seen is as durable as the data."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self._fence = world.parts.fence()

    def seal(self, asker: "CandidateNode", start: int, effect: "Seal") -> None:
        try:
            self._fence.admit(effect.token)
        except StaleToken:
            self.world.send(self.number, asker.number, asker.deposed, start, effect.token)
        else:
            self.world.note(Kind.SEALED, "sink", effect.token)
            self.world.send(self.number, asker.number, asker.receive, start, Sealed(effect.token))

    def write(self, asker: "CandidateNode", start: int, token: Token) -> None:
        try:
            self._fence.admit(token)
        except StaleToken:
            self.world.note(Kind.REFUSED, "sink", token)
            self.world.send(self.number, asker.number, asker.write_refused, start, token)
        else:
            self.world.note(Kind.ACCEPTED, "sink", token)


class WorkerNode:
    """Takes orders with a token not older than any it has seen, and goes on executing the last one."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self._fence = world.parts.fence()
        self._order: Token | None = None

    def order(self, token: Token) -> None:
        try:
            self._fence.admit(token)
        except StaleToken:
            return
        self._order = token
        self._execute()
        self.world.at(self.world.now + self.world.plan.act_every_ns, self._execute)

    def restart(self) -> None:
        """Begin anew with what is durable: the order and the highest token seen."""
        self._execute()

    def _execute(self) -> None:
        if self._order is not None:
            self.world.note(Kind.EXECUTED, "worker", self._order)
