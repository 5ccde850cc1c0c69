"""What every exporter is: a subscriber with a book, which is also told what a store says of all its elections."""

import os
import threading
import weakref
from collections.abc import Iterable
from typing import Final

from tenure.clock import BootClock, Clock
from tenure.facts.kinds import Fact
from tenure.metrics.book import Book
from tenure.metrics.catalogue import Metric
from tenure.metrics.elections import ELECTIONS_MAX
from tenure.metrics.ledger import Ledger
from tenure.metrics.readings import Values, gauges, growing, of_subscribers
from tenure.stores.base import ElectionStatus
from tenure.stores.examining import Finding


class Exporter:
    """Hears of facts on a thread of its own, and shows what has become of them on whichever asks."""

    def __init__(self, elections_max: int = ELECTIONS_MAX, clock: Clock | None = None) -> None:
        self._elections_max, self._clock = elections_max, clock or BootClock()
        self.begin()
        _ALL.add(self)

    def begin(self) -> None:
        """Know of nothing. Also what the child of a fork does: what its parent leads, it does not."""
        self._lock = threading.Lock()
        self._ledger = self._made_ledger()
        self._book = Book(self._ledger, self._elections_max)

    def _made_ledger(self) -> Ledger:
        return Ledger()

    def __call__(self, fact: Fact) -> None:
        """Hear of a fact."""
        with self._lock:
            self._book.hear(fact)

    def saw(self, statuses: Iterable[ElectionStatus], store: str = "") -> None:
        """Take note of what a store says of all its elections: who leads, and who waits in which order.

        ``store`` is its address as facts have it, ``Store.address``. Call it again within a minute, or it is shown no more.
        """
        with self._lock:
            self._book.saw(statuses, store, self._clock.now())

    def examined(self, found: Iterable[Finding], store: str) -> None:
        """Take note of what an examination of a store has found, as ``tenure doctor`` makes one. Shown for a quarter of an hour."""
        with self._lock:
            self._book.examined(found, store, self._clock.now())

    def _read(self) -> dict[Metric, Values]:
        """Return gauges and counters as they are now. Called under the lock."""
        now = self._clock.now()
        counters = {metric: dict(counted) for metric, counted in self._ledger.counters.items()}
        for metric, labels, more in growing(self._book, now):
            counters[metric][labels] = counters[metric].get(labels, 0) + more
        totals: dict[Metric, Values] = {metric: [*counted.items()] for metric, counted in counters.items()}
        return gauges(self._book, now) | totals | of_subscribers()


_ALL: Final["weakref.WeakSet[Exporter]"] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for one in list(_ALL):
        one.begin()


os.register_at_fork(after_in_child=_after_fork_in_child)
