"""What ``tenure doctor`` finds at an engine, as values.

A store measures (``measuring`` has what all of them measure alike); what was measured is judged by pure functions
(``judging``), so that every threshold is tested without an engine.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Level(StrEnum):
    """How much a finding matters."""

    GOOD = "good"
    WARNING = "warning"  # elections work, and something may make them worse
    BAD = "bad"  # elections will not work


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. ``advice`` says what to do about it; empty: nothing, or the detail says it."""

    level: Level
    subject: str
    detail: str
    advice: str = ""


@runtime_checkable
class CanExamine(Protocol):
    """A store that can say how its engine is."""

    async def examine(self, ttl_ns: int) -> list[Finding]:
        """Examine the engine for elections with that ttl, and say what it promises. Called once, in place of opening it.

        Raises StoreError if nothing of the engine can be reached, and ConfigError for what cannot be a store at all.
        """
        ...


@runtime_checkable
class CanSeeMembers(Protocol):
    """A store whose URL names the servers that decide, each of which can be asked by itself whether it is there."""

    async def members(self) -> dict[str, str | None]:
        """Ask every server that the URL names, each on a connection of its own, and return why it does not answer; None: it does.

        It changes nothing, takes a few seconds at most, and may be called while the store is open. That they answer does not
        mean that they decide.
        """
        ...


@runtime_checkable
class HasSchema(Protocol):
    """A store whose tables, and the rights that elections need in them, can be made by hand."""

    def schema(self) -> str:
        """Return the statements that do so, for the command line of the database."""
        ...


def good(subject: str, detail: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(Level.GOOD, subject, detail)


def warning(subject: str, detail: str, advice: str) -> Finding:
    """Return a finding with which elections work."""
    return Finding(Level.WARNING, subject, detail, advice)


def bad(subject: str, detail: str, advice: str = "") -> Finding:
    """Return a finding with which they do not. The error of a store says by itself what to do."""
    return Finding(Level.BAD, subject, detail, advice)
