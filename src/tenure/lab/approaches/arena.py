"""The world of one run: the cast of an approach, and how a seed is played."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.approaches.bully import Bully
from tenure.lab.approaches.cast import CANDIDATES, SERVERS, SINK, plan_of
from tenure.lab.approaches.flag import CLEAR_AFTER_NS, Database, Flag
from tenure.lab.approaches.machines import Machine
from tenure.lab.approaches.node import Candidate
from tenure.lab.approaches.ours import Engine, Ours
from tenure.lab.approaches.raft import RaftCandidate
from tenure.lab.approaches.redis import Redis, Replicated, Sentinel
from tenure.lab.approaches.redlock import Redlock
from tenure.lab.approaches.setnx import Setnx, SetnxReplica
from tenure.lab.approaches.sink import OFF, Sink
from tenure.lab.faults import Plan
from tenure.lab.world import Entry, Node, World
from tenure.sinks.fence import Fence

Make = Callable[[World, int], Node]


@dataclass(frozen=True, slots=True)
class Approach:
    """One way to elect. ``servers``: who D, E and so on are; the others of the cast do nothing."""

    name: str
    what: str  # in a few words, for tables
    candidate: Make
    servers: dict[str, Make] = field(default_factory=dict)
    voters: int = 1  # how many of the servers decide, from D on; without servers all candidates do
    tale: tuple[str, str] = ("pause", "stale")  # the fault and the checker of the story that it is known for

    @property
    def deciders(self) -> tuple[int, ...]:
        """Those without most of whom nobody should be elected."""
        return SERVERS[: self.voters] if self.servers else CANDIDATES


def _of(kind: type[Machine]) -> Make:
    return lambda world, number: Candidate(world, number, kind)


APPROACHES: Final = {
    approach.name: approach
    for approach in (
        Approach("bully", "highest number that answers", _of(Bully), tale=("partition", "twice")),
        Approach(
            "flag",
            "UPDATE ... WHERE leader IS NULL",
            _of(Flag),
            {"database": lambda world, number: Database(world, number, None)},
            tale=("crash", "stuck"),
        ),
        Approach(
            "flag-cron",
            "the same, cleared when it is old",
            _of(Flag),
            {"database": lambda world, number: Database(world, number, CLEAR_AFTER_NS)},
        ),
        Approach("setnx", "SET NX PX on one Redis", _of(Setnx), {"redis": Redis}),
        Approach(
            "setnx-replica",
            "the same, with a replica",
            _of(SetnxReplica),
            {"primary": Replicated, "replica": Replicated, "sentinel": Sentinel},
            tale=("failover", "exclusion"),
        ),
        Approach(
            "redlock",
            "three of five Redis",
            _of(Redlock),
            {f"redis-{number}": Redis for number in range(1, 6)},
            voters=5,
        ),
        Approach("raft", "Raft's leader, of three", RaftCandidate),
        Approach("tenure", "this package's machine", Ours, {"store": Engine}),
    )
}


def find(name: str) -> Approach:
    """Return the approach of that name."""
    if name not in APPROACHES:
        raise ConfigError("approach", name, f"must be one of {', '.join(APPROACHES)}")
    return APPROACHES[name]


class Arena(World):
    """One run of one approach."""

    def __init__(self, plan: Plan, approach: Approach, fence: str, kind: type[Fence] = Fence) -> None:
        self.would_refuse: set[str] = set()  # fences that are not at work, and would have refused something
        servers = dict(zip(SERVERS, approach.servers.values(), strict=False))

        def make(_: World, number: int) -> Node:
            if number in CANDIDATES:
                return approach.candidate(self, number)
            if number == SINK:
                return Sink(self, number, fence, kind)
            return servers.get(number, Node)(self, number)

        super().__init__(plan, make)
        self.cuttable = range(SINK)  # Whoever could not reach the sink would prove nothing.


@dataclass(frozen=True, slots=True)
class Played:
    """What happened in one run, and which fences that were not at work would have changed it."""

    plan: Plan
    history: list[Entry]
    would_refuse: frozenset[str]


def play(approach: Approach, seed: int, faults: Collection[str], fence: str = OFF, kind: type[Fence] = Fence) -> Played:
    """Play one seed. The same arguments give the same history on every machine."""
    plan = plan_of(seed, faults)
    arena = Arena(plan, approach, fence, kind)
    arena.run()
    return Played(plan, arena.history, frozenset(arena.would_refuse))
