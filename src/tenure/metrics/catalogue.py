"""Which metrics there are: names, labels, units and buckets, said once for every exporter, rule and dashboard.

Names follow Prometheus: base units, the unit at the end, ``_total`` on what only rises. OpenTelemetry has the same without
unit and ``_total``, which its own exporters for Prometheus put there again.

What is a series of each election is counted in the comment below: a process may have thousands. Distributions, a dozen
series each, are therefore of a store, and not of an election.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What may become of a number."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)  # one object each: looked up by identity, at every fact
class Metric:
    """One metric. ``unit`` is spelled as Prometheus does."""

    stem: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """What Prometheus calls its family: without ``_total``."""
        return f"tenure_{self.stem}" + (f"_{self.unit}" if self.unit else "")

    @property
    def series(self) -> tuple[str, ...]:
        """What its series are called in a query."""
        match self.kind:
            case Kind.COUNTER:
                return (f"{self.name}_total",)
            case Kind.GAUGE:
                return (self.name,)
            case Kind.HISTOGRAM:
                return (f"{self.name}_bucket", f"{self.name}_count", f"{self.name}_sum")

    @property
    def otel_name(self) -> str:
        """What OpenTelemetry calls it."""
        return f"tenure.{self.stem}" + ("_ratio" if self.unit == "ratio" else "")

    @property
    def otel_unit(self) -> str:
        """Its unit as UCUM has it; a ratio has none, or exporters would write it twice."""
        return "s" if self.unit == "seconds" else ""


_S: Final = "seconds"
_ELECTION: Final = ("store", "election")
_STORE: Final = ("store",)

# From a store in the same rack to one that is given up, attempts of at most five seconds each.
_LATENCY: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
# From a resignation that a watch tells of to a store that is away for minutes.
_ELECTING: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# Leases are of half a second to minutes.
_MARGIN: Final = (0, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60)
# Shares of the ttl. With the settings that are there by default one missed heartbeat leaves 0.5 and two leave 0.25; at 0.125 the
# body is told to stop.
_SHARES: Final = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
_TENURES: Final = (1, 10, 60, 600, 3600, 21_600, 86_400, 604_800, 2_592_000)

# Of each election: six series while it leads, three while it waits.
LEADER: Final = Metric(
    "leader",
    Kind.GAUGE,
    "1 while a candidate of this process leads, from taking office until its body has ended.",
    _ELECTION,
)
WAITING: Final = Metric(
    "waiting", Kind.GAUGE, "1 while a candidate of this process stands and none of them leads.", _ELECTION
)
TOKEN: Final = Metric(
    "token",
    Kind.GAUGE,
    "The highest token that this process knows of: its own, that of whom it waits for, or what the store says.",
    _ELECTION,
)
ELECTED: Final = Metric("elected", Kind.COUNTER, "Tenures of this process that have begun.", _ELECTION)
ELECTED_AT: Final = Metric(
    "elected_timestamp", Kind.GAUGE, "When the running tenure of this process began, in Unix time.", _ELECTION, _S
)
MARGIN_LEAST: Final = Metric(
    "renewal_margin_least",
    Kind.GAUGE,
    "The least that was left of the validity when a renewal of the running tenure was answered.",
    _ELECTION,
    _S,
)
# There once the first has happened.
ENDED: Final = Metric(
    "tenures", Kind.COUNTER, "Tenures of this process that have ended, by reason.", (*_ELECTION, "reason")
)
OVERSTAYS: Final = Metric(
    "overstays", Kind.COUNTER, "Tenures whose body still ran when their validity had ended.", _ELECTION
)
OVERSTAY: Final = Metric(
    "overstay", Kind.COUNTER, "For how long bodies ran on after the validity of their tenure had ended.", _ELECTION, _S
)
# There if somebody looks at the store and says what it saw.
LEADERS_SEEN: Final = Metric(
    "leaders_seen",
    Kind.GAUGE,
    "How many lead: whom the store names, and candidates of this process that believe so.",
    _ELECTION,
)
STANDBYS: Final = Metric("standbys", Kind.GAUGE, "How many wait, as the store says.", _ELECTION)
QUEUE_POSITION: Final = Metric(
    "queue_position", Kind.GAUGE, "Which in the queue this process is, as the store says: 1 is next.", _ELECTION
)

# Of a store
ELECTIONS: Final = Metric(
    "elections", Kind.GAUGE, "How many elections this process stands in, by what it does there.", (*_STORE, "state")
)
ELECTION_TIME: Final = Metric(
    "election_duration",
    Kind.HISTOGRAM,
    "From standing, or from hearing that the office may be free, to taking it.",
    _STORE,
    _S,
    _ELECTING,
)
LEADERLESS: Final = Metric(
    "leaderless",
    Kind.HISTOGRAM,
    "From hearing that the office may be free until somebody was known to be in it, as a candidate saw it.",
    _STORE,
    _S,
    _ELECTING,
)
IN_OFFICE: Final = Metric(
    "time_in_office", Kind.HISTOGRAM, "How long tenures lasted that have ended.", _STORE, _S, _TENURES
)
MARGIN: Final = Metric(
    "renewal_margin",
    Kind.HISTOGRAM,
    "What was left of the validity when a renewal was answered: how close it was.",
    _STORE,
    _S,
    _MARGIN,
)
MARGIN_RATIO: Final = Metric(
    "renewal_margin",
    Kind.HISTOGRAM,
    "What was left of the validity when a renewal was answered, as a share of the ttl.",
    _STORE,
    "ratio",
    _SHARES,
)
RENEWAL_TIME: Final = Metric(
    "renewal_duration", Kind.HISTOGRAM, "From asking for a renewal to its answer.", _STORE, _S, _LATENCY
)
STORE_ERRORS: Final = Metric(
    "store_errors",
    Kind.COUNTER,
    "Requests that came to nothing, by what is known of them.",
    (*_STORE, "operation", "outcome"),
)
STORE_LOST: Final = Metric("store_lost", Kind.GAUGE, "1 while the store does not answer this process.", _STORE)
STORE_LOST_TIME: Final = Metric(
    "store_lost_time", Kind.COUNTER, "For how long the store has not answered this process.", _STORE, _S
)
SEAL_FAILURES: Final = Metric(
    "seal_failures",
    Kind.COUNTER,
    "Fences that could not be raised, so that an office that was granted was not taken.",
    (*_STORE, "sink"),
)
FINDINGS: Final = Metric(
    "store_findings",
    Kind.GAUGE,
    "What an examination of the store has found, by level, as tenure doctor does.",
    (*_STORE, "subject", "level"),
)

# Of a process
STALE: Final = Metric(
    "stale_writes_refused",
    Kind.COUNTER,
    "Writes and seals that a sink refused for a larger token it has seen.",
    ("sink",),
)
UNVERIFIED: Final = Metric(
    "unverified_writes_refused",
    Kind.COUNTER,
    "Writes and seals that a sink refused, because nobody confirmed the token.",
    ("sink",),
)
SUSPENDED: Final = Metric("suspended", Kind.COUNTER, "For how long the machine slept.", (), _S)
FOLDED: Final = Metric(
    "elections_folded", Kind.GAUGE, "How many elections of this process have no series of their own."
)
DROPPED: Final = Metric("facts_dropped", Kind.COUNTER, "Facts that a subscriber was too slow for.", ("subscriber",))
FAILED: Final = Metric("facts_failed", Kind.COUNTER, "Facts with which a subscriber raised.", ("subscriber",))

METRICS: Final[tuple[Metric, ...]] = tuple(value for value in globals().values() if isinstance(value, Metric))
