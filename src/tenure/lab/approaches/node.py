"""The nodes of candidates, and the work that a leader does: the same for every approach.

A leader asks the sink which task is next, and tells it its number: a sink with a fence refuses all lower ones from then on. Then it
works: it asks its machine whether it leads, works for a while, and writes what came of it. A process can be paused between the
question and the write, and no question can change that: asked again before the write, it can be paused after that one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenure.lab.approaches.cast import GAP_MAX_NS, HEARTBEAT_NS, JOB_NS, SINK
from tenure.lab.approaches.machines import Lead, Machine, Send
from tenure.lab.world import Node, World

Key = tuple[int, int, int]  # candidate, its life, and which of its tenures in it


class Seal(NamedTuple):
    """A new leader asks what is next. ``token`` 0: the approach has no number for it."""

    key: Key
    token: int


class Sealed(NamedTuple):
    """The sink's answer: begin with this task. ``tenure``: how many have asked so far; leaders do not look at it."""

    key: Key
    task: int
    tenure: int


class Write(NamedTuple):
    """What came of a task. ``tenure`` is for checkers: the true order, which no leader knows of another."""

    key: Key
    token: int
    task: int
    tenure: int


class Refused(NamedTuple):
    """The sink has seen a higher number."""

    key: Key


class Steady(Node):
    """A node whose clock cannot be set: it counts from the start of the machine. It may drift."""

    __slots__ = ()

    def set_clock(self, by_ns: int = 0, ppm: int | None = None) -> None:  # noqa: ARG002
        super().set_clock(0, ppm)


@dataclass(slots=True)
class Tenure:
    """One time in which a candidate believes that it leads. ``number``: the order in which the sink heard of them."""

    key: Key
    token: int
    number: int = 0
    task: int = 0
    begun: bool = False
    at_work: bool = False


class Body:
    """The work of one candidate, and what its machine says to it.

    ``may_work`` is asked before every task, ``worked`` is told after it, ``refused`` that the sink has seen somebody newer.
    ``sealed``: the sink is, and the work may begin; if nobody is to be asked, it does.
    """

    __slots__ = ("_count", "_may_work", "_node", "_refused", "_sealed", "_worked", "_world", "tenure")

    def __init__(
        self,
        node: Node,
        may_work: Callable[[], bool],
        refused: Callable[[Tenure], None],
        *,
        sealed: Callable[[Tenure], None] | None = None,
        worked: Callable[[], None] | None = None,
    ) -> None:
        self._node, self._world = node, node.world
        self._may_work, self._refused, self._sealed = may_work, refused, sealed or self.begin
        self._worked = worked
        self._count = 0
        self.tenure: Tenure | None = None

    def lead(self, token: int) -> None:
        """Ask the sink what is next; work once it has answered."""
        self._count += 1
        self.tenure = Tenure((self._node.number, self._node.life, self._count), token)
        self._ask(self.tenure)

    def _ask(self, tenure: Tenure) -> None:
        if self.tenure is tenure and not tenure.begun:
            self._node.send(SINK, Seal(tenure.key, tenure.token))
            self._node.after(HEARTBEAT_NS, self._ask, tenure)  # The answer may be lost.

    def begin(self, tenure: Tenure) -> None:
        """Begin to work."""
        if not tenure.begun:
            tenure.begun = True
            self._world.note("leads", self._node.number, tenure.number, tenure.token)
            self._begin_task(tenure)

    def stop(self, why: str) -> None:
        """Work no more; what was begun is dropped."""
        tenure, self.tenure = self.tenure, None
        if tenure is not None and tenure.begun:
            if tenure.at_work:
                self._world.note("dropped", self._node.number, tenure.number, tenure.task)
            self._world.note("left", self._node.number, tenure.number, why)

    def hear(self, message: Any) -> None:
        """Take an answer of the sink."""
        tenure = self.tenure
        if tenure is None or message.key != tenure.key:
            return
        if isinstance(message, Sealed):
            if not tenure.begun:
                tenure.task, tenure.number = message.task, message.tenure
                self._sealed(tenure)
        else:
            self._refused(tenure)

    def _begin_task(self, tenure: Tenure) -> None:
        if self.tenure is not tenure:
            return
        if self._may_work():
            tenure.at_work = True
            self._world.note("began", self._node.number, tenure.number, tenure.task)
            self._node.after(JOB_NS, self._end_task, tenure)
        else:
            self._rest(tenure)

    def _end_task(self, tenure: Tenure) -> None:
        if self.tenure is tenure:
            tenure.at_work = False
            self._world.note("wrote", self._node.number, tenure.number, tenure.task)
            self._node.send(SINK, Write(tenure.key, tenure.token, tenure.task, tenure.number))
            tenure.task += 1
            if self._worked is not None:
                self._worked()
            self._rest(tenure)

    def _rest(self, tenure: Tenure) -> None:
        self._node.after(int(self._world.chance.lot() * GAP_MAX_NS), self._begin_task, tenure)


class Candidate(Steady):
    """A candidate of an approach: performs what its machine asks for, and feeds back what comes. It decides nothing."""

    __slots__ = ("_body", "_kind", "_machine")

    def __init__(self, world: World, number: int, kind: type[Machine]) -> None:
        super().__init__(world, number)
        self._kind = kind
        self._machine: Machine
        self._body: Body

    def started(self) -> None:
        self._machine = self._kind(self.number, self.life, self.world.chance.lot)
        self._body = Body(self, lambda: self._machine.may_work(self.clock()), self._on_refused, worked=self._on_worked)
        self._machine.start(self.clock())
        self._perform()

    def received(self, source: int, message: Any) -> None:
        if source == SINK:
            self._body.hear(message)
        else:
            self._machine.hear(source, message, self.clock())
            self._perform()

    def woken(self) -> None:
        self._machine.tick(self.clock())
        self._perform()

    def _on_refused(self, _: Tenure) -> None:
        self._machine.refused(self.clock())
        self._perform()

    def _on_worked(self) -> None:
        self._machine.worked(self.clock())
        self._perform()

    def _perform(self) -> None:
        for effect in self._machine.take_effects():
            if isinstance(effect, Send):
                self.world.send(self.number, effect.target, effect.message)
            elif isinstance(effect, Lead):
                self._body.lead(effect.token)
            else:
                self._body.stop(effect.why)
        if self._machine.wake_at != self._alarm_at:
            self.wake_at(self._machine.wake_at)
