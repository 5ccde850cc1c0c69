"""``Prometheus``: a subscriber that a scrape reads.

A fact changes a few numbers under a lock; nothing is rendered before somebody scrapes. ``prometheus_client`` would render a
thousand elections in a tenth of a second, since it escapes every label anew, so ``exposition`` writes the same bytes itself.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tenure.clock import Clock
from tenure.errors import ConfigError
from tenure.metrics.book import Labels
from tenure.metrics.catalogue import METRICS, Kind, Metric
from tenure.metrics.elections import ELECTIONS_MAX
from tenure.metrics.exporter import Exporter
from tenure.metrics.ledger import Ledger

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_DIGITS_MAX: Final = 6  # before Go writes an exponent
_TEXTS_MAX: Final = (
    100_000  # labels that are kept as text: some tens of megabytes, and more than any scrape should have
)
# One series: what follows the name of its family, its labels, its value.
Row = tuple[str, Labels, float]


class Prometheus(Exporter):
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
        self._only_others = threading.local()
        self._texts: dict[tuple[Labels, Labels], str] = {}
        super().__init__(elections_max, clock)
        self.registry.register(self)

    def __repr__(self) -> str:
        return f"<Prometheus of {self.registry!r}>"

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
        return [_family(metric) for metric in METRICS]

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
            values = self._read()
            distributions = {metric: list(_distribution(metric, self._ledger)) for metric in self._ledger.buckets}
        rows = {metric: [(_SUFFIX[metric.kind], *row) for row in found] for metric, found in values.items()}
        rows |= distributions
        return {metric: rows[metric] for metric in METRICS}

    def _lines(self) -> Iterator[str]:
        if len(self._texts) > _TEXTS_MAX:  # Names come and go.
            self._texts = {}
        for metric, rows in self._families().items():
            name, names = metric.name, (*metric.labels, "le")
            full = name + _SUFFIX[metric.kind]
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


_SUFFIX: Final = {Kind.COUNTER: "_total", Kind.GAUGE: "", Kind.HISTOGRAM: ""}


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
