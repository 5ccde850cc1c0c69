"""Groups of tenures: for stores that know the place of each, and for stores that keep no list of them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, Protocol, TypeVar

from tenure.model import Bid, Ended, Grant
from tenure.stores.base import CanAskToResign, CanRenewGroups, CanRenewTogether, Group, Roll


def group_of(store: CanRenewTogether, within_ns: int) -> Group:
    """Return a new group of tenures in this store, for whoever waits so long for a renewal."""
    return store.group(within_ns) if isinstance(store, CanRenewGroups) else ListedGroup(store)


class Listing:
    """The tenures of a group, and nothing else of them."""

    def __init__(self) -> None:
        self._grants: dict[Bid, Grant] = {}

    def add(self, grant: Grant) -> None:
        self._grants[grant.bid] = grant

    def discard(self, grant: Grant) -> None:
        if self._grants.get(grant.bid) == grant:
            del self._grants[grant.bid]


class ListedGroup(Listing):
    """A group that asks for each of its tenures by name, every time. The request is one; the work is that of many."""

    def __init__(self, store: CanRenewTogether) -> None:
        super().__init__()
        self._store = store
        self._asks = store if isinstance(store, CanAskToResign) else None

    async def renew(self) -> Roll:
        grants = list(self._grants.values())
        answers = await self._store.renew_together(grants)
        if len(answers) != len(grants):  # Whose answers these are cannot be known, so nobody may hear one.
            raise ValueError(f"{len(answers)} answers to {len(grants)} renewals")
        if not all(isinstance(answer, Grant | Ended) for answer in answers):
            raise TypeError(f"renew_together answered {answers!r}")
        # Whatever is not this very tenure is not what was asked for: who is not named here goes on.
        ended = frozenset(grant.bid for grant, answer in zip(grants, answers, strict=True) if answer != grant)
        asked = () if self._asks is None else tuple(grant for grant in grants if self._asks.resign_asked(grant))
        return Roll(ended, asked)


class Placed(Protocol):
    """What a store knows of one bid."""

    resign_asked: bool

    def holds(self, grant: Grant) -> bool:
        """Say whether ``grant`` is what this place has."""
        ...


P = TypeVar("P", bound=Placed)


class KeepsPlaces(Protocol[P]):
    """A store that has a place for each bid. A place that does not hold a grant any more never will again."""

    def place_of(self, grant: Grant) -> P | None:
        """Return the place that holds ``grant``."""
        ...

    async def keep(self, places: Sequence[P]) -> AbstractSet[P]:
        """Renew all these places, and return those that are gone: mostly nobody is."""
        ...


class PlacedGroup(Generic[P]):
    """A group that knows the places of its tenures, and need not look for them."""

    def __init__(self, store: KeepsPlaces[P]) -> None:
        self._store = store
        self._held: dict[Grant, P | None] = {}  # None: it had ended before it came

    def add(self, grant: Grant) -> None:
        self._held[grant] = self._store.place_of(grant)

    def discard(self, grant: Grant) -> None:
        self._held.pop(grant, None)

    async def renew(self) -> Roll:
        held = self._held.copy()
        gone = await self._store.keep([place for grant, place in held.items() if place and place.holds(grant)])
        ended = [grant.bid for grant, place in held.items() if not place or place in gone or not place.holds(grant)]
        asked = [grant for grant, place in held.items() if place and place.resign_asked]
        return Roll(frozenset(ended), asked)
