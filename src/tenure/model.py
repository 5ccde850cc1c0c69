"""The values that everything else speaks of. All are frozen; none knows a clock, a store or a thread.

Units: every duration and instant is an integer of nanoseconds and its name ends in ``_ns``, except ``now``,
``sent_at`` and ``valid_until``, which are instants on the holder's own clock in nanoseconds.
"""

import os
import secrets
import socket
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NewType

from tenure.errors import ConfigError

Token = NewType("Token", int)
"""The number of one tenure. Strictly rises per election, for ever (rule 4); sinks compare it and nothing else."""

TOKEN_MAX = 2**63 - 1  # The largest integer that every engine and SQL database can hold.


def token(number: int) -> Token:
    """Return ``number`` as a Token; refuses anything outside 1 … 2⁶³−1, so that zero can mean "none seen yet".

    And whatever is no integer, even if it compares as one: written down as 7.0 or true, nobody reads it as a token again.
    """
    if type(number) is not int:  # Not isinstance: True would be one.
        raise ConfigError("token", number, "must be an integer")
    if not 1 <= number <= TOKEN_MAX:
        raise ConfigError("token", number, f"must lie between 1 and {TOKEN_MAX}")
    return Token(number)


@lru_cache(maxsize=1)
def _shared(pid: int) -> int:
    """One object for all holders of a process, as ``sys.intern`` has for texts."""
    return pid


@dataclass(frozen=True, slots=True)
class Holder:
    """Who stands: one start of one process (rule 14). Two processes are never one holder, nor is a restarted one."""

    host: str
    pid: int
    nonce: str

    @classmethod
    def fresh(cls) -> "Holder":
        """Return a holder that no process has ever been. Call it once per process start, and again after a fork."""
        return cls(sys.intern(socket.gethostname()), _shared(os.getpid()), secrets.token_hex(8))

    def __str__(self) -> str:
        return f"{self.host}/{self.pid}/{self.nonce}"


@dataclass(frozen=True, slots=True)
class Bid:
    """One try of one holder to take one office once.

    Asking again with the same bid is a repeat, and gets the same tenure. A larger ``serial`` of the same holder says
    that whatever its earlier bids got is over. Without the serial a store could not tell a lost answer (same tenure)
    from a second tenure (new token), and a delayed release could end the wrong one.
    """

    election: str
    holder: Holder
    serial: int
    ttl_ns: int = field(compare=False)  # what is asked for, not who asks: it does not make another bid
    advertise: str = field(default="", compare=False)  # where the holder can be reached once in office; likewise
    fenced: bool = field(default=False, compare=False)  # its holder writes through sinks that compare tokens; likewise


@dataclass(frozen=True, slots=True)
class Grant:
    """The store's word that a bid has the office. Says nothing of how long: the holder dates that itself (rule 1)."""

    bid: Bid
    token: Token


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Who holds an office, as the engine knew it when it was asked. It may have ended since."""

    election: str
    holder: Holder
    token: Token
    advertised: str = ""  # where its holder says that it can be reached; empty: it did not say


@dataclass(frozen=True, slots=True)
class Wait:
    """The store's word that a bid must wait, and for whom (nobody: the turn belongs to one before it in the queue)."""

    bid: Bid
    incumbent: Incumbent | None


Version = NewType("Version", str)
"""Which writing of a document this is. Equal or not, and nothing else: engines count in ways of their own."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is kept under a key, and which writing of it that is. Others may have written since."""

    value: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Conflict:
    """The store's word that a write named a version that is not the one there now. Nothing was written."""

    current: Document | None  # what is there instead; None: nothing


@dataclass(frozen=True, slots=True)
class Ended:
    """The store's word that a tenure no longer holds the office. It never will again (rule 3)."""

    bid: Bid
    token: Token
