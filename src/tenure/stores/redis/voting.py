"""What the answers of several servers come to. No IO: every decision of Redlock is a function of what was answered.

A server that does not answer may hold an office for anybody. It is counted for nobody, and against whoever would have the
majority only without it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

from tenure.model import TOKEN_MAX, Bid
from tenure.stores.redis.records import Held


def majority_of(count: int) -> int:
    """Return how many of ``count`` are more than half."""
    return count // 2 + 1


@dataclass(frozen=True, slots=True)
class Vote:
    """A server that gave its vote to our bid: the highest token it knows of, and the one that this bid has there (0: none)."""

    counter: int
    token: int


class Outcome(Enum):
    """What one round of votes came to."""

    WON = "won"
    TAKEN = "taken"  # by somebody who has, or may have, the majority
    SPLIT = "split"  # nobody has it
    UNHEARD = "unheard"  # too few answered to know


@dataclass(frozen=True, slots=True)
class Ballot:
    """One round: who voted for us, who for others, out of how many servers."""

    size: int
    votes: Sequence[Vote]
    others: Sequence[Held]

    @property
    def silent_count(self) -> int:
        return self.size - len(self.votes) - len(self.others)

    def outcome(self) -> Outcome:
        majority = majority_of(self.size)
        if len(self.votes) >= majority:
            return Outcome.WON
        if self.silent_count > self.size - majority:
            return Outcome.UNHEARD
        _, rival_count = self._rival()
        return Outcome.TAKEN if rival_count and rival_count + self.silent_count >= majority else Outcome.SPLIT

    def token(self, least: int) -> int:
        """Return the token of a bid that won: the one that a majority has it under already, else one above all that are known.

        Two majorities need not share the server that knew the highest one, so it counts only once it was written to a
        majority. 0: there is none left.
        """
        known, count = _most(vote.token for vote in self.votes if vote.token)
        if isinstance(known, int) and count >= majority_of(self.size):
            return known
        highest = max(least, *(max(vote.counter, vote.token) for vote in self.votes))
        return highest + 1 if highest < TOKEN_MAX else 0

    def incumbent(self) -> Held | None:
        """Return who is in office by the word of a majority, under the token that it has there."""
        held, count = _most(held for held in self.others if held.token)
        return held if count >= majority_of(self.size) else None

    def keeps(self, bid: Bid) -> bool:
        """Say whether our votes are the ones to keep in a split: the most, or as many and the lesser name. One side must yield."""
        rival, rival_count = self._rival()
        if len(self.votes) != rival_count or rival is None:
            return len(self.votes) > rival_count
        return (str(bid.holder), bid.serial) < rival

    def _rival(self) -> tuple[tuple[str, int] | None, int]:
        return _most((str(held.holder), held.serial) for held in self.others)


def free_in_s(size: int, answers: Sequence[tuple[bytes, float]]) -> float:
    """Return in how many seconds nobody can have a majority any more; ``answers`` are who holds, or nothing, and for how long."""
    majority, silent_count = majority_of(size), size - len(answers)
    who, count = _most(who for who, _ in answers if who)
    if who is None or count + silent_count < majority:
        return 0.0
    ends_s = sorted(left_s for other, left_s in answers if other == who)
    needed = count + silent_count - majority  # So many may end, and the next one is one too many.
    return ends_s[needed] if needed < len(ends_s) else inf


def is_firm(size: int, answers: Sequence[Held | bytes | None]) -> bool:
    """Say whether those who have not answered change nothing: somebody has a majority, or nobody can have one.

    ``answers`` are who holds, or nothing.
    """
    majority, silent_count = majority_of(size), size - len(answers)
    _, count = _most(who for who in answers if who)
    return count >= majority or count + silent_count < majority


def settled(size: int, answers: Sequence[int]) -> bool | None:
    """Say whether a majority said yes (not 0), or can no longer do so; None: it depends on those who have not answered."""
    yes, majority = sum(answer != 0 for answer in answers), majority_of(size)
    if yes >= majority:
        return True
    return False if len(answers) - yes > size - majority else None


def _most(each: Iterable[Hashable]) -> tuple[Any, int]:
    """Return what comes most often, and how often; None and 0 for nothing."""
    counted = Counter(each).most_common(1)
    return counted[0] if counted else (None, 0)
