"""A small world in virtual time: nodes with clocks, timers and disks, a network between them, and faults that strike both.

Nothing here knows an algorithm. A node is a subclass of ``Node`` that says what it does when it starts, when a message comes
and when its alarm rings; ``World.run`` plays a plan (``faults``) and keeps a history for checkers to read.

Built to be fast, for its users count in thousands of elections: events are tuples in one heap, a node has one alarm that may
be put off without touching the heap, and nothing is recorded but what somebody notes.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from tenure.lab.faults import Plan, Strike, show_strike
from tenure.sim.chance import Chance

NEVER: Final = 2**63 - 1
WORLD: Final = -1  # who did what no node did
_PPM: Final = 1_000_000


class Entry(NamedTuple):
    """One thing that happened, at a true instant. What ``number`` and ``detail`` say is up to the kind."""

    at: int
    kind: str
    who: int
    number: int
    detail: Any


class Sent(NamedTuple):
    """A message, for pictures: when it left, and when it will arrive; NEVER if it is lost."""

    at: int
    arrives_at: int
    source: int
    target: int
    message: Any


class Node:
    """One process on one machine. What a subclass keeps in ``disk`` survives a crash; everything else is its to make anew."""

    __slots__ = (
        "_alarm_at",
        "_backlog",
        "_clock_base",
        "_clock_ppm",
        "_rings_at",
        "_true_base",
        "disk",
        "life",
        "number",
        "paused",
        "torn_after",
        "torn_for_ns",
        "up",
        "world",
    )

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        self.up = self.paused = False
        self.life = 0  # How often it has been started; a timer of an earlier life does not ring in this one.
        self.disk: dict[str, Any] = {}
        self.torn_after = -1  # It dies after this many effects of its next step (the fault "torn"); -1: it does not.
        self.torn_for_ns = 0  # and is started again after this long
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._alarm_at = self._rings_at = NEVER
        ppm = world.plan.clock_ppm
        self._clock_ppm = ppm[number] if ppm else 0
        self._true_base = self._clock_base = 0

    # What a subclass does.

    def started(self) -> None:
        """Begin, for the first time or after a crash: ``disk`` is all that is left of before."""

    def received(self, source: int, message: Any) -> None:
        """Take a message."""

    def woken(self) -> None:
        """Do what was due at the instant given to ``wake_at``."""

    # What a subclass uses.

    def clock(self) -> int:
        """Return what its own clock says, in ns: it may drift, and jump in both directions."""
        return self._clock_base + (passed := self.world.now - self._true_base) + passed * self._clock_ppm // _PPM

    def send(self, target: int, message: Any, hold_ns: int = 0) -> None:
        """Put a message on the wire, ``hold_ns`` from now."""
        self.world.send(self.number, target, message, hold_ns)

    def wake_at(self, instant: int) -> None:
        """Have ``woken`` called once its own clock says ``instant``, instead of at any instant given before."""
        self._alarm_at = instant
        if instant < NEVER and (true := self._true(instant)) < self._rings_at:
            self._rings_at = true
            self.world.at(true, self._ring, true)

    def after(self, delay_ns: int, do: Callable[..., None], *arguments: Any) -> None:
        """Call ``do`` after that much time on its own clock, unless it has crashed by then; when it runs again, if it is paused."""
        self.world.at(self._true(self.clock() + delay_ns), self._due, self.life, do, arguments)

    # What the world does to it.

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self.up:
            self.up, self.paused = True, False
            self.life += 1
            self.world.note("started", self.number, self.life)
            self.started()

    def crash(self) -> None:
        """End it without a word: whatever is not in ``disk`` is gone, and so is what had arrived while it was paused."""
        if self.up:
            self.world.note("crashed", self.number, self.life)
        self.up = self.paused = False
        self.torn_after = -1
        self._backlog.clear()
        self._alarm_at = self._rings_at = NEVER

    def tear(self) -> None:
        """End it in the middle of a step: who performs effects calls this instead of the rest of them."""
        self.crash()
        self.world.at(self.world.now + self.torn_for_ns, self.start)

    def pause(self) -> None:
        """Stop it as SIGSTOP does: what arrives waits, and its clock goes on."""
        if self.up and not self.paused:
            self.paused = True
            self.world.note("paused", self.number)

    def resume(self) -> None:
        """Let it go on. Everything that came meanwhile comes now, in its order, before any alarm."""
        if not self.paused:
            return
        self.paused = False
        self.world.note("resumed", self.number)
        backlog, self._backlog = self._backlog, []
        life = self.life
        for do, arguments in backlog:
            if self.life == life and self.up:
                do(*arguments)
        if self.up:
            self._rings_at = NEVER
            self.wake_at(self._alarm_at)

    def set_clock(self, by_ns: int = 0, ppm: int | None = None) -> None:
        """Set its clock forward or back, and change how fast it runs."""
        self._clock_base, self._true_base = self.clock() + by_ns, self.world.now
        self._clock_ppm = self._clock_ppm if ppm is None else ppm
        self._rings_at = NEVER
        self.wake_at(self._alarm_at)

    def deliver(self, source: int, message: Any) -> None:
        """Hand it a message that has arrived, if there is anybody."""
        if self.up:
            if self.paused:
                self._backlog.append((self.received, (source, message)))
            else:
                self.received(source, message)

    def _due(self, life: int, do: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.up and self.life == life:
            if self.paused:
                self._backlog.append((do, arguments))
            else:
                do(*arguments)

    def _ring(self, true: int) -> None:
        if true != self._rings_at:
            return  # An earlier one was asked for since, or it has crashed.
        self._rings_at = NEVER
        if self.paused:
            return  # ``resume`` looks at the alarm.
        if self.clock() < self._alarm_at:
            self.wake_at(self._alarm_at)  # It was put off.
        else:
            self._alarm_at = NEVER
            self.woken()

    def _true(self, local: int) -> int:
        """Return the first true instant, from now on, at which its clock says ``local`` or more."""
        ahead = local - self.clock()
        if ahead <= 0:
            return self.world.now
        if not self._clock_ppm:
            return self.world.now + ahead
        rate = _PPM + self._clock_ppm
        true = self._true_base + -(-(local - self._clock_base) * _PPM // rate)
        return max(true, self.world.now)


class World:
    """One run. Give it nodes, ``run`` it once, and read ``history``."""

    def __init__(self, plan: Plan, make: Callable[["World", int], Node]) -> None:
        self.plan, self.now = plan, 0
        self.cuttable = range(plan.nodes)  # between which nodes the network can be cut
        self.healthy = not plan.heal_at
        self.history: list[Entry] = []
        self.chance = Chance(plan.seed * 64 + 63)
        self.sent = 0  # messages
        self.trace: list[Sent] | None = None  # A list: every message is written down in it.
        self._lot = self.chance.lot
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._begun = self._stopped = False
        self._spread_ns = plan.delay_max_ns - plan.delay_min_ns
        self._faulty = bool(plan.loss or plan.spike or plan.duplicate)
        self._cuts: list[frozenset[tuple[int, int]]] = []
        self._cut: frozenset[tuple[int, int]] = frozenset()
        self.nodes: list[Node] = []
        self.nodes += [make(self, number) for number in range(plan.nodes)]
        self._deliver = [node.deliver for node in self.nodes]
        # Who is in charge, for faults that are aimed; -1: nobody. An algorithm that has somebody in charge replaces it.
        self.aim: Callable[[], int] = lambda: -1

    def at(self, instant: int, do: Callable[..., None], *arguments: Any) -> None:
        """Call ``do`` at a true instant. Equal instants keep the order in which they were asked for."""
        self._sequence += 1
        heappush(self._queue, (instant, self._sequence, do, arguments))

    def note(self, kind: str, who: int, number: int = 0, detail: Any = "") -> None:
        """Write down what happened, for checkers and for stories."""
        self.history.append(Entry(self.now, kind, who, number, detail))

    def send(self, source: int, target: int, message: Any, hold_ns: int = 0) -> None:
        """Put a message on the wire: it may be late, doubled or lost."""
        self.sent += 1
        plan, lot = self.plan, self._lot
        instant = self.now + hold_ns + plan.delay_min_ns + int(lot() * self._spread_ns)
        lost = bool(self._cut) and (source, target) in self._cut
        if self._faulty and not lost:
            lost = lot() < plan.loss
            if lot() < plan.spike:
                instant += int(lot() * plan.spike_max_ns)
            if not lost and lot() < plan.duplicate:
                self._put(instant + int(lot() * plan.spike_max_ns), source, target, message)
        if self.trace is not None:
            self.trace.append(Sent(self.now, NEVER if lost else instant, source, target, message))
        if not lost:
            self._put(instant, source, target, message)

    def _put(self, instant: int, source: int, target: int, message: Any) -> None:
        self._sequence += 1
        heappush(self._queue, (instant, self._sequence, self._deliver[target], (source, message)))

    def run(self, until: int | None = None) -> list[Entry]:
        """Play the plan to its end, to ``until``, or until somebody calls ``stop``. It can be run on from there."""
        if not self._begun:
            self._begun = True
            self._begin()
        end_at = self.plan.end_at if until is None else until
        queue = self._queue
        self._stopped = False
        while queue and not self._stopped:
            if queue[0][0] > end_at:
                break
            self.now, _, do, arguments = heappop(queue)
            do(*arguments)
        if not self._stopped and end_at < NEVER:
            self.now = end_at
        return self.history

    def stop(self) -> None:
        """End ``run`` after what happens now."""
        self._stopped = True

    def _begin(self) -> None:
        for node in self.nodes:
            if node.number not in self.plan.absent:
                self.at(0, node.start)
        for strike in self.plan.strikes:
            self.at(strike.at, self.strike, strike)
        if self.plan.heal_at:
            self.at(self.plan.heal_at, self.heal)

    # Faults. A story calls these itself; a plan has them called.

    def strike(self, strike: Strike) -> None:
        """Let one fault of the plan begin, and see to its end."""
        if strike.aimed:
            strike = _aimed(strike, self.aim())
        node = self.nodes[strike.who]
        self.note("fault", WORLD, strike.who, show_strike(strike).partition(" s  ")[2])
        until = self.now + strike.for_ns
        match strike.kind:
            case "partition" | "one-way":
                group = [number for number in range(len(self.nodes)) if strike.mask >> number & 1]
                links = self.cut(group, one_way=strike.kind == "one-way")
                self.at(until, self.mend, links)
            case "pause":
                node.pause()
                self.at(until, node.resume)
            case "crash":
                node.crash()
                self.at(until, node.start)
            case "torn":
                node.torn_after, node.torn_for_ns = strike.mask, strike.for_ns
            case _:
                node.set_clock(by_ns=strike.mask)

    def cut(self, group: Iterable[int], *, one_way: bool = False) -> frozenset[tuple[int, int]]:
        """Cut a group off from all others, or only what it says to them; what is returned mends it."""
        inside = set(group) & set(self.cuttable)
        outside = [number for number in self.cuttable if number not in inside]
        links = {(source, target) for source in inside for target in outside}
        if not one_way:
            links |= {(target, source) for source, target in links}
        self._cuts.append(frozenset(links))
        self._cut = frozenset().union(*self._cuts)
        return self._cuts[-1]

    def mend(self, links: frozenset[tuple[int, int]]) -> None:
        """End one cut; a link that another one holds stays cut."""
        if links in self._cuts:
            self._cuts.remove(links)
            self._cut = frozenset().union(*self._cuts)
            self.note("fault", WORLD, 0, "the network is whole" if not self._cut else "one of the cuts has healed")

    def heal(self) -> None:
        """End all faults: the network is whole, all are up and run. What it was holding back is lost."""
        self.healthy = True
        self._faulty = False
        self._cuts.clear()
        self._cut = frozenset()
        latest = self.now + self.plan.delay_max_ns
        delivering = set(self._deliver)
        # A message of long ago would otherwise be a fault that strikes after the last one.
        self._queue[:] = [event for event in self._queue if event[0] <= latest or event[2] not in delivering]
        self._queue.sort()  # A sorted list is a heap.
        self.note("healed", WORLD)
        for node in self.nodes:
            node.torn_after = -1
            node.resume()
            if node.number not in self.plan.absent:
                node.start()


def _aimed(strike: Strike, who: int) -> Strike:
    """Return the strike against ``who``: a group that is cut off is then that one and no other."""
    if who < 0:
        return strike._replace(aimed=False)
    mask = 1 << who if strike.kind in ("partition", "one-way") else strike.mask
    return strike._replace(aimed=False, who=who, mask=mask)
