"""Facts told to a Prometheus at virtual times, and what a scrape shows of them."""

from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tenure.clock import VirtualClock
from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact, What
from tenure.metrics import Prometheus
from tenure.model import Bid, Holder, Incumbent, Token
from tenure.stores.base import ElectionStatus
from tenure.stores.examining import bad

SECOND_NS: Final = 10**9
STORE: Final = "etcd://h1,h2,h3"
ADA: Final = Holder("ada", 1, "0000000000000001")
BOB: Final = Holder("bob", 2, "0000000000000002")


class Telling:
    """Call it with what has happened, in seconds since the start; ask it for the value of a series."""

    wall_s: Final = 1_700_000_001.5

    def __init__(self, elections_max: int = 1000) -> None:
        self._clock = VirtualClock()
        self.metrics = Prometheus(elections_max=elections_max, clock=self._clock)

    def __call__(
        self,
        happened: What,
        *,
        at_s: float = 0,
        election: str = "jobs",
        holder: Holder = ADA,
        of_store: bool = False,
        at_store: str = STORE,
    ) -> None:
        at_ns = max(self._clock.now(), int(at_s * SECOND_NS))
        self._clock.advance(at_ns - self._clock.now())
        if of_store:
            self.metrics(Fact(happened, at_ns, self.wall_s, at_store))
        else:
            self.metrics(Fact(happened, at_ns, self.wall_s, at_store, election, holder))

    def everything(self) -> None:
        """Let there be a series of every metric."""
        bid = Bid("jobs", ADA, 1, 8 * SECOND_NS)
        for happened in (
            what.Stood(8 * SECOND_NS),
            what.Waiting(Incumbent("jobs", BOB, Token(1))),
            what.Woken(),
            what.SealFailed(Token(2), "Marks", "no", True),
            what.Elected(Token(2), 0),
            what.Overstayed(Token(2), 1),
            what.StoreFailed("renew", what.Outcome.UNKNOWN, ""),
            what.Left(Token(2), Reason.LAPSED),
            what.Elected(Token(3), 0),
        ):
            self(happened)
        for of_all in (
            what.Renewed((bid,), SECOND_NS, 1),
            what.RefusedStale("Marks", 1, 2, "etcd/7/jobs"),
            what.RefusedUnverified("Marks", 3, 2, "etcd/7/jobs"),
            what.Suspended(SECOND_NS),
            what.StoreLost("no answer"),
        ):
            self(of_all, of_store=True)
        self.metrics.saw([status("jobs", 3, BOB, waiting=2)], STORE)
        self.metrics.examined([bad("alarms", "")], STORE)

    def passes(self, for_s: float) -> None:
        """Let time pass."""
        self._clock.advance(int(for_s * SECOND_NS))

    def text(self) -> str:
        """A scrape."""
        return self.metrics.exposition()[0].decode()

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the series with exactly these labels; None: there is none."""
        found = [
            sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name == f"tenure_{name}" and sample.labels == labels
        ]
        assert len(found) < 2, found
        return found[0] if found else None

    def of(self, name: str, **labels: str) -> float | None:
        """Of the election ``jobs``."""
        return self.value(name, store=STORE, election="jobs", **labels)

    def store(self, name: str, **labels: str) -> float | None:
        """Of the store."""
        return self.value(name, store=STORE, **labels)


def status(election: str, token: int, leader: Holder, *, waiting: int) -> ElectionStatus:
    """What a store says of an election with this leader, and as many that wait."""
    return ElectionStatus(election, Incumbent(election, leader, Token(token)), None, None, False, (BOB, ADA)[:waiting])
