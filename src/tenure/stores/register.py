"""The register of one store: which place each holder has in each election. Used on one event loop."""

from collections.abc import Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

from tenure.model import Bid, Holder


class Registered(Protocol):
    """What a store knows of the last bid of one holder in one election."""

    @property
    def bid(self) -> Bid:
        """The bid; it may become a later one of the same holder."""
        ...


P = TypeVar("P", bound=Registered)


class Register(Generic[P]):
    """All places of one store, one for each holder in each election.

    Most processes have one candidate in an election, which needs no more than the election's name: a key of both would be
    the third part of what ten thousand leaders have here.
    """

    __slots__ = ("_first", "_more")

    def __init__(self) -> None:
        self._first: dict[str, P] = {}
        self._more: dict[tuple[str, Holder], P] = {}  # of holders that came while another was the first

    def __len__(self) -> int:
        return len(self._first) + len(self._more)

    def __iter__(self) -> Iterator[P]:
        return chain(self._first.values(), self._more.values())

    def find(self, bid: Bid) -> P | None:
        """Return the place of the bid's holder in its election; it may be that of another bid."""
        first = self._first.get(bid.election)
        if first is not None and _same(first, bid):
            return first
        return self._more.get((bid.election, bid.holder)) if self._more else None

    def enter(self, place: P) -> None:
        """Have this be its holder's place, whichever was before."""
        bid, before = place.bid, self.find(place.bid)
        first = self._first.get(bid.election)
        if first is before:  # both None: nobody stands there
            self._first[bid.election] = place
        else:
            self._more[bid.election, bid.holder] = place

    def forget(self, place: P) -> bool:
        """Let go of a place, if it is the one that its holder has; say whether it was."""
        bid = place.bid
        if self.find(bid) is not place:
            return False
        if self._first.get(bid.election) is place:
            del self._first[bid.election]
        else:
            del self._more[bid.election, bid.holder]
        return True


def _same(place: Registered, bid: Bid) -> bool:
    holder = place.bid.holder
    return holder is bid.holder or holder == bid.holder
