"""What is known of each election of this process, and which of them have series of their own.

Names of elections are the user's, and a lock for each order is an election for each order. So only ``elections_max`` of
them are shown by name at a time. What the others count is counted under one name for all of them, which no election can have.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tenure.errors import ConfigError
from tenure.model import Bid, Holder
from tenure.stores.base import ElectionStatus

ELECTIONS_MAX: Final = 1000
OTHERS: Final = "/others"  # No election is called so: names have no empty part between their slashes.
# For how long an election is still shown that nobody of this process stands in: some scrapes, so that each sees its end.
GONE_AFTER_NS: Final = 5 * 60 * 10**9
# How old a picture of a store may be: without one the queue is not known, and an old one would look like a queue that stands.
SEEN_FOR_NS: Final = 60 * 10**9
# For how many ttl an office is believed in without a renewal. None is held for one; the other is for facts that are under way.
_LEASES_MAX: Final = 2
# An examination holds an election of its own, and is made less often.
EXAMINED_FOR_NS: Final = 15 * 60 * 10**9


@dataclass(slots=True)
class Candidate:
    """One candidate of this process. Instants are on the boot clock."""

    holder: Holder
    asking_since: int | None = None  # since when it tries to take the office; None: it waits, or leads
    free_since: int | None = None  # since when nobody is known to be in office
    incumbent: int | None = None  # the token of whom it waited for last
    elected_at: int | None = None  # None: it does not lead
    elected_at_s: float = 0.0
    token: int = 0
    ttl_ns: int | None = None
    renewed_at: int = 0  # or elected, whichever was later
    margin_least_ns: int | None = None
    overdue_since: int | None = None  # when the validity ended that its body has outlived
    # The serial of a bid that is renewed, and since when, on both clocks.
    renewing: tuple[int, int, float] | None = None

    def leads(self, now: int) -> bool:
        """Say whether it leads, as far as is known.

        Of one that left and withdrew nothing more comes, and both may have been missed: it would lead for ever, beside everybody
        who was elected after it.
        """
        if self.elected_at is None or self.overdue_since is not None or self.ttl_ns is None:
            return self.elected_at is not None
        return now - self.renewed_at <= _LEASES_MAX * self.ttl_ns

    def must_lead(self, bid: Bid, at_ns: int, at_s: float) -> bool:
        """Hear of a renewal of one that nobody has heard take office, and say whether it must have.

        An office that was granted is renewed while its sinks are sealed, which takes less than a ttl or is given up. So a bid
        that is renewed for that long is that of a leader, whose ``Elected`` was missed: believed from its first renewal on.
        """
        if self.renewing is None or self.renewing[0] != bid.serial:
            self.renewing = bid.serial, at_ns, at_s
        _, since, since_s = self.renewing
        if at_ns - since < bid.ttl_ns:
            return False
        self.elected_at, self.elected_at_s = since, since_s
        self.asking_since = self.free_since = None
        return True

    def leads_no_more(self) -> None:
        """Forget the tenure; called with every fact that no leader has, since the one that says so may have been missed."""
        self.elected_at = self.margin_least_ns = self.overdue_since = self.renewing = None


@dataclass(slots=True)
class OneElection:
    """One election, and all candidates that this process has in it."""

    store: str
    name: str
    shown_at: str  # its store, or OTHERS
    shown_as: str  # its name, or OTHERS
    candidates: dict[Holder, Candidate] = field(default_factory=dict)
    token: int = 0
    gone_at: int | None = None  # since when nobody of this process stands
    seen: ElectionStatus | None = None
    seen_at: int = 0

    @property
    def shown(self) -> tuple[str, str]:
        """What it is counted under."""
        return self.shown_at, self.shown_as

    def leaders(self, now: int) -> list[Candidate]:
        """Who of this process leads: one, unless a body has outlived its tenure and another of its own process is elected."""
        return [one for one in self.candidates.values() if one.leads(now)]

    def seen_lately(self, now: int) -> ElectionStatus | None:
        """Return what the store said of it, unless that is old."""
        return self.seen if self.seen is not None and now - self.seen_at <= SEEN_FOR_NS else None

    def is_over(self, now: int) -> bool:
        """Say whether nobody has stood in it for a while, nor seen it."""
        return not self.candidates and now - (self.gone_at or 0) > GONE_AFTER_NS and self.seen_lately(now) is None


class Elections:
    """The elections of this process, by store and name."""

    def __init__(self, elections_max: int, store_shown: Callable[[str], str]) -> None:
        """``store_shown`` says what a store is shown as: itself, or OTHERS if there are too many."""
        if elections_max < 1:
            raise ConfigError("elections_max", elections_max, "must be at least 1")
        self._max, self._store_shown = elections_max, store_shown
        self._by_store: dict[str, dict[str, OneElection]] = {}
        self._named = 0
        # Those that nobody of this process ever stood in. Whoever stands is shown in their place.
        self._only_seen: dict[tuple[str, str], OneElection] = {}

    def __iter__(self) -> Iterator[OneElection]:
        for of_store in self._by_store.values():
            yield from of_store.values()

    def of_store(self, store: str) -> dict[str, OneElection]:
        """Return those of one store."""
        return self._by_store.setdefault(store, {})

    def folded(self) -> int:
        """Return how many have no name of their own to be shown by."""
        return sum(map(len, self._by_store.values())) - self._named

    def get(self, store: str, name: str) -> OneElection | None:
        """Return an election that is known."""
        return self._by_store.get(store, {}).get(name)

    def has_room(self) -> bool:
        """Say whether one more can be shown by its name."""
        return self._named < self._max

    def stood_in(self, store: str, name: str) -> OneElection:
        """Return one that a candidate stands in; a new one is shown by its name if there is room."""
        one = self.get(store, name)
        if one is not None:
            self._only_seen.pop((store, name), None)
            return one
        if not self.has_room() and self._only_seen:
            self.forget(next(reversed(self._only_seen.values())))
        return self._add(store, name)

    def seen(self, store: str, name: str) -> OneElection:
        """Begin with one that was only seen. Ask for room first."""
        self._only_seen[store, name] = one = self._add(store, name)
        return one

    def _add(self, store: str, name: str) -> OneElection:
        at = self._store_shown(store)
        named = self.has_room() and at is not OTHERS
        self._named += named
        self.of_store(store)[name] = made = OneElection(store, name, at, name if named else OTHERS)
        return made

    def forget(self, one: OneElection) -> None:
        """Know it no more."""
        del self._by_store[one.store][one.name]
        self._only_seen.pop((one.store, one.name), None)
        self._named -= one.shown_as is not OTHERS

    def over(self, now: int) -> list[OneElection]:
        """Return those that nobody stands in any more, and has not for a while."""
        return [one for one in self if one.is_over(now)]


def queue_position(one: OneElection, status: ElectionStatus) -> int | None:
    """Return which in the queue the first candidate of this process is; None: none of them waits there."""
    for position, holder in enumerate(status.standbys, 1):
        if holder in one.candidates:
            return position
    return None


def leaders_seen(one: OneElection, status: ElectionStatus, now: int) -> int:
    """Return how many lead, by the store's word and by their own."""
    leading = {candidate.holder for candidate in one.leaders(now)}
    if status.incumbent is not None:
        leading.add(status.incumbent.holder)
    return len(leading)
