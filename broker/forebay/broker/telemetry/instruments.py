"""Instruments of OpenTelemetry for the metrics of the broker, and one span per delivered page.

The metrics are those of the tables in `runtime.metrics` and `gauges`. The number of their series is bounded by
`series`, and `exporting` decides about the exporters.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.instruments import Instruments, Lag, SinkMeasure
from forebay.broker.runtime.metrics import EVENTS, GROUP, PARTITION, SINK, Metric, MetricKind
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.settings import OPEN_METRICS, BrokerSettings, address, is_loopback
from forebay.broker.telemetry.exporter_selection import ExporterSelection, ExporterSelectionInvalid, selected_exporters
from forebay.broker.telemetry.figures import GAUGES
from forebay.broker.telemetry.gauges import Gauges
from forebay.broker.telemetry.series import Series, attributes

if TYPE_CHECKING:
    from forebay.broker.telemetry.exporters import Exporters

_log: Final = logging.getLogger(__name__)
SCOPE: Final = "forebay.broker"
SERVICE: Final = "forebay-broker"
METRICS: Final = (*EVENTS, *GAUGES)
"""All metrics of the broker."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_SAMPLED: Final = ("-01", "-03")
"""Ends of the trace context of a caller whose span is sampled, without and with a random id."""


class OpenTelemetryInstruments(Instruments):
    """Tells OpenTelemetry what the broker does."""

    def __init__(
        self,
        meter: Meter,
        tracer: Tracer,
        *,
        exports: bool = False,
        close: Callable[[], None] = lambda: None,
        metrics_url: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``exports``: an exporter reads from the start; otherwise the lag is measured after the first read.

        ``clock`` is in seconds.
        """
        self.wants_lag = exports
        self.metrics_url = metrics_url
        """URL of the endpoint for Prometheus, or empty."""
        self._tracer = tracer
        self._exports = exports
        self._close = close
        self._gauges = Gauges(meter, on_asked=self._asked, clock=clock)
        series = {labels: Series(*labels) for labels in {metric.labels for metric in EVENTS}}
        self._made = {metric: (_instrument(meter, metric), series[metric.labels]) for metric in EVENTS}
        """Instrument and series of each metric."""

    def watch(self, broker: Broker) -> None:
        """Observe this broker's depth and lag."""
        self._gauges.watch(broker)

    def watch_connections(self, connections: Connections) -> None:
        """Observe the connections of this broker."""
        self._gauges.watch_connections(connections)

    def close(self) -> None:
        """Send what is left and end the exporters. Not for the loop: it blocks, up to 5 s."""
        self._close()
        self._gauges.close()

    def _asked(self) -> None:
        self.wants_lag = True

    # -- events

    def add(self, metric: Metric, amount: float, labels: tuple[str, ...] = (), *, traceparent: str = "") -> None:
        add, series = self._made[metric]
        if traceparent.endswith(_SAMPLED):
            add(amount, series.of(labels), context=_PROPAGATOR.extract({"traceparent": traceparent}))
        else:
            add(amount, series.of(labels))

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        super().delivered(sink, subscription, event, redelivered, now_us)
        place = {SINK: sink, PARTITION: str(event.partition), GROUP: subscription}
        for entry, _ in event.pages:
            self._span(sink, entry, place, now_us)

    def _span(self, sink: str, entry: Entry, place: Mapping[str, str], now_us: int) -> None:
        # A sampler decides by the links at the start. Parsing them costs each page: others are added where it samples.
        is_linked = self._exports and any(part.traceparent.endswith(_SAMPLED) for part in entry.parts)
        span = self._tracer.start_span(
            f"buffer {sink}",
            kind=SpanKind.INTERNAL,
            attributes={**attributes(place), "messaging.batch.message_count": entry.count},
            links=[trace.Link(context) for context in _contexts(entry)] if is_linked else None,
            start_time=entry.accepted_at_us * 1_000,
        )
        if span.is_recording() and not is_linked:
            for context in _contexts(entry):
                span.add_link(context)
        span.end(end_time=max(now_us, entry.accepted_at_us) * 1_000)

    def sink_measured(self, sink: str, measure: SinkMeasure) -> None:
        self._gauges.sink_measured(sink, measure)

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag], state: str) -> None:
        self._gauges.measured(sink, subscription, lanes, state)

    def replays_measured(self, sink: str, lanes: Sequence[Lag]) -> None:
        self._gauges.replays_measured(sink, lanes)

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        self._gauges.forgotten(sink, subscription)


def _instrument(meter: Meter, metric: Metric) -> Callable[..., None]:
    if metric.kind is MetricKind.COUNTER:
        return meter.create_counter(metric.name, metric.unit, metric.description).add
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.buckets
    ).record


def _contexts(entry: Entry) -> Iterator[trace.SpanContext]:
    """Yield the contexts of the publishers of a page."""
    for part in entry.parts:
        if part.traceparent:
            extracted = _PROPAGATOR.extract({"traceparent": part.traceparent})
            context = trace.get_current_span(extracted).get_span_context()
            if context.is_valid:
                yield context


def instruments(settings: BrokerSettings, *, instance: str = "") -> OpenTelemetryInstruments:
    """The broker's instruments: with exporters where the environment or ``metrics_listen`` asks for them.

    ``instance`` distinguishes brokers that send to one place. Raises OSError when the Prometheus address cannot be had
    and ``ExporterSelectionInvalid`` when an ``OTEL_…`` variable is wrong, or opens metrics to a network without a
    setting that permits it.
    """
    exporters = exporters_of(settings, instance=instance)
    if exporters is None:
        return OpenTelemetryInstruments(metrics.get_meter(SCOPE), trace.get_tracer(SCOPE))
    return OpenTelemetryInstruments(
        exporters.meters.get_meter(SCOPE),
        exporters.tracers.get_tracer(SCOPE),
        exports=True,
        close=exporters.close,
        metrics_url=exporters.metrics_url,
    )


def exporters_of(settings: BrokerSettings, *, instance: str = "", has_prometheus: bool = True) -> Exporters | None:
    """Start the exporters of environment and settings; None without one. Raises as ``instruments``.

    Without ``has_prometheus`` the endpoint for Prometheus is left out.
    """
    exporting = selected_exporters(os.environ)
    if settings.metrics_listen:
        exporting = exporting.with_prometheus(*address(settings.metrics_listen))
    if not has_prometheus:
        exporting = replace(exporting, prometheus=None)
    if exporting.prometheus is not None:
        _check_openness(*exporting.prometheus, settings)
    if exporting == ExporterSelection():
        return None
    # The SDK is only needed where something is exported.
    from forebay.broker.telemetry.exporters import export  # noqa: PLC0415

    return export(exporting, service=SERVICE, instance=instance)


def _check_openness(host: str, port: int, settings: BrokerSettings) -> None:
    """Refuse metrics for a network that the settings do not permit, and warn of those that they do."""
    if is_loopback(f"{host}:{port}"):
        return
    if not settings.permits_open_metrics:
        raise ExporterSelectionInvalid(f"OTEL_EXPORTER_PROMETHEUS_HOST = {host!r}: {OPEN_METRICS}")
    _log.warning(
        "METRICS ARE OPEN: every caller that reaches %s:%d may read names and figures of all sinks and subscriptions "
        "there, without a token and unencrypted",
        host,
        port,
    )
