"""One seed draws everything: who stands, how fast the network is, and which faults strike when.

Every kind of fault has a random stream of its own, so that leaving one out (``without``) leaves the others as they
were. That is what makes a failing seed shrink, and a shrunk one replay.
"""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from tenure.errors import ConfigError
from tenure.sim.chance import Chance
from tenure.timing import Timing

MS = 1_000_000
S = 1_000_000_000
SEED_MAX = 2**63 - 1
CANDIDATES_MIN, CANDIDATES_MAX = 2, 7

# The order is part of what a seed means: append, never insert.
FAULTS = (
    "loss",
    "delay",
    "duplicate",
    "partition",
    "pause",
    "suspend",
    "crash",
    "drift",
    "wall-step",
    "store-restart",
    "store-outage",
    "slow-seal",
    "stubborn-body",
    "resign",
    "fragile-store",
    "worker-restart",
    "reset",
    "deletion",
    "lost-watch",
)
ELECTIONS = (1, 1, 1, 1, 2, 3)  # how many there are; a seed takes one of these, and most have one, for speed
HERD_MIN = 4  # fewer candidates cannot make a herd


class Fault(NamedTuple):
    """One strike: from ``at`` for ``for_ns``, against candidate number ``who`` (-1: the store, or the worker)."""

    at: int
    kind: str
    who: int
    for_ns: int
    note: str


