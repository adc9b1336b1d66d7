"""Telemetry of a test's own OpenTelemetry providers: ended spans, and metrics as an exporter reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forebay.broker.telemetry.exporters import VIEWS

SHORT = {
    "messaging.system": "system",
    "messaging.destination.name": "sink",
    "messaging.destination.partition.id": "partition",
    "messaging.consumer.group.name": "group",
    "messaging.operation.name": "operation",
}
"""Attribute names as tests write them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a metric."""

    at: dict[str, Any]
    """Its attributes, without the system, by their short names."""

    value: float
    """The number, or the sum of a histogram."""

    count: int = 0
    """Measurements in a histogram."""


class Observed:
    """Providers that keep everything in memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False, views=VIEWS)
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))

    def metrics(self) -> dict[str, list[Point]]:
        """Every metric that has a series, as of now."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[Point]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = [_point(point) for point in metric.data.data_points]
        return found

    def points(self, name: str) -> list[Point]:
        """The series of one metric; none when it was never measured."""
        return self.metrics().get(name, [])

    def values(self, name: str, *by: str) -> dict[tuple[Any, ...], float]:
        """The values of one metric by some of its attributes."""
        return {tuple(point.at.get(key) for key in by): point.value for point in self.points(name)}

    def exemplars(self) -> dict[str, list[tuple[int | None, int | None]]]:
        """Trace and span of each exemplar since the last reading, by metric."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[tuple[int | None, int | None]]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    held = [each for point in metric.data.data_points for each in point.exemplars]
                    found[metric.name] = [(each.trace_id, each.span_id) for each in held]
        return found

    def spans(self, prefix: str = "") -> list[ReadableSpan]:
        """The spans that ended and whose names begin so, in that order."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(prefix)]


def _point(point: Any) -> Point:
    at = {SHORT.get(name, name): value for name, value in (point.attributes or {}).items()}
    at.pop("system", None)
    if isinstance(point, HistogramDataPoint):
        return Point(at, point.sum, point.count)
    return Point(at, point.value)
