"""``Prometheus``: a subscriber that a scrape reads.

A fact changes a few numbers under a lock; nothing is rendered before somebody scrapes. ``prometheus_client`` would render a
thousand elections in a tenth of a second, since it escapes every label anew, so ``exposition`` writes the same bytes itself.
"""

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError
from tenure.facts.kinds import Fact
from tenure.metrics import catalogue as of
from tenure.metrics.book import Book, Labels
from tenure.metrics.catalogue import Kind, Metric
from tenure.metrics.elections import ELECTIONS_MAX, OTHERS
from tenure.metrics.readings import gauges, growing, of_subscribers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

    from tenure.stores.base import ElectionStatus
    from tenure.stores.examining import Finding

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_DIGITS_MAX: Final = 6
# One series: what follows the name of its family, its labels, its value.
Row = tuple[str, Labels, float]


class Ledger:
    """Counters and distributions, as a ``Recorder`` gets them."""

    def __init__(self) -> None:
        self.counters: dict[Metric, dict[Labels, float]] = {}
        self.buckets: dict[Metric, dict[Labels, list[int]]] = {}
        self.sums: dict[Metric, dict[Labels, float]] = {}
        for metric in of.METRICS:
            if metric.kind is Kind.COUNTER:
                self.counters[metric] = {}
            elif metric.kind is Kind.HISTOGRAM:
                self.buckets[metric], self.sums[metric] = {}, {}

    def count(self, metric: Metric, by: float, labels: Labels) -> None:
        counted = self.counters[metric]
        counted[labels] = counted.get(labels, 0) + by

    def observe(self, metric: Metric, value: float, labels: Labels) -> None:
        buckets = self.buckets[metric].get(labels)
        if buckets is None:
            buckets = self.buckets[metric][labels] = [0] * (len(metric.buckets) + 1)
            self.sums[metric][labels] = 0.0
        buckets[bisect_left(metric.buckets, value)] += 1
        self.sums[metric][labels] += value

    def begin(self, store: str) -> None:
        """Have the distributions of a store, though nothing is in them yet."""
        for metric, buckets in self.buckets.items():
            buckets.setdefault((store,), [0] * (len(metric.buckets) + 1))
            self.sums[metric].setdefault((store,), 0.0)

    def forget(self, store: str, election: str) -> None:
        for metric, counted in self.counters.items():
            if metric.labels[:2] == ("store", "election"):
                for labels in [labels for labels in counted if labels[:2] == (store, election)]:
                    self.count(metric, counted.pop(labels), (store, OTHERS, *labels[2:]))


