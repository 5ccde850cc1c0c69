"""The world of one simulation: true time, a queue of things to come, the network, and the faults that strike.

Nothing here knows the rules of an election. Nodes do (``nodes``), and the machine that they run is the shipped one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from tenure.core.candidate import Candidate
from tenure.core.cohort import Cohort
from tenure.sim.candidacies import Candidacy
from tenure.sim.chance import Chance
from tenure.sim.clocks import SimClock
from tenure.sim.history import EVERY, Entry, History, Kind
from tenure.sim.nodes import ProcessNode
from tenure.sim.plan import Fault, Plan, show_fault
from tenure.sim.services import SinkNode, StoreNode, WorkerNode
from tenure.sinks.fence import Fence
from tenure.stores.memory import MemoryEngine


@dataclass(frozen=True, slots=True)
class Parts:
    """What the world is built of. A mutant is a small change to this, and to nothing else."""

    candidate: type[Candidate] = Candidate
    cohort: type[Cohort[Candidacy]] = Cohort
    engine: type[MemoryEngine] = MemoryEngine
    fence: type[Fence] = Fence
    clock: type[SimClock] = SimClock
    store: type[StoreNode] = StoreNode
    worker: type[WorkerNode] = WorkerNode
    lot: Callable[[Chance], float] = lambda chance: chance.lot()


class World:
    """One simulation. ``run`` it once and read ``history``."""

    def __init__(self, plan: Plan, parts: Parts) -> None:
        self.plan, self.parts = plan, parts
        self.now = 0
        self.healthy = False
        self.history = History()
        self.chance = Chance(plan.seed * 64 + 63)
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._cut: set[tuple[int, int]] = set()
        self.nodes = [ProcessNode(self, number) for number in range(plan.candidates)]
        self.store = parts.store(self, plan.candidates)
        self.sink = SinkNode(self, plan.candidates + 1)
        self.worker = parts.worker(self, plan.candidates + 2)

    def at(self, instant: int, do: Callable[..., None], *arguments: Any) -> None:
        """Call ``do`` at a true instant. Equal instants keep the order in which they were asked for."""
        self._sequence += 1
        heappush(self._queue, (instant, self._sequence, do, arguments))

    def note(  # noqa: PLR0913, PLR0917  (an entry has that many)
        self, kind: Kind, who: str, token: int = 0, number: int = 0, words: str = "", election: int = EVERY
    ) -> None:
        self.history.append(Entry(self.now, kind, who, token, number, words, election))

    def an_election(self) -> int:
        """Draw one, for a fault that strikes one."""
        return self.chance.between(0, self.plan.elections - 1)

    def send(self, source: int, target: int, deliver: Callable[..., None], *arguments: Any) -> None:
        """Put a message on the wire: it may be late, doubled or lost."""
        plan, lot = self.plan, self.chance.lot
        spread = plan.delay_max_ns - plan.delay_min_ns
        delay = plan.delay_min_ns + int(lot() * spread)
        if not self.healthy:
            if (source, target) in self._cut or lot() < plan.loss:
                return
            if lot() < plan.spike:
                delay += int(lot() * plan.spike_max_ns)
            if lot() < plan.duplicate:
                self._deliver_at(self.now + delay + int(lot() * plan.timing.ttl_ns), deliver, arguments)
        self._deliver_at(self.now + delay, deliver, arguments)

    def _deliver_at(self, instant: int, deliver: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        # When the faults end, the network loses what it was still holding back: otherwise a claim of long ago could
        # be granted to a dead process after the bound on a vacancy has begun to count.
        if self.healthy or instant <= self.plan.heal_at + self.plan.delay_max_ns:
            self.at(instant, deliver, *arguments)

    def run(self) -> History:
        """Play the plan to its end."""
        plan = self.plan
        for node in self.nodes:
            self.at(self.chance.between(0, plan.timing.renew_every_ns), node.start)
        for fault in plan.faults:
            self.at(fault.at, self._strike, fault)
        self.at(plan.heal_at, self._heal)
        queue = self._queue
        while queue:
            instant, _, do, arguments = heappop(queue)
            if instant > plan.end_at:
                break
            self.now = instant
            do(*arguments)
        self.now = plan.end_at
        self.note(Kind.FINISHED, "world")
        return self.history

    def _strike(self, fault: Fault) -> None:  # noqa: C901  (one case a fault)
        self.note(Kind.FAULT, "world", words=show_fault(fault).strip())
        until = self.now + fault.for_ns
        match fault.kind:
            case "pause" | "suspend":
                self.nodes[fault.who].freeze(until, suspended=fault.kind == "suspend")
            case "crash":
                self.nodes[fault.who].crash()
                self.at(until, self.nodes[fault.who].start)
            case "partition":
                links = self._links(fault)
                self._cut |= links
                self.at(until, self._cut.difference_update, links)
            case "wall-step":
                step_ns = fault.for_ns if self.chance.hit(0.5) else -fault.for_ns
                self.nodes[fault.who].bend_clock(lambda clock: clock.wall_stepped(self.now, step_ns))
            case "wild-clock":
                rate_ppm = int(fault.note)
                if fault.who < 0:
                    self.store.clock.set_rate(self.now, rate_ppm)
                else:
                    self.nodes[fault.who].set_clock_rate(rate_ppm)
            case "store-restart" | "store-outage":
                self.store.fail(until, silent=fault.kind == "store-outage")
            case "deletion":
                self.store.delete()
            case "resign":
                self.nodes[fault.who].resign()
            case "worker-restart":
                self.worker.restart()

    def _links(self, fault: Fault) -> set[tuple[int, int]]:
        what, direction = fault.note.split()
        numbers = {"store": self.store.number, "sink": self.sink.number, "worker": self.worker.number}
        targets = numbers.values() if what == "all" else (numbers[what],)
        there = {(fault.who, target) for target in targets}
        back = {(target, fault.who) for target in targets}
        return {"to": there, "from": back}.get(direction, there | back)

    def _heal(self) -> None:
        """Faults end: the network is whole, clocks keep their bound, all but a minority are up and stand."""
        self.healthy = True
        self._cut.clear()
        self.store.come_back()
        for node in self.nodes:
            if self.plan.wild_clocks:
                node.set_clock_rate(self.plan.clock_ppm[node.number])
            node.thaw()
            if node.number in self.plan.stay_down:
                node.crash()
            else:
                node.start()
        if self.plan.wild_clocks:
            self.store.clock.set_rate(self.now, self.plan.clock_ppm[-1])
        self.note(Kind.HEALED, "world")
