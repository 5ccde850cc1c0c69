"""What was counted: totals and distributions, as a ``Recorder`` of a book gets them."""

from bisect import bisect_left
from typing import Final

from tenure.metrics.book import Labels
from tenure.metrics.catalogue import METRICS, SUSPENDED, Kind, Metric
from tenure.metrics.elections import OTHERS

_OF_AN_ELECTION: Final = ("store", "election")


class Ledger:
    """Counters and distributions."""

    def __init__(self) -> None:
        self.counters: dict[Metric, dict[Labels, float]] = {}
        self.buckets: dict[Metric, dict[Labels, list[int]]] = {}
        self.sums: dict[Metric, dict[Labels, float]] = {}
        for metric in METRICS:
            if metric.kind is Kind.COUNTER:
                self.counters[metric] = {}
            elif metric.kind is Kind.HISTOGRAM:
                self.buckets[metric], self.sums[metric] = {}, {}
        self.count(SUSPENDED, 0, ())

    def count(self, metric: Metric, by: float, labels: Labels) -> None:
        """Add to a counter."""
        counted = self.counters[metric]
        counted[labels] = counted.get(labels, 0) + by

    def observe(self, metric: Metric, value: float, labels: Labels) -> None:
        """Take a value into a distribution."""
        if labels not in self.buckets[metric]:
            self._begin(metric, labels)
        self.buckets[metric][labels][bisect_left(metric.buckets, value)] += 1
        self.sums[metric][labels] += value

    def begin(self, store: str) -> None:
        """Have the distributions of a store, though nothing is in them yet: a rate needs the nought that it began with."""
        for metric, known in self.buckets.items():
            if (store,) not in known:
                self._begin(metric, (store,))

    def forget(self, store: str, election: str) -> None:
        """Count for all others what was counted for this election."""
        for metric, counted in self.counters.items():
            if metric.labels[:2] == _OF_AN_ELECTION:
                for labels in [labels for labels in counted if labels[:2] == (store, election)]:
                    self.count(metric, counted.pop(labels), (store, OTHERS, *labels[2:]))

    def _begin(self, metric: Metric, labels: Labels) -> None:
        self.buckets[metric][labels] = [0] * (len(metric.buckets) + 1)
        self.sums[metric][labels] = 0.0
