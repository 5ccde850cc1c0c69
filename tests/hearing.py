"""What one candidate's facts were, for tests: subscribed for as long as the block runs, and complete when it is looked at."""

from typing import Self

from tenure.facts import subscribe
from tenure.facts.kinds import Elected, Fact, Left, Overstayed, What
from tenure.office.standing import Standing

PATIENCE_S = 30.0


class Hearing:
    """``with Hearing(election) as heard``: what happened to this candidate and what its machine decided, in their order."""

    def __init__(self, election: Standing) -> None:
        self._holder = election.holder
        self._facts: list[Fact] = []

    def __enter__(self) -> Self:
        self._subscription = subscribe(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._subscription.wait_until_told(PATIENCE_S)
        self._subscription.close()

    def _hear(self, fact: Fact) -> None:
        if fact.holder == self._holder:
            self._facts.append(fact)

    @property
    def all(self) -> list[What]:
        """Every fact up to now."""
        assert self._subscription.wait_until_told(PATIENCE_S)
        return [fact.what for fact in self._facts]

    @property
    def of_office(self) -> list[Elected | Overstayed | Left]:
        """Those that the machine itself decides on."""
        return [what for what in self.all if isinstance(what, Elected | Overstayed | Left)]

    @property
    def left(self) -> list[Left]:
        """The tenures that have ended."""
        return [what for what in self.all if isinstance(what, Left)]

    @property
    def tokens(self) -> list[int]:
        """The tokens that it got, in their order."""
        return [what.token for what in self.all if isinstance(what, Elected)]
