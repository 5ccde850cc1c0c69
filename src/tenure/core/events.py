"""What can happen to a candidate. An event is a fact about the past; it carries the attempt that it answers."""

from dataclasses import dataclass

from tenure.errors import Reason
from tenure.model import Grant, Token, Wait


@dataclass(frozen=True, slots=True)
class Stand:
    """The user wants office."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The user no longer wants office."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This tenure must end (an operator asked for it, the body has stalled); the candidate goes on standing."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Granted:
    """The store granted a claim or a renewal."""

    attempt: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class MustWait:
    """The store answered a claim: not now."""

    attempt: int
    wait: Wait


@dataclass(frozen=True, slots=True)
class Deposed:
    """The store answered a renewal, or a sink a seal: this tenure is over. True for ever, whichever request it answers."""

    token: Token


@dataclass(frozen=True, slots=True)
class Failed:
    """A claim, renewal, seal or watch did not work. Not definite: it may have been carried out all the same (rule 7)."""

    attempt: int
    definite: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """A watch ended: claiming again may help."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """Every declared sink now refuses tokens below this one."""

    token: Token


@dataclass(frozen=True, slots=True)
class BodyEnded:
    """The body is no longer running, for whatever reason."""

    token: Token


@dataclass(frozen=True, slots=True)
class Tick:
    """``wake_at`` has come."""


Event = Stand | Resign | GiveUp | Granted | MustWait | Deposed | Failed | Changed | Sealed | BodyEnded | Tick