class Fragile(NamedTuple):
    """A store that takes ``service_ns`` a request, falls over when it has ``limit`` at a time, is back after ``down_ns``."""

    limit: int
    service_ns: int
    down_ns: int


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose about a simulation; everything else is the seed's."""

    seed: int
    wild_clocks: bool = False
    without: frozenset[str] = frozenset()
    candidates: int | None = None
    timing: Timing | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= SEED_MAX:
            raise ConfigError("seed", self.seed, f"must lie between 0 and {SEED_MAX}")
        if self.candidates is not None and not CANDIDATES_MIN <= self.candidates <= CANDIDATES_MAX:
            rule = f"must lie between {CANDIDATES_MIN} and {CANDIDATES_MAX}"
            raise ConfigError("candidates", self.candidates, rule)
        for name in sorted(self.without):
            if name not in FAULTS:
                raise ConfigError("without", name, f"must be one of {', '.join(FAULTS)}")


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one seed has drawn."""

    seed: int
    wild_clocks: bool
    candidates: int
    elections: int  # each process stands in all of them
    together: bool  # leaders of one process renew with one request where they can
    queue: bool
    timing: Timing
    delay_min_ns: int
    delay_max_ns: int
    loss: float  # share of messages that vanish
    reset: float  # share of answers that turn into "connection reset": carried out, but the asker cannot know
    spike: float  # share of messages that take up to spike_max_ns
    spike_max_ns: int
    duplicate: float
    watch_loss: float  # share of watches that nobody keeps, as with a connection that is half open
    seal_loss: float
    seal_delay_max_ns: int
    clock_ppm: tuple[int, ...]  # of each candidate, the store's last
    body_max_ns: int
    act_every_ns: int  # how often a body writes or gives an order
    body_checks: bool  # whether it asks "am I still valid?" before it acts; nobody can rely on that
    stubborn: float  # share of bodies that ignore cancellation for a while
    stubborn_max_ns: int
    idle_max_ns: int
    fragile: Fragile | None
    faults: tuple[Fault, ...]
    stay_down: tuple[int, ...]  # candidates that never come back
    heal_at: int
    end_at: int

    def office_filled_within_ns(self) -> int:
        """Return the bound on a vacancy after the faults have ended, as Timing predicts it for this network."""
        bound_ns = self.timing.office_filled_within_ns(self.delay_max_ns)
        if self.fragile:  # A store that falls over costs its time to come back and one more try, a few times over.
            try_ns = self.timing.retry_after_ns(5, 1.0) + 2 * self.delay_max_ns
            bound_ns += 8 * (self.fragile.down_ns + self.fragile.service_ns + try_ns)
        return bound_ns

    def wake_within_ns(self) -> int:
        """Return how long a free office may go unclaimed in a healthy world in which somebody waits for it."""
        wake_ns = 4 * self.delay_max_ns + (2 * self.fragile.service_ns if self.fragile else 0) + MS
        # In a queue the turn may belong to a dead one, whose place is kept for one ttl (on the store's clock).
        return wake_ns + int(self.timing.ttl_ns * (1 + self.timing.drift)) if self.queue else wake_ns

    def show(self) -> str:
        """Return all that was drawn, a line each."""
        lines = []
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "faults":
                lines.append(f"faults: {len(value)}")
                lines += [f"  {show_fault(fault)}" for fault in value]
            else:
                lines.append(f"{item.name}: {value}")
        return "\n".join(lines)


def name_of(candidate: int) -> str:
    """Return the letter of a candidate."""
    return "ABCDEFG"[candidate]


def show_fault(fault: Fault) -> str:
    """Return a fault in words."""
    who = f" {name_of(fault.who)}" if fault.who >= 0 else ""
    length = f" for {fault.for_ns / S:.3f} s" if fault.for_ns else ""
    return f"{fault.at / S:9.3f} s  {fault.kind}{who}{length}{' ' + fault.note if fault.note else ''}"


def draw(options: Options) -> Plan:
    """Return the plan of one seed."""
    streams = {name: Chance(options.seed * 64 + 2 + number) for number, name in enumerate(FAULTS)}
    chance = Chance(options.seed * 64)
    # Half of all faults are at work in a seed: together they would hide each other, each alone would meet no other.
    # Everything is drawn, also what is then left out: an option must not change what it does not name.
    at_work = {name for name in FAULTS if streams[name].hit(0.5)} - options.without
    drawn_count = chance.between(CANDIDATES_MIN, CANDIDATES_MAX)
    count = drawn_count if options.candidates is None else options.candidates
    sharing = Chance(options.seed * 64 + 62)
    elections = sharing.pick(ELECTIONS)
    drawn_timing = _draw_timing(chance, chance.pick((0.001, 0.01, 0.05, 0.1)))
    timing = options.timing or drawn_timing
    ttl_ns = timing.ttl_ns
    delay_min_ns = chance.pick((MS // 10, MS // 2, 2 * MS, 10 * MS))
    draft = Plan(
        seed=options.seed,
        wild_clocks=options.wild_clocks,
        candidates=count,
        elections=elections,
        together=sharing.hit(0.75),
        queue=chance.hit(0.4),
        timing=timing,
        delay_min_ns=delay_min_ns,
        delay_max_ns=2 * delay_min_ns,
        loss=_if("loss" in at_work, streams["loss"].pick((0.01, 0.05, 0.2))),
        reset=_if("reset" in at_work, streams["reset"].pick((0.02, 0.1))),
        spike=_if("delay" in at_work, streams["delay"].pick((0.02, 0.1, 0.3))),
        spike_max_ns=streams["delay"].pick((ttl_ns // 8, ttl_ns, 2 * ttl_ns)),
        duplicate=_if("duplicate" in at_work, streams["duplicate"].pick((0.02, 0.2))),
        watch_loss=_if("lost-watch" in at_work, streams["lost-watch"].pick((0.2, 0.6))),
        seal_loss=_if("slow-seal" in at_work, streams["slow-seal"].pick((0.1, 0.5))),
        seal_delay_max_ns=streams["slow-seal"].pick((ttl_ns // 4, ttl_ns)) if "slow-seal" in at_work else 0,
        clock_ppm=_draw_rates(streams["drift"], count, timing.drift if "drift" in at_work else 0.0),
        body_max_ns=chance.pick((ttl_ns // 2, ttl_ns, 3 * ttl_ns)),
        act_every_ns=chance.pick((ttl_ns // 4, ttl_ns // 2)),
        body_checks=chance.hit(0.5),
        stubborn=_if("stubborn-body" in at_work, streams["stubborn-body"].pick((0.1, 0.5))),
        stubborn_max_ns=streams["stubborn-body"].pick((ttl_ns // 2, 3 * ttl_ns)),
        idle_max_ns=chance.pick((ttl_ns // 16, ttl_ns)),
        fragile=_draw_fragile(streams["fragile-store"], count * elections, ttl_ns, delay_min_ns)
        if "fragile-store" in at_work
        else None,
        faults=(),
        stay_down=(),
        heal_at=chance.between(12, 30) * ttl_ns,
        end_at=0,
    )
    return _with_faults(draft, streams, at_work)


def _if(at_work: bool, share: float) -> float:
    return share if at_work else 0.0


def _draw_rates(chance: Chance, count: int, drift: float) -> tuple[int, ...]:
    """Draw how fast each clock runs, the store's last, in ppm of true time: within half the declared drift."""
    bound_ppm = int(drift * 500_000)
    rates = [chance.between(-bound_ppm, bound_ppm) for _ in range(CANDIDATES_MAX + 1)]
    return (*rates[:count], rates[-1])


