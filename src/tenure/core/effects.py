"""What a candidate asks its driver to do. An effect is a request; the driver performs it and reports by an event."""

from dataclasses import dataclass

from tenure.errors import Reason
from tenure.facts.kinds import Elected, Left, Overstayed
from tenure.model import Bid, Grant, Token, Wait


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask the store for the office. Answer: Granted, MustWait or Failed."""

    attempt: int
    bid: Bid


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask the store to prolong the office. Answer: Granted, Deposed or Failed."""

    attempt: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class Watch:
    """Wait until claiming again may help, instead of any watch asked for before. Answer: Changed or Failed."""

    attempt: int
    wait: Wait


@dataclass(frozen=True, slots=True)
class Seal:
    """Raise the fence of every declared sink to the token. Answer: Sealed, Deposed or Failed."""

    attempt: int
    token: Token


@dataclass(frozen=True, slots=True)
class StartBody:
    """Run the body under this token. Answer, when it is over: BodyEnded."""

    token: Token


@dataclass(frozen=True, slots=True)
class StopBody:
    """Cancel the body and go on cancelling until it has ended."""

    token: Token
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Tell the store that this bid is over, whatever it got: office, a place in the queue, or nothing. No answer is needed."""

    bid: Bid


@dataclass(frozen=True, slots=True)
class Publish:
    """Tell whoever listens."""

    what: Elected | Overstayed | Left


Effect = Claim | Renew | Watch | Seal | StartBody | StopBody | Release | Publish
