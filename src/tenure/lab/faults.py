"""One seed draws a network and the faults that strike it, for any algorithm of the laboratory.

Every kind of fault has a random stream of its own, as in ``tenure.sim.plan``: to leave one out, or to ask for one alone,
leaves the others as they were. That is what makes "the same faults" mean the same for two algorithms.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from tenure.errors import ConfigError
from tenure.sim.chance import Chance

MS: Final = 1_000_000
S: Final = 1_000_000_000
SEED_MAX: Final = 2**63 - 1
NODES_MAX: Final = 9

# The order is part of what a seed means: append, never insert.
FAULTS: Final = (
    "loss",  # messages vanish
    "delay",  # some take much longer than others, so that they overtake each other
    "duplicate",  # messages arrive twice, the second time late
    "partition",  # two groups cannot reach each other
    "one-way",  # a group is heard by nobody of the other, and hears it
    "pause",  # a process stops while time goes on, as with SIGSTOP or a long collection
    "crash",  # a process dies, and starts again with what its disk has
    "torn",  # it dies in the middle of a step: some of the step's effects were performed
    "drift",  # clocks run fast or slow
    "jump",  # a clock is set
)
# Those that strike at an instant, and for how long at most, in units of the scale that the algorithm gives.
_LONGEST: Final = {"partition": 12, "one-way": 12, "pause": 12, "crash": 6, "torn": 6, "jump": 8}
STRIKES: Final = frozenset(_LONGEST)


class Strike(NamedTuple):
    """From ``at`` for ``for_ns``, against node ``who``. ``mask``: the group of a partition, a bit a node; or a number.

    ``aimed``: against whoever is in charge at that instant (``World.aim``), and against ``who`` only if nobody is.
    """

    at: int
    kind: str
    who: int
    for_ns: int
    mask: int = 0
    aimed: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The network of one world and what befalls it. The defaults are a quiet world in which nothing ever fails."""

    seed: int
    nodes: int
    delay_min_ns: int = MS
    delay_max_ns: int = 2 * MS
    loss: float = 0.0  # share of messages that vanish
    spike: float = 0.0  # share of messages that take up to spike_max_ns longer
    spike_max_ns: int = 0
    duplicate: float = 0.0  # share of messages that come once more, up to spike_max_ns later
    clock_ppm: tuple[int, ...] = ()  # how much faster than true time each clock runs; (): all keep true time
    strikes: tuple[Strike, ...] = ()
    absent: tuple[int, ...] = ()  # nodes that are never started
    heal_at: int = 0  # from here on nothing fails
    end_at: int = SEED_MAX

    def show(self) -> str:
        """Return what was drawn, a line each."""
        network = f"{self.nodes} nodes, messages take {self.delay_min_ns / MS:g} to {self.delay_max_ns / MS:g} ms"
        shares = f"lost {self.loss:.0%}, late {self.spike:.0%} by up to {self.spike_max_ns / MS:g} ms, twice {self.duplicate:.0%}"
        return "\n".join([network, shares, *map(show_strike, self.strikes)])


def name_of(node: int) -> str:
    """Return the letter of a node."""
    return "ABCDEFGHI"[node]


def names_of(mask: int) -> str:
    """Return the letters of a group."""
    return "".join(name_of(node) for node in range(NODES_MAX) if mask >> node & 1)


def show_strike(strike: Strike) -> str:
    """Return a strike in words."""
    length = f" for {strike.for_ns / S:.3f} s" if strike.for_ns else ""
    who = "who leads" if strike.aimed else name_of(strike.who)
    group = "who leads" if strike.aimed else names_of(strike.mask)
    what = {
        "partition": f"{group} cut off from the others",
        "one-way": f"nobody else hears {group}",
        "pause": f"{who} is paused",
        "crash": f"{who} crashes",
        "torn": f"{who} crashes in the middle of its next step",
        "jump": f"the clock of {who} jumps by {strike.mask / S:+.3f} s",
    }[strike.kind]
    return f"{strike.at / S:9.3f} s  {what}{'' if strike.kind == 'jump' else length}"


