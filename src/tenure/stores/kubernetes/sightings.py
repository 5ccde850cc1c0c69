"""What this process has seen of each Lease, and since when it has not changed. Nothing else ends a lease here.

Rules of this file
1. A Lease is over once *we* have seen no change of its record for its duration, by *our* clock. What its holder wrote as the
   time of its last renewal counts for nothing: its clock is not ours. A Lease that is deleted under its holder is over no
   sooner: the holder hears of it with its next renewal, and leads until then. Only the holder itself need not wait.
2. What is seen later is newer, also if it arrives before something older: an event that is overtaken by an answer must not
   hide that answer. Versions of one Lease are numbers that rise, until somebody puts a backup of the cluster back. So the
   answer to a question that was asked after everything else had been seen is the newest, whatever its number; and that
   there is no Lease, which has no number, is believed of such an answer only. Versions that are no numbers are taken as
   they come.
3. The highest token that was seen of an election is remembered for as long as the process lives, and for all its stores: a
   Lease that is deleted and made anew begins again with 1, and tokens must not.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from tenure.clock import Clock
from tenure.stores.kubernetes.lease import DURATION_MAX_S, TRANSITIONS_MAX, Lease

_LOG: Final = logging.getLogger("tenure")
# Of the elections that nobody stands in; each takes two kibibytes.
_SIGHTINGS_MAX: Final = 1024
_HIGHEST_MAX: Final = 100_000  # in each namespace; some hundred bytes each

# By the identity of the namespace, and there by the name of the Lease: a pair of both for each would be as large as all the rest
# of its entry. Used on one event loop, the office's.
_HIGHEST: Final[dict[str, OrderedDict[str, int]]] = {}


class Sighting:
    """One Lease as it was last seen."""

    __slots__ = ("_news", "deleted", "lease", "mark", "name", "seen_at", "user_count", "version")

    def __init__(self, name: str) -> None:
        self.name = name  # of the Lease: one text for all that is kept of it, whoever speaks of it next
        self.lease: Lease | None = None  # None: there is none
        self.deleted: Lease | None = None  # the one that was there before, if there is none now
        self.version = 0  # of what was seen last; 0: something may have been missed, and whatever comes is newer
        self.mark = 0  # another number whenever something new was seen
        self.seen_at = 0  # when its record was first seen as it is
        self._news: asyncio.Event | None = None  # while somebody waits for some
        self.user_count = 0  # who stands or waits in this election

    @property
    def office(self) -> Lease | None:
        """The Lease by which somebody may be in office: the one that is there, or else the one that was deleted."""
        return self.deleted if self.lease is None else self.lease

    def over_at(self) -> int:
        """Return when whoever is in office is out of it, if nothing changes until then. 0: nobody is."""
        office = self.office
        if office is None or not office.identity:
            return 0
        return self.seen_at + office.duration_s * 10**9

    def is_news(self, lease: Lease) -> bool:
        """Say whether this is newer than what was seen before, and take it for the newest if so."""
        number = lease.number or self.version + 1
        newer = number > self.version
        self.version = max(self.version, number)
        return newer

    @property
    def in_doubt(self) -> bool:
        """Whether something may have happened that nobody has told us of."""
        return self.version == 0

    def tell(self) -> None:
        """Wake who waits for news."""
        if self._news is not None:
            self._news.set()
            self._news = None

    def news(self) -> asyncio.Event:
        """Return what is set when there is something new."""
        if self._news is None:
            self._news = asyncio.Event()
        return self._news


class Sightings:
    """All that one store has seen. ``rewound`` is called when versions have gone back, so that events must be asked for anew."""

    def __init__(self, clock: Clock, rewound: Callable[[], None]) -> None:
        self._clock, self._rewound = clock, rewound
        self._of: OrderedDict[str, Sighting] = OrderedDict()
        self._mark = 0
        self.identity = ""

    def find(self, name: str) -> Sighting | None:
        """Return what was seen of a Lease. None: nobody has looked."""
        return self._of.get(name)

    def mark(self, name: str) -> int:
        """Return what to hand to ``see`` with the answer to a question that is asked now."""
        sighting = self._of.get(name)
        return 0 if sighting is None else sighting.mark

    def see(self, name: str, lease: Lease | None, mark: int) -> Sighting:
        """Take note of an answer about a Lease, of which ``mark`` says when it was asked for. None: there is no such Lease."""
        undisturbed = mark == self.mark(name)
        sighting = self._of.get(name)
        if sighting is None:
            self._tidy()
            sighting = self._of[name] = Sighting(name)
        self._of.move_to_end(name)
        if lease is not None:
            if undisturbed and 0 < lease.number < sighting.version:
                _LOG.warning("Lease %s went back to an earlier version: was a backup of the cluster put back?", name)
                sighting.version = 0
                self._rewound()
            elif undisturbed and sighting.lease is None:
                sighting.version = 0
            self._update(sighting, lease)
        elif undisturbed:
            # Else the answer may be older than a Lease of our own that was made meanwhile, and would depose a leader.
            self._gone(sighting)
        return sighting

    def has_seen(self, name: str, number: int) -> bool:
        """Say whether this version of a Lease is no news: an answer to a write of our own was here before its event."""
        sighting = self._of.get(name)
        return sighting is not None and 0 < number <= sighting.version

    def hear(self, what: str, name: str, lease: Lease) -> None:
        """Take note of an event. Of an election that nobody has asked for, its token is all that is kept."""
        sighting = self._of.get(name)
        if sighting is None:
            self._raise_highest(name, lease.transitions)
        elif what != "DELETED":
            self._update(sighting, lease)
        elif sighting.is_news(lease):  # else it is of an earlier Lease of that name
            self._raise_highest(sighting.name, lease.transitions)
            self._gone(sighting)

    def doubt_all(self) -> None:
        """Events may have been missed: whatever comes next is newer, and who waits had better look."""
        for sighting in self._of.values():
            sighting.version = 0
            sighting.tell()

    def highest(self, name: str) -> int:
        """Return the highest token that this process has seen of an election; 0: none."""
        here = _HIGHEST.get(self.identity)
        return 0 if here is None else here.get(name, 0)

    def _update(self, sighting: Sighting, lease: Lease) -> None:
        if not sighting.is_news(lease):
            return
        name = sighting.name
        before, sighting.lease, sighting.deleted = sighting.lease, lease, None
        if before is None or before.record != lease.record:
            sighting.seen_at = self._clock.now()
        if lease.transitions < self.highest(name):
            _LOG.warning(
                "Lease %s went back to leaseTransitions %d from %d", name, lease.transitions, self.highest(name)
            )
        self._raise_highest(name, lease.transitions)
        self._tell(sighting)

    def _gone(self, sighting: Sighting) -> None:
        if sighting.lease is not None:
            name = sighting.name
            _LOG.warning("Lease %s was deleted; its tokens go on from %d", name, self.highest(name))
            # What would never end is nonsense, and to delete it may have been the cure.
            sighting.deleted = sighting.lease if sighting.lease.duration_s <= DURATION_MAX_S else None
        sighting.lease = None
        self._tell(sighting)

    def _tell(self, sighting: Sighting) -> None:
        self._mark += 1
        sighting.mark = self._mark
        sighting.tell()

    def _raise_highest(self, name: str, transitions: int) -> None:
        if transitions >= TRANSITIONS_MAX:
            return  # It leaves no room for another. Whoever sets it back by hand, as told to, would be refused still.
        here = _HIGHEST.setdefault(self.identity, OrderedDict())
        here[name] = max(transitions, here.get(name, 0))
        here.move_to_end(name)
        if len(here) > _HIGHEST_MAX:
            here.popitem(last=False)

    def _tidy(self) -> None:
        """Make room for one more: forget those that were asked for longest ago, if nobody stands in them."""
        if len(self._of) >= _SIGHTINGS_MAX:
            idle = [name for name, sighting in self._of.items() if not sighting.user_count]
            for name in idle[: len(self._of) - _SIGHTINGS_MAX + 1]:
                del self._of[name]
