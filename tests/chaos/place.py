"""What a place is to a game with zombies."""

from itertools import accumulate
from typing import Protocol


class Place(Protocol):
    """A running engine: ``store`` is the URL of elections in it, ``target`` what its Target is made of; "" if it has none."""

    @property
    def store(self) -> str: ...

    @property
    def target(self) -> str: ...

    def prepare(self, election: str) -> None:
        """Make whatever must be there before the first write for this election."""

    def blocked(self) -> bool:
        """Say whether somebody who was frozen holds up everybody else here, as only files let one do."""
        ...

    def written(self, election: str) -> list[int]:
        """The tokens that were written for it, in the order in which they landed."""
        ...


def descents(tokens: list[int]) -> int:
    """How many writes landed after one with a larger token: each is a stale write that was accepted."""
    return sum(token < highest for token, highest in zip(tokens, accumulate(tokens, max), strict=True))