def check_faults(option: str, names: Collection[str]) -> None:
    """Refuse the name of a fault that there is none of."""
    for name in sorted(names):
        if name not in FAULTS:
            raise ConfigError(option, name, f"must be one of {', '.join(FAULTS)}")


def draw(  # noqa: PLR0913  (each changes what is drawn, and has a default)
    seed: int,
    nodes: int,
    scale_ns: int,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    struck: Collection[int] | None = None,
    strikes_max: int = 6,
    calm: int = 24,
    aimed: float = 0.0,
) -> Plan:
    """Return the plan of one seed.

    ``scale_ns`` is the time that matters to the algorithm (a lease, an election timeout): a fault that is far shorter is
    not noticed, one that is far longer is the same as for ever. Faults last from a sixteenth of it to a dozen times it.
    ``only``: just these faults, all of them. Otherwise each is at work in half of the seeds: together they would hide each
    other, each alone would meet no other. ``struck``: the nodes that crash, pause and so on; others never do.
    ``calm``: for how many times ``scale_ns`` the world goes on after the last fault.
    ``aimed``: the share of strikes against whoever is in charge.
    """
    if not 0 <= seed <= SEED_MAX:
        raise ConfigError("seed", seed, f"must lie between 0 and {SEED_MAX}")
    check_faults("without", without)
    check_faults("only", only or ())
    streams = {name: Chance(seed * 64 + 2 + number) for number, name in enumerate(FAULTS)}
    drawn = {name for name in FAULTS if streams[name].hit(0.5)}  # Drawn in any case: it is part of the stream.
    at_work = (drawn if only is None else set(only)) - set(without)
    chance = Chance(seed * 64)
    delay_min_ns = scale_ns // chance.pick((64, 32, 16))
    heal_at = chance.between(16, 32) * scale_ns
    strikes: list[Strike] = []
    targets = tuple(range(nodes) if struck is None else struck)
    for kind, longest in _LONGEST.items():
        if kind in at_work:
            drawn_strikes = _strikes(kind, longest * scale_ns, streams[kind], heal_at, targets, nodes, strikes_max)
            strikes += [strike._replace(aimed=lot < aimed) for strike, lot in drawn_strikes]
    ppm_max = streams["drift"].pick((1_000, 50_000, 300_000))
    return Plan(
        seed=seed,
        nodes=nodes,
        delay_min_ns=delay_min_ns,
        delay_max_ns=2 * delay_min_ns,
        loss=streams["loss"].pick((0.02, 0.1, 0.3)) if "loss" in at_work else 0.0,
        spike=streams["delay"].pick((0.05, 0.2, 0.6)) if "delay" in at_work else 0.0,
        spike_max_ns=streams["delay"].pick((1, 4, 16)) * scale_ns // 2,
        duplicate=streams["duplicate"].pick((0.05, 0.4)) if "duplicate" in at_work else 0.0,
        clock_ppm=tuple(streams["drift"].between(-ppm_max, ppm_max) for _ in range(nodes))
        if "drift" in at_work
        else (),
        strikes=tuple(sorted(strikes)),
        heal_at=heal_at,
        end_at=heal_at + calm * scale_ns,
    )


def _strikes(  # noqa: PLR0913, PLR0917
    kind: str, longest_ns: int, chance: Chance, heal_at: int, targets: tuple[int, ...], nodes: int, count_max: int
) -> list[tuple[Strike, float]]:
    found = []
    for _ in range(chance.between(1, count_max)):
        at = chance.between(0, heal_at)
        # Short ones are as likely as long ones: a restart that others do not notice finds what an outage does not.
        longest_of_these_ns = longest_ns >> chance.between(0, 6)
        for_ns = min(chance.between(longest_of_these_ns // 2, longest_of_these_ns), heal_at - at)
        who = chance.pick(targets)
        mask = chance.between(1, 2**nodes - 2)  # A group is never empty, and never all.
        if kind == "jump":
            mask = for_ns if chance.hit(0.5) else -for_ns
        elif kind == "torn":
            mask = chance.between(0, 4)  # how many effects of the step are performed
        found.append((Strike(at, kind, who, for_ns, mask), chance.lot()))
    return found
