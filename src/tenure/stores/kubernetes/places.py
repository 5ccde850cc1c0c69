"""Who stands in the elections of one store: a place for each holder in each election."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.model import Bid, Grant, Holder, Token
from tenure.stores.kubernetes.lease import Lease
from tenure.stores.kubernetes.sightings import Sighting
from tenure.stores.register import Register

# All requests of one call have a third of the ttl: longer than the machine waits for it, and short enough for another try.
_CALLS_PER_TTL: Final = 3
# Everybody who waits hears of a release at the same moment. Spread over this, most of them hear who has won before they ask.
_SPREAD_S: Final = 0.03


@dataclass(slots=True, eq=False)
class Place:
    """One bid, from its first claim to its release."""

    bid: Bid
    sighting: Sighting
    token: Token | None = None  # of the tenure that it has
    proven_at: int = 0  # when the last write was sent that proved it
    over: int = 0  # the token of its last tenure that has ended, whatever the Lease says: a late renewal may still land
    # The version that a claim was based on of which no answer came; empty: it was to create the Lease.
    doubt: str | None = None
    resign_asked: bool = False
    busy: "asyncio.Future[Any] | None" = None  # what is under way

    @property
    def name(self) -> str:
        """What its Lease is called."""
        return self.sighting.name

    @property
    def lease(self) -> Lease | None:
        """The Lease as it was last seen, if its bid was in office then."""
        seen = self.sighting.lease
        return seen if seen is not None and seen.is_of(self.bid) else None

    def holds(self, grant: Grant, now: int) -> bool:
        """Say whether it has this tenure still."""
        return self.bid == grant.bid and self.token == grant.token and not self.lapsed(now)

    def lapsed(self, now: int) -> bool:
        """Say whether a tenure that it had is over by the clock."""
        return self.token is not None and now >= self.proven_at + self.bid.ttl_ns

    def end(self) -> None:
        """Note that its tenure, if it has one, is over. It will not be resumed (rule 3 of the design)."""
        self.over, self.token = max(self.over, self.token or 0), None


class Places(Register[Place]):
    """All places of one store. Used on one event loop."""

    def enter_bid(self, bid: Bid, sighting: Sighting) -> Place:
        """Return the place of a bid, or of a later one of the same holder. It takes that of an earlier one."""
        before = self.find(bid)
        if before is not None and before.bid.serial >= bid.serial:
            return before
        if before is not None:
            self.forget(before)
        self.enter(place := Place(bid, sighting))
        sighting.user_count += 1
        return place

    def forget(self, place: Place) -> bool:
        """Let go of a place. Whoever still has it finds that it has no tenure."""
        place.token = None
        forgotten = super().forget(place)
        place.sighting.user_count -= forgotten
        return forgotten

    async def earlier_ended(self, bid: Bid) -> None:
        """Wait for what is under way for an earlier bid of the same holder: the later one finds what came of it."""
        while (place := self.find(bid)) is not None and place.bid.serial < bid.serial and place.busy is not None:
            await asyncio.wait([place.busy])

    def standbys(self) -> Mapping[str, list[Holder]]:
        """Return who stands in each election and is not in office."""
        waiting: dict[str, list[Holder]] = {}
        for place in self:
            if place.token is None:
                waiting.setdefault(place.bid.election, []).append(place.bid.holder)
        return waiting


def asks_after_s(chance: float) -> float:
    """Return when to claim that has just become possible. ``chance`` is a number from 0 to 1 that each draws for itself."""
    return chance * _SPREAD_S


def deadline_s(bid: Bid) -> float:
    """Return when a call for this bid has to be over, on the event loop's clock."""
    return asyncio.get_running_loop().time() + bid.ttl_ns / _CALLS_PER_TTL / 1e9


def left_s(until_s: float) -> float:
    """Return how long that is from now."""
    return max(0.0, until_s - asyncio.get_running_loop().time())
