"""Table of the broker's instruments: counters, histograms, gauges, and one span per delivered page.

Names follow the OpenTelemetry conventions for messaging where there are any, and `forebay.…` otherwise. Attributes are
names, numbers of partitions and fixed words, bounded by `series`; never a payload, a key or free text of a user.
`exporting` decides about the exporters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from forebay.broker.core.partition.pages import DropReason, Entry, Part
from forebay.broker.exporting import Exporting, wanted
from forebay.broker.gauges import Gauges
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.instruments import Instruments, Lag
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.series import GROUP, PARTITION, SINK, Series, attributes
from forebay.broker.settings import BrokerSettings, address

SCOPE: Final = "forebay.broker"
SERVICE: Final = "forebay-broker"
SYNC_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Bounds of the buckets of what the disk answers."""
RESIDENCE_S: Final = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
"""Bounds of the buckets of how long records stay: from a moment to an outage of days."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()


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
    ) -> None:
        """``exports``: an exporter reads from the start; otherwise the lag is measured after the first read."""
        self.wants_lag = exports
        self.metrics_url = metrics_url
        """URL of the endpoint for Prometheus, or empty."""
        self._tracer = tracer
        self._close = close
        self._gauges = Gauges(meter, on_asked=self._asked)
        self._records = meter.create_counter("forebay.ingest.records", "{record}", "Records made durable")
        self._bytes = meter.create_counter("forebay.ingest.bytes", "By", "Bytes of pages made durable")
        self._ingest = meter.create_histogram(
            "forebay.ingest.duration",
            "s",
            "A page from accepted to durable",
            explicit_bucket_boundaries_advisory=SYNC_S,
        )
        self._sync = meter.create_histogram(
            "forebay.storage.sync.duration",
            "s",
            "One group commit, write and sync",
            explicit_bucket_boundaries_advisory=SYNC_S,
        )
        self._delivered = meter.create_counter("forebay.delivered.records", "{record}", "Records put in flight")
        self._redelivered = meter.create_counter("forebay.redelivered.records", "{record}", "Records sent again")
        self._failures = meter.create_counter("forebay.delivery.failures", "{failure}", "Deliveries to be repeated")
        self._settled = meter.create_counter("forebay.settled.records", "{record}", "Records settled")
        self._residence = meter.create_histogram(
            "forebay.residence.duration",
            "s",
            "A page from accepted to settled",
            explicit_bucket_boundaries_advisory=RESIDENCE_S,
        )
        self._dropped = meter.create_counter("forebay.dropped.records", "{record}", "Records dropped")
        self._closed = meter.create_counter(
            "forebay.connections.closed", "{connection}", "Connections closed beyond a bound"
        )
        self._shed = meter.create_counter("forebay.streams.shed", "{stream}", "Streams ended for their memory")
        self._refused = meter.create_counter("forebay.calls.refused", "{call}", "Calls refused by access control")
        self._places = Series(SINK, PARTITION)
        self._sinks = Series(SINK)
        self._lanes = Series(SINK, PARTITION, GROUP)
        self._subscriptions = Series(SINK, GROUP)
        self._outcomes = Series(SINK, PARTITION, GROUP, "outcome")
        self._failed = Series(SINK, GROUP, "reason")
        self._drops = Series(SINK, PARTITION, "reason")

    def watch(self, broker: Broker) -> None:
        """Observe this broker's depth and lag."""
        self._gauges.watch(broker)

    def watch_connections(self, connections: Connections) -> None:
        """Observe the connections of this broker."""
        self._gauges.watch_connections(connections)

    def close(self) -> None:
        """Send what is left and end the exporters. Not for the loop: it blocks, up to 5 s."""
        self._close()

    def _asked(self) -> None:
        self.wants_lag = True

    # -- events

    def ingested(
        self,
        sink: str,
        partition: int,
        entries: Sequence[Entry],
        age_now_us: int,
        *,
        beside: tuple[int, int] = (0, 0),
    ) -> None:
        at = self._places.of(sink, str(partition))
        self._records.add(sum(entry.count for entry in entries) + beside[0], at)
        self._bytes.add(sum(entry.size for entry in entries) + beside[1], at)
        for entry in entries:
            self._ingest.record(max(0, age_now_us - entry.age_us) / 1e6, self._sinks.of(sink))

    def synced(self, synced: Synced) -> None:
        self._sync.record(synced.seconds, attributes({}))

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        at = self._lanes.of(sink, str(event.partition), subscription)
        self._delivered.add(sum(found.size for found in event.ranges), at)
        if redelivered:
            self._redelivered.add(redelivered, at)
        place = {SINK: sink, PARTITION: str(event.partition), GROUP: subscription}
        for entry, _ in event.pages:
            self._span(sink, entry, place, now_us)

    def leased(self, sink: str, subscription: str, partition: int, records: int) -> None:
        at = self._lanes.of(sink, str(partition), subscription)
        self._delivered.add(records, at)
        self._redelivered.add(records, at)

    def _span(self, sink: str, entry: Entry, place: Mapping[str, str], now_us: int) -> None:
        span = self._tracer.start_span(
            f"buffer {sink}",
            kind=SpanKind.INTERNAL,
            attributes={**attributes(place), "messaging.batch.message_count": entry.count},
            start_time=entry.accepted_at_us * 1_000,
        )
        if span.is_recording():
            for part in entry.parts:
                if (context := _context(part)) is not None:
                    span.add_link(context)
        span.end(end_time=max(now_us, entry.accepted_at_us) * 1_000)

    def settled(self, sink: str, subscription: str, partition: int, outcome: str, records: int) -> None:
        self._settled.add(records, self._outcomes.of(sink, str(partition), subscription, outcome))

    def resided(self, sink: str, subscription: str, seconds: Sequence[float]) -> None:
        at = self._subscriptions.of(sink, subscription)
        for elapsed_s in seconds:
            self._residence.record(max(0.0, elapsed_s), at)

    def failed(self, sink: str, subscription: str, why: str) -> None:
        self._failures.add(1, self._failed.of(sink, subscription, why))

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        self._dropped.add(records, self._drops.of(sink, str(partition), reason.name))

    def connections_closed(self, reason: str, count: int) -> None:
        self._closed.add(count, attributes({"reason": reason}))

    def call_refused(self, caller: str, reason: str) -> None:
        self._refused.add(1, attributes({"caller": caller, "reason": reason}))

    def stream_shed(self, held: int) -> None:
        self._shed.add(1, attributes({}))

    def stored(self, sink: str, records: int, size: int) -> None:
        self._gauges.stored(sink, records, size)

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag]) -> None:
        self._gauges.measured(sink, subscription, lanes)

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        self._gauges.forgotten(sink, subscription)


