"""What happened in one simulation, in true time: the only thing that the checkers read.

One entry per thing that happened. ``who`` is a process (``B2``: the second start of B), ``token`` the tenure it was
about (0: none), ``number`` what the kind says below, ``note`` words for people that no checker reads, ``election`` where.
Each election is judged by itself, by what happened in it and in all of them.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

from tenure.errors import Reason


class Kind(StrEnum):
    """What an entry tells."""

    # a process
    STARTED = "started"
    CRASHED = "crashed"
    STANDBY = "standby"  # it began to wait
    WOKEN = "woken"  # a watch told it that claiming may help
    WAITS_NO_MORE = "waits no more"
    HOLDS = "holds"  # number: the true instant up to which it believes in this tenure
    RECLOCKED = "reclocked"  # number: the same, after its clock was bent
    LEFT = "left"  # it holds nothing any more
    BEGAN = "began"  # its body began; number: the serial of the bid
    STOPPING = "stopping"  # the body was told to stop; number: of its reason in ``REASONS``
    DEPOSED = "deposed"  # it heard that this tenure is over
    FROZE = "froze"
    THAWED = "thawed"
    ENDED = "ended"  # the body ended; number: the serial of the bid
    RELEASED = "released"  # it sent a release; number: the serial of the bid
    OVERSTAYED = "overstayed"
    # the store
    GRANTED = "granted"  # number: the serial of the bid
    RENEWED = "renewed"
    LEASED = "leased"  # number: the true instant at which the store will let go unless it is renewed
    DELETED = "deleted"  # an operator deleted the record of this tenure by hand
    FREED = "freed"  # the office is free again
    ASKED = "asked"  # a claim reached the store
    # the sink and the worker
    SEALED = "sealed"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    EXECUTED = "executed"
    # the world
    FAULT = "fault"
    HEALED = "healed"  # from here on no more faults
    FINISHED = "finished"


REASONS: Final = tuple(Reason)
EVERY: Final = -1  # the election of what happened in all of them


class Entry(NamedTuple):
    """One thing that happened."""

    at: int
    kind: Kind
    who: str
    token: int
    number: int
    note: str
    election: int = 0

    def __str__(self) -> str:
        return f"{self.at} {self.kind.value} {self.who} {self.token} {self.number} {self.election} {self.note}".rstrip()


class History(list[Entry]):
    """The entries in the order in which they happened."""

    def of(self, election: int) -> "History":
        """Return what happened in one election."""
        return History(entry for entry in self if entry.election in (election, EVERY))

    def fingerprint(self) -> str:
        """Return a hash of the whole history: equal seeds give equal ones, on every machine."""
        return sha256("\n".join(map(str, self)).encode()).hexdigest()
