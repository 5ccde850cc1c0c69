"""Groups for stores that can renew many tenures with one request, but keep no list of them."""

from typing import Final

from tenure.model import Bid, Ended, Grant
from tenure.stores.base import CanAskToResign, CanRenewGroups, CanRenewTogether, Group, Roll

_NOBODY: Final = Roll(frozenset(), ())


def group_of(store: CanRenewTogether) -> Group:
    """Return a new group of tenures in this store."""
    return store.group() if isinstance(store, CanRenewGroups) else ListedGroup(store)


class ListedGroup:
    """A group that asks for each of its tenures by name, every time. The request is one; the work is that of many."""

    def __init__(self, store: CanRenewTogether) -> None:
        self._store = store
        self._asks = store if isinstance(store, CanAskToResign) else None
        self._grants: dict[Bid, Grant] = {}

    def add(self, grant: Grant) -> None:
        self._grants[grant.bid] = grant

    def discard(self, grant: Grant) -> None:
        if self._grants.get(grant.bid) == grant:
            del self._grants[grant.bid]

    async def renew(self) -> Roll:
        grants = list(self._grants.values())
        answers = await self._store.renew_together(grants)
        if answers == grants and self._asks is None:
            return _NOBODY
        if len(answers) != len(grants):  # Whose answers these are cannot be known, so nobody may hear one.
            raise ValueError(f"{len(answers)} answers to {len(grants)} renewals")
        ended = frozenset(answer.bid for answer in answers if isinstance(answer, Ended))
        asked = () if self._asks is None else tuple(grant for grant in grants if self._asks.resign_asked(grant))
        return Roll(ended, asked)
