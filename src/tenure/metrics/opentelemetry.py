"""``OpenTelemetry``: the same metrics as instruments, and spans: one for each tenure, one for each try to take office."""

from typing import TYPE_CHECKING, Final

from tenure.clock import Clock
from tenure.errors import ConfigError
from tenure.facts.kinds import Fact
from tenure.metrics.book import Labels
from tenure.metrics.catalogue import METRICS, Kind, Metric
from tenure.metrics.elections import ELECTIONS_MAX
from tenure.metrics.exporter import Exporter
from tenure.metrics.ledger import Ledger
from tenure.metrics.readings import Values
from tenure.metrics.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

# A reader asks for some twenty instruments one after the other; all are shown as they were at one moment.
_ONE_MOMENT_NS: Final = 10**8


class _Instruments(Ledger):
    """Totals are kept, since an instrument that only adds cannot show what still grows; distributions are handed on."""

    def __init__(self, histograms: dict[Metric, "Histogram"]) -> None:
        super().__init__()
        self._histograms = histograms

    def observe(self, metric: Metric, value: float, labels: Labels) -> None:
        self._histograms[metric].record(value, _attributes(metric, labels))


class OpenTelemetry(Exporter):
    """Elections of this process as metrics and spans: ``tenure.subscribe(OpenTelemetry())``, before anybody stands.

    Providers are by default those that are global to ``opentelemetry``. A span is made when it ends; that of a process
    which is killed is never made.
    """

    def __init__(
        self,
        meter_provider: "MeterProvider | None" = None,
        tracer_provider: "TracerProvider | None" = None,
        elections_max: int = ELECTIONS_MAX,
        *,
        clock: Clock | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415  (an extra)
        except ImportError:
            rule = "must be installed: pip install 'tenure[otel]'"
            raise ConfigError("otel", "opentelemetry-api", rule) from None
        meter = metrics.get_meter("tenure", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("tenure", tracer_provider=tracer_provider)
        self._histograms = {
            metric: meter.create_histogram(
                metric.otel_name, metric.otel_unit, metric.help, explicit_bucket_boundaries_advisory=metric.buckets
            )
            for metric in METRICS
            if metric.kind is Kind.HISTOGRAM
        }
        super().__init__(elections_max, clock)
        for metric in METRICS:
            self._offer(meter, metric)

    def begin(self) -> None:
        super().begin()
        self._spans = Spans(self._tracer)
        self._read_at: int | None = None
        self._values: dict[Metric, Values] = {}

    def _made_ledger(self) -> Ledger:
        return _Instruments(self._histograms)

    def __call__(self, fact: Fact) -> None:
        """Hear of a fact."""
        with self._lock:
            self._spans.hear(fact, self._book)  # First: the book forgets a tenure that is over.
            self._book.hear(fact)

    def _offer(self, meter: "Meter", metric: Metric) -> None:
        make = {Kind.COUNTER: meter.create_observable_counter, Kind.GAUGE: meter.create_observable_gauge}.get(
            metric.kind
        )
        if make is not None:
            make(metric.otel_name, [self._reader(metric)], metric.otel_unit, metric.help)

    def _reader(self, metric: Metric) -> "Callable[[CallbackOptions], Iterable[Observation]]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415  (an extra)

        def read(_: "CallbackOptions") -> "Iterable[Observation]":
            return [Observation(value, _attributes(metric, labels)) for labels, value in self._moment()[metric]]

        return read

    def _moment(self) -> dict[Metric, Values]:
        with self._lock:
            now = self._clock.now()
            if self._read_at is None or now - self._read_at > _ONE_MOMENT_NS:
                self._read_at, self._values = now, self._read()
            return self._values


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
