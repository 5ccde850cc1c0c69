"""What has happened, as frozen values. One fact for each thing, told to whoever subscribed (``tenure.subscribe``).

A fact says when, and of which candidate, store or sink; ``what`` says what. It is told after the thing has happened, so
it may be old when it is heard: decide nothing by it that a token or a validity should decide.

Units: durations end in ``_ns``. ``at_ns`` is on the boot clock, comparable within one machine's uptime and nowhere else;
``at_s`` is the wall clock, for people, and may jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from tenure.errors import OutcomeUnknown, Reason, StoreError, Unreachable
from tenure.model import Bid, Holder, Incumbent, Token

# Of a candidate


@dataclass(frozen=True, slots=True)
class Stood:
    """A candidate began to stand. Told once, however many tenures come of it."""

    ttl_ns: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The store said: not now. Told again whenever the candidate has asked again."""

    incumbent: Incumbent | None  # for whom it waits; None: for one before it in the queue


@dataclass(frozen=True, slots=True)
class Woken:
    """The wait is over: claiming may help now, since the office became free or the queue has moved."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Every declared sink has raised its fence to this token. Not told where no sink was declared."""

    token: Token
    sinks: int
    took_ns: int


@dataclass(frozen=True, slots=True)
class SealFailed:
    """A sink could not be sealed, or said no, so the office that was granted is not taken, or not yet."""

    token: Token
    sink: str
    detail: str
    warns: bool  # False: it is by choice that this candidate does not lead now


@dataclass(frozen=True, slots=True)
class Elected:
    """Office was taken and the body starts."""

    token: Token
    valid_until: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """A renewal was answered. Elections that renew together are one fact: ``bids`` says whose they are."""

    bids: Sequence[Bid]
    margin_ns: int  # what was left of the validity when the answer came: how close it was
    took_ns: int  # from when it was asked for


@dataclass(frozen=True, slots=True)
class Ending:
    """The body was told to stop. It may go on until it notices, and no longer than its validity without an overstay."""

    token: Token
    reason: Reason


@dataclass(frozen=True, slots=True)
class Overstayed:
    """The body still ran when the office had to be given up."""

    token: Token
    late_by_ns: int


@dataclass(frozen=True, slots=True)
class Left:
    """The body has ended and the office was left."""

    token: Token
    reason: Reason


@dataclass(frozen=True, slots=True)
class Withdrew:
    """The candidate stands no longer, and what it held has been released."""


# Of a store, a sink, the machine


class Outcome(StrEnum):
    """What is known of a request that got no good answer."""

    UNREACHABLE = "unreachable"  # never sent
    REFUSED = "refused"  # the engine said no
    UNKNOWN = "unknown"  # sent, and no answer came


def outcome_of(error: StoreError) -> Outcome:
    """Say what is known of a request that failed in this way."""
    if isinstance(error, Unreachable):
        return Outcome.UNREACHABLE
    return Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.REFUSED


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """A request to the store came to nothing; it is tried again."""

    operation: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class StoreLost:
    """A store that answered does not any more: for want of a way to it, or of an answer."""

    detail: str


@dataclass(frozen=True, slots=True)
class StoreBack:
    """A store that was lost has answered again."""

    gone_for_ns: int


@dataclass(frozen=True, slots=True)
class RefusedStale:
    """A sink of this process refused a write or a seal, because it has seen a larger token."""

    sink: str
    token: int
    highest: int
    fence: str = ""  # whose tokens these are: the store's identity and the election; empty: the sink does not say


@dataclass(frozen=True, slots=True)
class RefusedUnverified:
    """A sink of this process refused a token higher than any it has seen, because nobody confirmed it."""

    sink: str
    token: int
    highest: int
    fence: str = ""  # likewise


@dataclass(frozen=True, slots=True)
class Suspended:
    """The machine slept, and every timer of this process was late by that."""

    for_ns: int


What = (
    Stood
    | Waiting
    | Woken
    | Sealed
    | SealFailed
    | Elected
    | Renewed
    | Ending
    | Overstayed
    | Left
    | Withdrew
    | StoreFailed
    | StoreLost
    | StoreBack
    | RefusedStale
    | RefusedUnverified
    | Suspended
)


# Made for each thing that happens, on the thread that renews: a frozen dataclass takes three times as long.
class Fact(NamedTuple):
    """One thing that happened. What does not apply is empty: a machine that slept has no election."""

    what: What
    at_ns: int
    at_s: float
    store: str = ""  # its address, without secrets
    election: str = ""
    holder: Holder | None = None

    @property
    def name(self) -> str:
        """What happened, in one word for people and programs: ``elected``, ``store-lost``."""
        return NAMES[type(self.what)]


def _spelled(kind: type) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).removeprefix("-")


KINDS: Final[tuple[type, ...]] = What.__args__
NAMES: Final = {kind: _spelled(kind) for kind in KINDS}


def as_json(fact: Fact) -> dict[str, object]:
    """Return a fact as JSON has it: flat, times in seconds, who is whom as text. Of ``Renewed`` only how many."""
    shown: dict[str, object] = {
        "fact": fact.name,
        "at": datetime.fromtimestamp(fact.at_s, UTC).isoformat(timespec="milliseconds"),
    }
    for name, value in (("store", fact.store), ("election", fact.election), ("holder", fact.holder)):
        if value:
            shown[name] = str(value)
    for one in fields(fact.what):
        value = getattr(fact.what, one.name)
        if one.name.endswith("_ns"):
            shown[one.name.removesuffix("_ns") + "_s"] = round(value / 1e9, 6)
        elif one.name == "bids":
            shown["elections"] = len(value)
        elif isinstance(value, Incumbent):
            shown["incumbent"] = {"holder": str(value.holder), "token": value.token, "advertised": value.advertised}
        elif one.name != "valid_until":  # a number of this process's own clock
            shown[one.name] = value
    return shown
