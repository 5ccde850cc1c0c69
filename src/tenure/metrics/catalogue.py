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
_FENCE: Final = ("sink", "fence")

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


def _gauge(stem: str, labels: tuple[str, ...], help_: str, unit: str = "") -> Metric:
    return Metric(stem, Kind.GAUGE, help_, labels, unit)


def _counter(stem: str, labels: tuple[str, ...], help_: str, unit: str = "") -> Metric:
    return Metric(stem, Kind.COUNTER, help_, labels, unit)


def _of_a_store(stem: str, buckets: tuple[float, ...], help_: str, unit: str = _S) -> Metric:
    return Metric(stem, Kind.HISTOGRAM, help_, _STORE, unit, buckets)


# Of each election: six series while it leads, three while it waits.
LEADER: Final = _gauge(
    "leader", _ELECTION, "1 while a candidate of this process leads, from taking office until its body has ended."
)
WAITING: Final = _gauge("waiting", _ELECTION, "1 while a candidate of this process stands and none of them leads.")
TOKEN: Final = _gauge(
    "token",
    _ELECTION,
    "The highest token that this process knows of: its own, that of whom it waits for, or what the store says.",
)
ELECTED: Final = _counter("elected", _ELECTION, "Tenures of this process that have begun.")
ELECTED_AT: Final = _gauge(
    "elected_timestamp", _ELECTION, "When the running tenure of this process began, in Unix time.", _S
)
MARGIN_LEAST: Final = _gauge(
    "renewal_margin_least",
    _ELECTION,
    "The least that was left of the validity when a renewal of the running tenure was answered.",
    _S,
)
# There once the first has happened.
ENDED: Final = _counter("tenures", (*_ELECTION, "reason"), "Tenures of this process that have ended, by reason.")
OVERSTAYS: Final = _counter("overstays", _ELECTION, "Tenures whose body still ran when their validity had ended.")
OVERSTAY: Final = _counter(
    "overstay", _ELECTION, "For how long bodies ran on after the validity of their tenure had ended.", _S
)
# There if somebody looks at the store and says what it saw.
LEADERS_SEEN: Final = _gauge(
    "leaders_seen", _ELECTION, "How many lead: whom the store names, and candidates of this process that believe so."
)
STANDBYS: Final = _gauge("standbys", _ELECTION, "How many wait, as the store says.")
QUEUE_POSITION: Final = _gauge(
    "queue_position", _ELECTION, "Which in the queue this process is, as the store says: 1 is next."
)

# Of a store
ELECTIONS: Final = _gauge(
    "elections", (*_STORE, "state"), "How many elections this process stands in, by what it does there."
)
ELECTION_TIME: Final = _of_a_store(
    "election_duration", _ELECTING, "From standing, or from hearing that the office may be free, to taking it."
)
LEADERLESS: Final = _of_a_store(
    "leaderless",
    _ELECTING,
    "From hearing that the office may be free until somebody was known to be in it, as a candidate saw it.",
)
IN_OFFICE: Final = _of_a_store("time_in_office", _TENURES, "How long tenures lasted that have ended.")
MARGIN: Final = _of_a_store(
    "renewal_margin", _MARGIN, "What was left of the validity when a renewal was answered: how close it was."
)
MARGIN_RATIO: Final = _of_a_store(
    "renewal_margin",
    _SHARES,
    "What was left of the validity when a renewal was answered, as a share of the ttl.",
    "ratio",
)
RENEWAL_TIME: Final = _of_a_store("renewal_duration", _LATENCY, "From asking for a renewal to its answer.")
STORE_ERRORS: Final = _counter(
    "store_errors",
    (*_STORE, "operation", "outcome"),
    "Requests that came to nothing, by what is known of them.",
)
STORE_LOST: Final = _gauge("store_lost", _STORE, "1 while the store does not answer this process.")
STORE_LOST_TIME: Final = _counter(
    "store_lost_time", _STORE, "For how long the store has not answered this process.", _S
)
SEAL_FAILURES: Final = _counter(
    "seal_failures",
    (*_STORE, "sink"),
    "Fences that could not be raised, so that an office that was granted was not taken.",
)
FINDINGS: Final = _gauge(
    "store_findings",
    (*_STORE, "subject", "level"),
    "What an examination of the store has found, by level, as tenure doctor does.",
)

# Of a process
STALE: Final = _counter(
    "stale_writes_refused", _FENCE, "Writes and seals that a sink refused for a larger token it has seen."
)
UNVERIFIED: Final = _counter(
    "unverified_writes_refused", _FENCE, "Writes and seals that a sink refused, because nobody confirmed the token."
)
SUSPENDED: Final = _counter("suspended", (), "For how long the machine slept.", _S)
FOLDED: Final = _gauge("elections_folded", (), "How many elections of this process have no series of their own.")
DROPPED: Final = _counter("facts_dropped", ("subscriber",), "Facts that a subscriber was too slow for.")
FAILED: Final = _counter("facts_failed", ("subscriber",), "Facts with which a subscriber raised.")

METRICS: Final[tuple[Metric, ...]] = tuple(value for value in globals().values() if isinstance(value, Metric))
