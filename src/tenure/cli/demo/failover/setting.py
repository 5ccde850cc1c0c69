"""What the processes of ``tenure demo failover`` have in common: the numbers, and the names of what they share."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.plan import RTO_S, Budget
from tenure.timing import Timing

ELECTION: Final = "demo/brain"
FEED_ROWS: Final = 2000
EXECUTIONS_PER_S: Final = 10  # of each worker, by its last orders
WORKERS: Final = ("w1", "w2")


@dataclass(frozen=True, slots=True)
class Pace:
    """Every time of the demo, all shortened by one factor."""

    factor: float

    @property
    def timing(self) -> Timing:
        """H = 2 s, N = 3, L = 8 s."""
        return Timing.of(ttl=8 * self.factor)

    @property
    def heartbeat_s(self) -> float:
        return self.timing.renew_every_ns / 1e9

    @property
    def cold(self) -> Budget:
        """What a standby may take that begins to load when it is elected."""
        return Budget.of(
            self.timing,
            elect_s=self.factor,
            load_s=2 * self.factor,
            warm_s=13 * self.factor,
            discover_s=5 * self.factor,
        )

    @property
    def warm(self) -> Budget:
        """And one that has done so before."""
        return Budget.of(self.timing, elect_s=self.factor, load_s=0, warm_s=0, discover_s=5 * self.factor)

    @property
    def reserve_s(self) -> float:
        """What the plan leaves of the 30 s."""
        return RTO_S * self.factor - self.cold.total_s

    @property
    def round_s(self) -> float:
        """How often a leader speaks to its workers, and a client looks for the leader."""
        return self.factor / 2


@dataclass(frozen=True, slots=True)
class Scenario:
    """One failover: how the leader falls, and what its standby did before."""

    number: int
    fault: str  # "killed" or "frozen"
    standby: str  # "cold" or "warm"

    @property
    def name(self) -> str:
        return f"{self.fault} {self.standby}"


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario(1, "killed", "cold"),
    Scenario(2, "frozen", "cold"),
    Scenario(3, "killed", "warm"),
    Scenario(4, "frozen", "warm"),
)


def create_feed(path: Path) -> None:
    """Make the feed that leaders write and read: what they decide by."""
    with sqlite3.connect(path) as feed:
        feed.execute("PRAGMA journal_mode = WAL")
        feed.execute("CREATE TABLE feed (position INTEGER PRIMARY KEY, fact TEXT NOT NULL, token INTEGER NOT NULL)")
        rows = [(f"fact {number}", 0) for number in range(FEED_ROWS)]
        feed.executemany("INSERT INTO feed (fact, token) VALUES (?, ?)", rows)
    feed.close()
