"""Elections in numbers: ``Prometheus`` and ``OpenTelemetry`` are subscribers, each by an extra of its own.

``catalogue`` says what there is, ``book`` makes it of facts, and the exporters show it. Alert rules (``alerts``) and a
dashboard (``grafana``) go with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tenure.metrics.opentelemetry import OpenTelemetry as OpenTelemetry
    from tenure.metrics.prometheus import Prometheus as Prometheus

_HOMES: Final = {"OpenTelemetry": "tenure.metrics.opentelemetry", "Prometheus": "tenure.metrics.prometheus"}


def __getattr__(name: str) -> Any:
    """Import an exporter when it is asked for: nobody needs both."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
