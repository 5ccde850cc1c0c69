"""What servers of Raft say to each other, what happens to one besides, and what it asks its driver for.

Named tuples: they are made by the hundred thousand, and a slotted dataclass that is frozen takes four times as long to make.
"""

from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """The three states of the paper, and the one before candidacy that pre-vote adds."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class LogEntry(NamedTuple):
    """One command in the log, and the term in which a leader put it there."""

    term: int
    value: str


# Messages.


class RequestVote(NamedTuple):
    """A candidate asks for a vote. ``pre``: it asks whether it would get one, and nobody's term changes by that."""

    term: int
    candidate: int
    last_index: int
    last_term: int
    pre: bool


class Vote(NamedTuple):
    """The answer. ``term`` is the voter's, but for a pre-vote that is granted: there it is the term that was asked about."""

    term: int
    voter: int
    granted: bool
    pre: bool


class Append(NamedTuple):
    """A leader's entries after ``prev_index``, or none: then it is a heartbeat."""

    term: int
    leader: int
    prev_index: int
    prev_term: int
    entries: tuple[LogEntry, ...]
    commit: int


class Appended(NamedTuple):
    """The answer. ``upto``: the last entry up to which the logs agree for certain; if refused, up to which they might."""

    term: int
    follower: int
    ok: bool
    upto: int


# What else happens to a server.


class Tick(NamedTuple):
    """``wake_at`` has come, or may have."""


class Propose(NamedTuple):
    """A client wants this in the log. Only a leader takes it."""

    value: str


Event = RequestVote | Vote | Append | Appended | Tick | Propose


# What a server asks for. The order counts: what stands after a Save must not happen before it is on disk.


class Save(NamedTuple):
    """Write to disk: term, vote, and the log, of which the first ``keep`` entries stay and ``entries`` follow."""

    term: int
    voted_for: int
    keep: int
    entries: tuple[LogEntry, ...]


class Send(NamedTuple):
    """Send a message; it may be lost."""

    target: int
    message: RequestVote | Vote | Append | Appended


class Apply(NamedTuple):
    """Hand these entries, the first of which is number ``first``, to the state machine: they are committed."""

    first: int
    entries: tuple[LogEntry, ...]
    term: int


class Became(NamedTuple):
    """It is something else now, for those who watch."""

    role: Role
    term: int
    why: str


Effect = Save | Send | Apply | Became


class Saved(NamedTuple):
    """What the disk has. ``log[0]`` stands before the first entry, so that every entry has one before it."""

    term: int = 0
    voted_for: int = -1
    log: tuple[LogEntry, ...] = (LogEntry(0, ""),)
