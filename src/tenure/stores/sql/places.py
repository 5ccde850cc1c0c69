"""What this process knows of its own bids, and of the rows of others. Nothing here speaks to a database.

Rules of this file
1. A claim of which no answer came may still be carried out, however late. Until its bid is released, that is remembered.
2. With ``expiry=observer`` a lease is over once *we* have seen no change of its row for its ttl, by *our* clock; and a tenure of
   ours once a ttl has passed since the last write that proved it was sent.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenure.model import Bid, Grant, Holder
from tenure.stores.register import Register
from tenure.stores.sql.rows import Office

_SIGHTINGS_MAX: Final = 4096  # some hundred bytes each; one that is forgotten is counted anew, which is late and safe


@dataclass(slots=True)
class Place:
    """The last bid of one holder in one election."""

    bid: Bid
    token: int | None = None  # of the tenure that it has
    proven_at: int = 0  # when the last write was sent that proved it
    resign_asked: bool = False
    in_doubt: set[int] = field(default_factory=set)  # serials whose claims were sent and not answered

    def lapsed(self, now: int) -> bool:
        """Say whether a tenure that it had is over by our clock."""
        return self.token is not None and now >= self.proven_at + self.bid.ttl_ns


class Places(Register[Place]):
    """All places of one store. Used on one event loop."""

    def enter_bid(self, bid: Bid) -> Place:
        """Return the place of a bid; that of an earlier bid of the same holder becomes it."""
        place = self.find(bid)
        if place is None:
            self.enter(place := Place(bid))
        elif bid.serial > place.bid.serial:
            place.bid, place.token, place.resign_asked = bid, None, False
        return place

    def holding(self, grant: Grant) -> Place | None:
        """Return the place that has this tenure."""
        place = self.find(grant.bid)
        return place if place is not None and place.bid == grant.bid and place.token == grant.token else None

    def leave(self, bid: Bid) -> None:
        """Forget a bid and what came before it."""
        place = self.find(bid)
        if place is not None and place.bid.serial <= bid.serial:
            self.forget(place)

    def standbys(self) -> Mapping[str, tuple[Holder, ...]]:
        """Return who of this process stands in each election and is not in office."""
        waiting: dict[str, tuple[Holder, ...]] = {}
        for place in self:
            if place.token is None:
                election, holder = place.bid.election, place.bid.holder
                waiting[election] = (*waiting.get(election, ()), holder)
        return waiting


class Sightings:
    """Since when each row is as it is, as far as this process has seen."""

    def __init__(self) -> None:
        self._since: OrderedDict[str, tuple[int, int, int]] = OrderedDict()

    def see(self, office: Office, now: int) -> None:
        """Take note of a row. ``now`` is read after the answer came: what is dated late is taken late."""
        self.see_version(office.election, office.token, office.version, now)

    def see_version(self, election: str, token: int, version: int, now: int) -> None:
        known = self._since.get(election)
        if known is None or known[:2] != (token, version):
            self._since[election] = (token, version, now)
        self._since.move_to_end(election)
        if len(self._since) > _SIGHTINGS_MAX:
            self._since.popitem(last=False)

    def left_ns(self, office: Office, now: int) -> int:
        """Return for how long a row that was just seen counts as held; 0 or less: its lease is over for us."""
        if office.holder is None:
            return 0
        known = self._since.get(office.election)
        since = known[2] if known is not None and known[:2] == (office.token, office.version) else now
        return since + office.ttl_ns - now
