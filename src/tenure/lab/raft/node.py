"""A server of Raft in the world: performs what the machine asks for, in its order, and feeds back what comes. It decides nothing."""

from collections.abc import Callable  # noqa: TC003  (mypy reads it where ruff sees only a comment)
from typing import Any, Final

from tenure.lab.faults import name_of
from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import (
    Append,
    Became,
    Effect,
    Event,
    Propose,
    RequestVote,
    Save,
    Saved,
    Send,
    Tick,
    Vote,
)
from tenure.lab.raft.voting import NOBODY, Settings
from tenure.lab.world import Node, World

_TICK: Final = Tick()


class RaftNode(Node):
    """One server on one machine. What is on its disk stands in ``disk``, and nothing else survives a crash."""

    __slots__ = ("answer_takes_ns", "kind", "lots", "server", "settings", "talks", "watcher")

    def __init__(self, world: World, number: int, settings: Settings, kind: type[Server] = Server) -> None:
        super().__init__(world, number)
        self.settings, self.kind = settings, kind
        self.answer_takes_ns = (0, 0)  # how long, from and to, it takes to write what an answer promises
        self.watcher: Callable[[RaftNode, list[Effect]], None] | None = None  # looks at each step, and may strike
        self.talks = False  # whether it notes what is said, for stories
        self.lots: list[float] = []  # what it draws, the last one again and again, for stories; []: what the world does
        fresh = Saved()
        self.disk = {"term": fresh.term, "voted_for": fresh.voted_for, "log": list(fresh.log)}
        self.server: Server

    def started(self) -> None:
        count = len(self.world.nodes) or self.world.plan.nodes
        self.server = self.kind(self.number, count, self.settings, self._lot, self.restored(), self.clock())
        self.wake_at(self.server.wake_at)

    def _lot(self) -> float:
        if not self.lots:
            return self.world.chance.lot()
        return self.lots.pop(0) if len(self.lots) > 1 else self.lots[0]

    def restored(self) -> Saved:
        """Return what the disk has."""
        disk = self.disk
        return Saved(disk["term"], disk["voted_for"], tuple(disk["log"]))

    def received(self, source: int, message: Any) -> None:  # noqa: ARG002  (a message says who sent it)
        if self.talks and isinstance(message, RequestVote):
            self.world.note("asked", self.number, message.term, (message.candidate, self._objection(message)))
        self.perform(self.server.step(message, self.clock()))

    def _objection(self, request: RequestVote) -> str:
        """Say in words what speaks against this request, as the three conditions have it."""
        server, last = self.server, self.server.log[-1].term
        if request.term < server.term:
            return f"knows that term {request.term} is over"
        if request.term == server.term and server.voted_for not in (NOBODY, request.candidate):
            return f"has voted for {'itself' if server.voted_for == self.number else name_of(server.voted_for)}"
        if (request.last_term, request.last_index) < (last, len(server.log) - 1):
            return "has a newer log"
        return "hears a leader" if request.pre else ""

    def woken(self) -> None:
        self.perform(self.server.step(_TICK, self.clock()))

    def propose(self, value: str) -> None:
        """Give it a command of a client; it is taken only if it leads, or believes so."""
        if self.up and not self.paused:
            self.world.note("proposed", self.number, self.server.term, value)
            self.perform(self.server.step(Propose(value), self.clock()))

    def perform(self, effects: list[Effect]) -> None:
        """Do what one step asks for, in its order. A server that is torn dies on the way."""
        if self.watcher is not None:
            self.watcher(self, effects)
        dies = 0 <= self.torn_after < len(effects)
        for effect in effects[: self.torn_after] if dies else effects:
            self._perform(effect)
        if dies:
            self.tear()
        else:
            self.wake_at(self.server.wake_at)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(effect.target, effect.message)
        elif isinstance(effect, Save):
            self._save(effect)
        elif isinstance(effect, Became):
            self.world.note("became", self.number, effect.term, (effect.role, effect.why))
        else:
            self.world.note("applied", self.number, effect.first, (effect.entries, effect.term))

    def _send(self, target: int, message: Event) -> None:
        if self.talks:
            self._tell(target, message)
        low, high = self.answer_takes_ns
        hold_ns = 0
        if high and not isinstance(message, RequestVote | Append):
            hold_ns = low + int(self.world.chance.lot() * (high - low))
        self.world.send(self.number, target, message, hold_ns)

    def _save(self, save: Save) -> None:
        disk = self.disk
        disk["term"], disk["voted_for"] = save.term, save.voted_for
        log = disk["log"]
        if save.entries or save.keep < len(log):
            cut = tuple(log[save.keep :])
            log[save.keep :] = save.entries
            self.world.note("wrote", self.number, save.keep, (save.entries, cut))

    def _tell(self, target: int, message: Event) -> None:
        if isinstance(message, Vote):
            self.world.note("voted", self.number, message.term, (target, message.granted, message.pre))
        elif isinstance(message, Append) and message.entries:
            self.world.note("fed", self.number, message.term, (target, message.prev_index + 1, message.entries))
