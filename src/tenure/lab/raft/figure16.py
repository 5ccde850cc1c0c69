"""Figure 16 of the Raft paper again: how long a cluster is without a leader, by the randomness and by the length of its timeouts.

What the paper says of its set-up (9.3, extended version) is kept: five servers, a broadcast time of about 15 ms, the leader
crashes at a uniformly random instant of its heartbeat interval, which is half of the least election timeout; it sends
heartbeats to all at once before; and logs have different lengths, so that two of the four that remain cannot be elected.

Where the 15 ms go it does not say, and that matters: it is the way there, and not the answer, within which a second candidate
makes a split vote. Here a message takes 2.5 to 3.5 ms and the voter's write to disk the rest. That is fitted, to one number of
the paper: the median of 287 ms at 150-155 ms. The others are then ours to find, and theirs to compare with.
The candidate's own write is not waited for: if it were, nobody would hear of a candidate within 5 ms, and that median would
be 3 s.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import fmean, median
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.faults import MS, Plan, S
from tenure.lab.raft.messages import Append, Effect, LogEntry, Role
from tenure.lab.raft.node import RaftNode
from tenure.lab.raft.voting import Settings
from tenure.lab.world import World
from tenure.sim.cores import on_cores

TOP: Final = ((150, 150), (150, 151), (150, 155), (150, 175), (150, 200), (150, 300))
BOTTOM: Final = ((12, 24), (25, 50), (50, 100), (100, 200), (150, 300))
LINES: Final = tuple(dict.fromkeys((*TOP, *BOTTOM)))
TRIALS: Final = 1000
TRIALS_MAX: Final = 1_000_000
SERVERS: Final = 5
BROADCAST_MAX_MS: Final = 1000
GIVE_UP_S: Final = (
    12  # A trial that has no leader by then counts as this long: the paper says "longer than 10 seconds".
)
BROADCAST_MS: Final = 15.0
ONE_WAY: Final = (2.5 / 15, 3.5 / 15)  # from and to, as shares of the broadcast time
WRITE: Final = (8 / 15, 10 / 15)
_CHUNK: Final = 50
_CRASHED: Final = 0  # the old leader: the server that is never started
_TERM: Final = 1
_LOG: Final = [LogEntry(0, ""), *[LogEntry(_TERM, "x")] * SERVERS]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the figure: what was drawn between what, and how long each trial took, in ms, in rising order."""

    low_ms: int
    high_ms: int
    times_ms: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.low_ms}-{self.high_ms} ms"

    @property
    def median_ms(self) -> float:
        return median(self.times_ms)

    @property
    def mean_ms(self) -> float:
        return fmean(self.times_ms)

    @property
    def worst_ms(self) -> float:
        return self.times_ms[-1]

    @property
    def gave_up(self) -> int:
        """How many trials had no leader when they were given up."""
        return sum(time >= GIVE_UP_S * 1000 for time in self.times_ms)

    def below(self, limit_ms: float) -> float:
        """Return the share of trials that took no longer than that."""
        return sum(time <= limit_ms for time in self.times_ms) / len(self.times_ms)

    def quantile_ms(self, share: float) -> float:
        """Return the time within which this share of the trials had a leader."""
        return self.times_ms[min(int(share * len(self.times_ms)), len(self.times_ms) - 1)]


def trial(low_ms: int, high_ms: int, seed: int, broadcast_ms: float = BROADCAST_MS) -> float:
    """Crash one leader; return how long it took until there was another, in ms."""
    settings = Settings(low_ms * MS, high_ms * MS, low_ms * MS // 2)
    broadcast_ns = broadcast_ms * MS
    plan = Plan(seed, SERVERS, int(ONE_WAY[0] * broadcast_ns), int(ONE_WAY[1] * broadcast_ns), absent=(_CRASHED,))
    write_ns = int(WRITE[0] * broadcast_ns), int(WRITE[1] * broadcast_ns)
    world = World(plan, lambda world, number: RaftNode(world, number, settings))
    elected: list[int] = []
    notice = partial(_notice, elected)
    for node in world.nodes[1:]:
        assert isinstance(node, RaftNode)
        node.disk = {"term": _TERM, "voted_for": _CRASHED, "log": _LOG[: node.number + 1]}
        node.answer_takes_ns = write_ns
        node.watcher = notice
        world.send(_CRASHED, node.number, Append(_TERM, _CRASHED, node.number, _TERM, (), 0))
    crash_at = world.chance.between(0, low_ms * MS // 2)
    world.run(until=crash_at + GIVE_UP_S * S)
    return (elected[0] - crash_at if elected else GIVE_UP_S * S) / MS


def _notice(elected: list[int], node: RaftNode, effects: list[Effect]) -> None:  # noqa: ARG001  (what a watcher is given)
    if node.server.role is Role.LEADER:
        elected.append(node.world.now)
        node.world.stop()


def _trials(chunk: tuple[int, int, int, int], broadcast_ms: float) -> list[tuple[int, int, float]]:
    low_ms, high_ms, first, count = chunk
    seeds = seeds_of(low_ms, high_ms, first, count)
    return [(low_ms, high_ms, trial(low_ms, high_ms, seed, broadcast_ms)) for seed in seeds]


def seeds_of(low_ms: int, high_ms: int, first: int, count: int) -> range:
    """Return the seeds of some trials of a line. Two lines that drew the same would not be two measurements."""
    base = (low_ms * 1000 + high_ms) * TRIALS_MAX + first
    return range(base, base + count)


def measure(trials: int, jobs: int, broadcast_ms: float = BROADCAST_MS) -> Iterator[Line]:
    """Yield the lines of the figure, each as soon as it is measured."""
    if not 1 <= trials <= TRIALS_MAX:
        raise ConfigError("--trials", trials, f"must lie between 1 and {TRIALS_MAX}")
    if not 1 <= broadcast_ms <= BROADCAST_MAX_MS:  # a number that is none fails this as well
        raise ConfigError("--broadcast", f"{broadcast_ms} ms", f"must lie between 1 and {BROADCAST_MAX_MS} ms")
    work = partial(_trials, broadcast_ms=broadcast_ms)
    starts = range(0, trials, _CHUNK)
    chunks = ((*span, first, min(_CHUNK, trials - first)) for span in LINES for first in starts)
    results = on_cores(work, chunks, jobs) if jobs > 1 else (result for chunk in chunks for result in work(chunk))
    for low_ms, high_ms in LINES:
        yield Line(low_ms, high_ms, tuple(sorted(time_ms for _, _, time_ms in islice(results, trials))))