def _context(part: Part) -> trace.SpanContext | None:
    if not part.traceparent:
        return None
    context = trace.get_current_span(_PROPAGATOR.extract({"traceparent": part.traceparent})).get_span_context()
    return context if context.is_valid else None


def instruments(settings: BrokerSettings, *, instance: str = "") -> OpenTelemetryInstruments:
    """The broker's instruments: with exporters where the environment or ``metrics_listen`` asks for them.

    ``instance`` tells brokers apart that send to one place. Raises OSError when the Prometheus address cannot be had
    and ``ExportingError`` when an ``OTEL_…`` variable is wrong.
    """
    exporting = wanted(os.environ)
    if settings.metrics_listen:
        exporting = exporting.with_prometheus(*address(settings.metrics_listen))
    if exporting == Exporting():
        return OpenTelemetryInstruments(metrics.get_meter(SCOPE), trace.get_tracer(SCOPE))
    # The SDK is only needed where something is exported.
    from forebay.broker.exporters import export  # noqa: PLC0415

    exporters = export(exporting, service=SERVICE, instance=instance)
    return OpenTelemetryInstruments(
        exporters.meters.get_meter(SCOPE),
        exporters.tracers.get_tracer(SCOPE),
        exports=True,
        close=exporters.close,
        metrics_url=exporters.metrics_url,
    )
