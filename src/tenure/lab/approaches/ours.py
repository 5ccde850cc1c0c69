"""The machine that this package ships, over its model store, in this world: nothing of either is written again.

``core.candidate`` decides, ``MemoryEngine`` answers on a server, and the sink is sealed before the body begins, as in production.
"""

from typing import Any, Final

from tenure.core import candidate as core
from tenure.core import effects as do
from tenure.core.events import BodyEnded, Changed, Deposed, Event, Granted, MustWait, Stand, Tick
from tenure.core.events import Sealed as SinkSealed
from tenure.core.table import State
from tenure.lab.approaches.cast import HEARTBEAT_NS, SERVERS, SINK, TTL_NS
from tenure.lab.approaches.node import Body, Steady, Tenure
from tenure.lab.faults import name_of
from tenure.lab.world import NEVER, World
from tenure.model import Bid, Grant, Holder, Token, Wait
from tenure.stores.memory import MemoryEngine
from tenure.timing import Timing

ENGINE: Final = SERVERS[0]
TIMING: Final = Timing.of(ttl=TTL_NS / 1e9, heartbeat=HEARTBEAT_NS / 1e9)
_ELECTION: Final = "lab"
_STAND, _TICK = Stand(), Tick()


class Engine(Steady):
    """The store behind the network. Its record is durable, as with any engine that this package calls safe; its watches are not."""

    __slots__ = ("_engine", "_watches")

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self._engine = MemoryEngine()

    def started(self) -> None:
        self._watches: dict[int, tuple[int, Wait]] = {}

    def received(self, source: int, message: Any) -> None:
        engine, now = self._engine, self.clock()
        if isinstance(message, do.Claim):
            before = engine.holding(_ELECTION, now)
            answer = engine.claim(message.bid, now)
            if isinstance(answer, Grant):
                if answer != before:
                    self.world.note("granted", source, answer.token, "the store")
                self.send(source, Granted(message.attempt, answer))
            else:
                self.send(source, MustWait(message.attempt, answer))
        elif isinstance(message, do.Renew):
            kept = isinstance(engine.renew(message.grant, now), Grant)
            self.send(source, Granted(message.attempt, message.grant) if kept else Deposed(message.grant.token))
        elif isinstance(message, do.Watch):
            self._watches[source] = (message.attempt, message.wait)
        elif isinstance(message, do.Release):
            engine.release(message.bid, now)
        self.woken()

    def woken(self) -> None:
        engine, now = self._engine, self.clock()
        for source, (attempt, wait) in list(self._watches.items()):
            if engine.may_help(wait, now):
                del self._watches[source]
                self.send(source, Changed(attempt))
        ends_at = engine.next_expiry(_ELECTION, now) if self._watches else None
        self.wake_at(NEVER if ends_at is None else ends_at)


class Ours(Steady):
    """One candidate: performs the effects of the shipped machine over this network."""

    __slots__ = ("_body", "_candidate")

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self._candidate: core.Candidate
        self._body: Body

    def started(self) -> None:
        like = Bid(_ELECTION, Holder(name_of(self.number), self.life, "lab"), 0, TTL_NS)
        self._candidate = core.Candidate(like, TIMING)
        self._body = Body(self, self._may_work, self._on_refused, sealed=self._on_sealed)
        self._feed(_STAND)

    def received(self, source: int, message: Any) -> None:
        if source == SINK:
            self._body.hear(message)
        else:
            self._feed(message)

    def woken(self) -> None:
        self._feed(_TICK)

    def _may_work(self) -> bool:
        valid_until = self._candidate.valid_until
        return valid_until is not None and self.clock() < valid_until

    def _on_sealed(self, tenure: Tenure) -> None:
        self._feed(SinkSealed(Token(tenure.token)))

    def _on_refused(self, tenure: Tenure) -> None:
        if tenure.begun:
            self._end_body(Token(tenure.token), "refused by the sink")  # The write raises in the body, and so ends it.
        else:
            self._feed(Deposed(Token(tenure.token)))

    def _end_body(self, token: Token, why: str) -> None:
        self._body.stop(why)
        self._feed(BodyEnded(token))

    def _feed(self, event: Event) -> None:
        machine = self._candidate
        for effect in machine.step(event, self.clock(), self.world.chance.lot()):
            if isinstance(effect, do.Claim | do.Renew | do.Watch | do.Release):
                self.send(ENGINE, effect)
            elif isinstance(effect, do.Seal):
                if self._body.tenure is None or self._body.tenure.token != effect.token:
                    self._body.lead(effect.token)
            elif isinstance(effect, do.StartBody):
                if self._body.tenure is not None:
                    self._body.begin(self._body.tenure)
            elif isinstance(effect, do.StopBody):
                self.after(0, self._end_body, effect.token, effect.reason.value)
        if machine.state is State.IDLE:
            self.after(HEARTBEAT_NS, self._stand)
        self.wake_at(NEVER if machine.wake_at is None else machine.wake_at)

    def _stand(self) -> None:
        if self._candidate.state is State.IDLE:
            self._feed(_STAND)