def _draw_fragile(chance: Chance, count: int, ttl_ns: int, delay_min_ns: int) -> Fragile | None:
    down_ns = chance.between(ttl_ns // 16, ttl_ns // 8)
    if count < HERD_MIN:
        return None
    return Fragile(limit=count - 1, service_ns=5 * delay_min_ns, down_ns=down_ns)


def _draw_timing(chance: Chance, drift: float) -> Timing:
    ttl_ns = chance.pick((1 * S, 3 * S, 8 * S, 15 * S))
    misses = chance.pick((2, 3))
    heartbeat_ns = ttl_ns // (misses + 1)
    return Timing(
        ttl_ns=ttl_ns,
        renew_every_ns=heartbeat_ns,
        attempt_timeout_ns=chance.between(heartbeat_ns // 2, heartbeat_ns),
        grace_ns=chance.between(heartbeat_ns // 16, heartbeat_ns // 2),
        drift=drift,
        misses=misses,
    )


def _with_faults(plan: Plan, streams: dict[str, Chance], at_work: set[str]) -> Plan:
    ttl_ns = plan.timing.ttl_ns
    faults: list[Fault] = []
    longest_ns = {
        "partition": 2 * ttl_ns,
        "pause": 3 * ttl_ns,
        "suspend": 3 * ttl_ns,
        "crash": ttl_ns,
        "store-restart": ttl_ns // 2,
        "store-outage": 2 * ttl_ns,
        "wall-step": 2 * ttl_ns,
        "resign": 0,
        "worker-restart": 0,
        "deletion": 0,
    }
    for kind, longest in longest_ns.items():
        chance = streams[kind]
        for _ in range(chance.between(1, 6) if kind in at_work else 0):
            at = chance.between(0, plan.heal_at)
            for_ns = min(chance.between(longest // 16, longest), plan.heal_at - at)
            who = chance.between(0, plan.candidates - 1) if not kind.startswith(("store", "worker", "deletion")) else -1
            note = _partition_note(chance) if kind == "partition" else ""
            faults.append(Fault(at, kind, who, for_ns, note))
    if plan.wild_clocks:
        chance = Chance(plan.seed * 64 + 1)
        for _ in range(chance.between(2, 8)):
            at = chance.between(0, plan.heal_at)
            note = str(chance.between(-800_000, 1_500_000))  # ppm: from a fifth to two and a half times true time
            faults.append(Fault(at, "wild-clock", chance.between(-1, plan.candidates - 1), 0, note))
    chance = streams["crash"]
    minority = (plan.candidates - 1) // 2 if "crash" in at_work else 0
    stay_down = tuple(range(chance.between(0, minority)))
    end_at = plan.heal_at + plan.office_filled_within_ns() + 2 * ttl_ns
    return replace(plan, faults=tuple(sorted(faults)), stay_down=stay_down, end_at=end_at)


def _partition_note(chance: Chance) -> str:
    """Draw what a candidate is cut off from, and in which direction."""
    return f"{chance.pick(('store', 'sink', 'worker', 'all'))} {chance.pick(('both', 'to', 'from'))}"