class Prometheus:
    """Elections of this process as metrics: ``tenure.subscribe(Prometheus())``, before anybody stands.

    It is a collector of ``registry``, which by default is one of its own (``registry``), and not the one that is global to
    ``prometheus_client``. Of ``elections_max`` elections at a time there are series by name; the others are counted together.
    """

    def __init__(
        self,
        registry: "CollectorRegistry | None" = None,
        elections_max: int = ELECTIONS_MAX,
        *,
        clock: Clock | None = None,
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry  # noqa: PLC0415  (an extra)
        except ImportError:
            rule = "must be installed: pip install 'tenure[metrics]'"
            raise ConfigError("metrics", "prometheus-client", rule) from None
        self.registry = CollectorRegistry() if registry is None else registry
        self._elections_max, self._clock = elections_max, clock or BootClock()
        self._only_others = threading.local()
        self._begin()
        self.registry.register(self)
        _ALL.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._ledger.count(of.SUSPENDED, 0, ())
        self._book = Book(self._ledger, self._elections_max)
        self._texts: dict[tuple[Labels, Labels], str] = {}

    def __repr__(self) -> str:
        return f"<Prometheus of {self.registry!r}>"

    def __call__(self, fact: Fact) -> None:
        """Hear of a fact."""
        with self._lock:
            self._book.hear(fact)

    def saw(self, statuses: "Iterable[ElectionStatus]", store: str = "") -> None:
        """Take note of what a store says of all its elections: who leads, and who waits in which order.

        ``store`` is its address as facts have it, ``Store.address``. Call it again within a minute, or it is shown no more.
        """
        with self._lock:
            self._book.saw(statuses, store, self._clock.now())

    def examined(self, found: "Iterable[Finding]", store: str) -> None:
        """Take note of what an examination of a store has found, as ``tenure doctor`` makes one."""
        with self._lock:
            self._book.examined(found, store)

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics of the whole registry as a scrape gets them, and their content type."""
        from prometheus_client import generate_latest  # noqa: PLC0415  (an extra)

        ours = "".join(self._lines())
        with self._left_out():
            return ours.encode() + generate_latest(self.registry), CONTENT_TYPE

    # As a collector

    def collect(self) -> "Iterator[Family]":
        """Yield every metric, for ``prometheus_client``."""
        from prometheus_client.samples import Sample  # noqa: PLC0415  (an extra)

        if getattr(self._only_others, "now", False):
            return
        for metric, rows in self._families().items():
            family = _family(metric)
            names = (*metric.labels, "le")  # Of which only buckets have the last.
            family.samples = [
                Sample(metric.name + suffix, dict(zip(names, labels, strict=False)), value)
                for suffix, labels, value in rows
            ]
            yield family

    def describe(self) -> "list[Family]":
        """Return what there may be, so that two who offer the same in one registry are told at once."""
        return [_family(metric) for metric in of.METRICS]

    @contextmanager
    def _left_out(self) -> Iterator[None]:
        self._only_others.now = True
        try:
            yield
        finally:
            self._only_others.now = False

    # What there is to show

    def _families(self) -> dict[Metric, list[Row]]:
        with self._lock:
            now = self._clock.now()
            shown = gauges(self._book, now)
            counters = {metric: dict(counted) for metric, counted in self._ledger.counters.items()}
            for metric, labels, more in growing(self._book, now):
                counters[metric][labels] = counters[metric].get(labels, 0) + more
            for store in self._book.lost_since:
                self._ledger.begin(store)
            distributions = {metric: list(_distribution(metric, self._ledger)) for metric in self._ledger.buckets}
        totals = {metric: [*counted.items()] for metric, counted in counters.items()} | of_subscribers()
        rows = {metric: [("_total", *row) for row in values] for metric, values in totals.items()}
        rows |= {metric: [("", *row) for row in values] for metric, values in shown.items()} | distributions
        return {metric: rows[metric] for metric in of.METRICS}

    def _lines(self) -> Iterator[str]:
        if len(self._texts) > 8 * self._elections_max + 1000:  # Names come and go.
            self._texts = {}
        for metric, rows in self._families().items():
            name, names = metric.name, (*metric.labels, "le")
            full = f"{name}_total" if metric.kind is Kind.COUNTER else name
            yield f"# HELP {full} {metric.help}\n# TYPE {full} {metric.kind.value}\n"
            for suffix, labels, value in rows:
                yield f"{name}{suffix}{self._text(names, labels)} {_number(value)}\n"

    def _text(self, names: Labels, labels: Labels) -> str:
        """Return labels as they stand behind the name of a series: sorted, as ``prometheus_client`` has them."""
        text = self._texts.get((names, labels))
        if text is None:
            pairs = sorted(zip(names, labels, strict=False))
            text = "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""
            self._texts[names, labels] = text
        return text


def _distribution(metric: Metric, ledger: Ledger) -> Iterator[Row]:
    bounds = [*map(_number, metric.buckets), "+Inf"]
    for labels, buckets in ledger.buckets[metric].items():
        below = 0
        for bound, count in zip(bounds, buckets, strict=True):
            below += count
            yield "_bucket", (*labels, bound), below
        yield "_count", labels, below
        yield "_sum", labels, ledger.sums[metric][labels]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """Return a number as Go and ``prometheus_client`` write it: from a million on, with an exponent."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > _DIGITS_MAX:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02d}"
    return text


def _family(metric: Metric) -> "Family":
    from prometheus_client.metrics_core import Metric as Family  # noqa: PLC0415  (an extra)

    return Family(metric.name, metric.help, metric.kind.value)


_ALL: Final["weakref.WeakSet[Prometheus]"] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for one in list(_ALL):
        one._begin()  # noqa: SLF001  (what the parent leads, the child does not)


os.register_at_fork(after_in_child=_after_fork_in_child)
