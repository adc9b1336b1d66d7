"""Where the broker's telemetry goes: OTLP by the standard variables, Prometheus by an address."""

from __future__ import annotations

from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import MeterProvider as Meters
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import TracerProvider as Tracers
from prometheus_client import start_http_server


class _HttpEndpoint:
    """The Prometheus endpoint, with an end."""

    def __init__(self, host: str, port: int) -> None:
        self._server, self._thread = start_http_server(port, host)

    def shutdown(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def providers(*, otlp: bool, prometheus_host: str, prometheus_port: int) -> tuple[Meters, Tracers, list[Any]]:
    """Meters, tracers, and what is to be shut down at the end, in order.

    Raises OSError when the Prometheus address cannot be had.
    """
    resource = Resource.create({"service.name": "holdfast-broker"})
    readers: list[MetricReader] = []
    ends: list[Any] = []
    if prometheus_host:
        readers.append(PrometheusMetricReader())
        ends.append(_HttpEndpoint(prometheus_host, prometheus_port))
    if otlp:
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    meters = MeterProvider(metric_readers=readers, resource=resource)
    tracers = TracerProvider(resource=resource)
    if otlp:
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return meters, tracers, [tracers, meters, *ends]
