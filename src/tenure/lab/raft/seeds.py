"""Raft under the faults of a seed: what is drawn, how it is played, and many of them on several cores."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, takewhile
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS, MS, SEED_MAX, STRIKES, Plan, Strike, draw
from tenure.lab.raft.checkers import SETTLED_AFTER, check, when_settled
from tenure.lab.raft.harrying import Harrier
from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import Role
from tenure.lab.raft.mutants import Mutant, find
from tenure.lab.raft.node import RaftNode
from tenure.lab.raft.voting import Settings
from tenure.lab.world import Entry, World
from tenure.sim.chance import Chance
from tenure.sim.checkers import Violation
from tenure.sim.cores import on_cores

SCALE_NS: Final = 100 * MS  # the least election timeout of every drawn cluster; all else is drawn in relation to it
CALM: Final = 120  # election timeouts after the faults: if there is no leader by then, there will be none
CHUNK_SEEDS: Final = 16
HARRY: Final = "harry"  # a fault that only this laboratory has: see ``harrying``
SIZES: Final = (3, 5, 7)
_SERVERS: Final = (3, 3, 5, 5, 5, 7)  # as they are drawn


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose; everything else is the seed's."""

    without: frozenset[str] = frozenset()
    servers: int | None = None
    pre_vote: bool | None = None
    check_quorum: bool | None = None
    mutant: str | None = None
    strikes: tuple[int, ...] | None = None  # just these of the strikes that are drawn; None: all

    def __post_init__(self) -> None:
        for fault in sorted(self.without):
            if fault not in {*FAULTS, HARRY}:
                raise ConfigError("--without", fault[:40], f"must be one of {', '.join((*FAULTS, HARRY))}")
        if self.servers is not None and self.servers not in SIZES:
            raise ConfigError(
                "servers", self.servers, "must be 3, 5 or 7: an even number tolerates no more than one less"
            )
        if self.mutant is not None:
            find(self.mutant)


@dataclass(frozen=True, slots=True)
class Setup:
    """A cluster, the world around it, and how often clients give it commands."""

    plan: Plan
    settings: Settings
    propose_every_ns: int
    harried: float  # the share of votes and elections that are followed by a fault at once


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    elections: int
    committed: int
    virtual_ns: int
    violations: tuple[Violation, ...]


def draw_setup(seed: int, options: Options) -> Setup:
    """Draw a cluster and its world. What an option names is drawn as well, so that all else stays as it was."""
    chance = Chance(seed * 64 + 61)
    servers, pre_vote, check_quorum = chance.pick(_SERVERS), chance.hit(0.5), chance.hit(0.5)
    servers = servers if options.servers is None else options.servers
    settings = Settings(
        timeout_min_ns=SCALE_NS,
        timeout_max_ns=SCALE_NS * chance.pick((11, 12, 15, 20)) // 10,
        heartbeat_ns=SCALE_NS // chance.pick((3, 5)),
        pre_vote=pre_vote if options.pre_vote is None else options.pre_vote,
        check_quorum=check_quorum if options.check_quorum is None else options.check_quorum,
        no_op=chance.hit(0.25),
        batch=chance.pick((1, 8)),
    )
    harried = chance.pick((0.0, 0.4, 1.0))
    harried = 0.0 if HARRY in options.without else harried
    # Where every leader is harried nothing else strikes: there are chains of short tenures then, which others would break.
    left_out = options.without - {HARRY} | (STRIKES if harried == 1.0 else set())
    plan = draw(seed, servers, SCALE_NS, without=left_out, strikes_max=20, calm=CALM, aimed=0.5)
    if options.strikes is not None:
        plan = replace(plan, strikes=tuple(_chosen(plan.strikes, options.strikes)))
    propose_every_ns = SCALE_NS * chance.pick((1, 4, 16)) // 4
    return Setup(plan, settings, 8 * SCALE_NS if harried == 1.0 else propose_every_ns, harried)


def _chosen(strikes: Sequence[Strike], numbers: Sequence[int]) -> Iterator[Strike]:
    for number in numbers:
        if not 0 <= number < len(strikes):
            raise ConfigError("--strikes", number + 1, f"must lie between 1 and {len(strikes)}, as many as are drawn")
        yield strikes[number]


def play(setup: Setup, mutant: Mutant | None = None) -> list[Entry]:
    """Return the history of one run. It ends when the faults are over and the cluster has settled, or should have."""
    plan, settings = setup.plan, setup.settings
    kind = mutant.server if mutant else Server
    node = mutant.node if mutant else RaftNode
    world = World(plan, lambda world, number: node(world, number, settings, kind))
    if setup.harried:
        harrier = Harrier(Chance(plan.seed * 64 + 60), setup.harried, SCALE_NS)
        for server in world.nodes:
            if isinstance(server, RaftNode):
                server.watcher = harrier
    world.aim = partial(_who_leads, world)
    world.at(setup.propose_every_ns, _propose, world, setup.propose_every_ns, 1)
    world.run(until=plan.heal_at)
    while world.now < plan.end_at and when_settled(world.history, plan) is None:
        world.run(until=min(world.now + 4 * SCALE_NS, plan.end_at))
    return world.run(until=min(world.now + 2 * SETTLED_AFTER * SCALE_NS, plan.end_at))


def _who_leads(world: World) -> int:
    """Return who believes to lead, the one of the latest term; failing that who stands."""
    servers = [node.server for node in world.nodes if isinstance(node, RaftNode) and node.up]
    known = [
        (server.role is Role.LEADER, server.term, server.number)
        for server in servers
        if server.role is not Role.FOLLOWER
    ]
    return max(known)[2] if known else -1


def _propose(world: World, every_ns: int, number: int) -> None:
    """Give a command to everybody who believes to lead: an old leader gets some that will never be committed."""
    for node in world.nodes:
        if isinstance(node, RaftNode) and node.up and node.server.role is Role.LEADER:
            node.propose(f"x{number}{chr(ord('a') + node.number)}")
    gap_ns = world.chance.between(every_ns // 2, every_ns * 3 // 2)
    world.at(world.now + gap_ns, _propose, world, every_ns, number + 1)


def judge(seed: int, options: Options) -> Outcome:
    """Play one seed and check its history."""
    setup = draw_setup(seed, options)
    history = play(setup, find(options.mutant) if options.mutant else None)
    found = check(history, setup.plan, SCALE_NS)
    elections = sum(entry.kind == "became" and entry.detail[0] is Role.LEADER for entry in history)
    committed = max(
        (entry.number + len(entry.detail[0]) - 1 for entry in history if entry.kind == "applied"), default=0
    )
    return Outcome(seed, elections, committed, history[-1].at, tuple(found))


def _judge_chunk(seeds: Collection[int], options: Options) -> list[Outcome]:
    return [judge(seed, options) for seed in seeds]


def judge_seeds(first: int, seed_count: int, jobs: int, options: Options) -> Iterator[Outcome]:
    """Yield the outcomes of ``seed_count`` seeds from ``first`` on, in order."""
    seeds = islice(takewhile(lambda seed: seed <= SEED_MAX, count(first)), seed_count)
    if jobs == 1:
        yield from (judge(seed, options) for seed in seeds)
    else:
        chunks = iter(lambda: tuple(islice(seeds, CHUNK_SEEDS)), ())
        yield from on_cores(partial(_judge_chunk, options=options), chunks, jobs)
