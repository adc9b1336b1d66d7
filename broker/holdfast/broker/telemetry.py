"""The table of the broker's instruments: counters, histograms and gauges, and one span per delivered page.

Names follow the OpenTelemetry conventions for messaging where there are any, and `holdfast.…` where there are none.
Export is the SDK's business and obeys the standard `OTEL_…` variables; `metrics_listen` adds a Prometheus endpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.trace import Link, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.broker.core.pages import DropReason, Entry, Part
from holdfast.broker.runtime.broker import Broker
from holdfast.broker.runtime.committer import Synced
from holdfast.broker.runtime.events import Delivered
from holdfast.broker.runtime.instruments import Instruments
from holdfast.broker.runtime.stats import LaneState
from holdfast.broker.settings import BrokerSettings, address

SYSTEM: Final = "holdfast"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetryInstruments(Instruments):
    """Tells OpenTelemetry what the broker does."""

    def __init__(self, meter: Meter, tracer: Tracer, close: Iterable[Any] = ()) -> None:
        self._tracer = tracer
        self._close = list(close)
        self._broker: Broker | None = None
        self._lags: dict[tuple[str, str], list[LaneState]] = {}
        self._records = meter.create_counter("holdfast.ingest.records", "{record}", "Records made durable")
        self._bytes = meter.create_counter("holdfast.ingest.bytes", "By", "Bytes of pages made durable")
        self._sync = meter.create_histogram("holdfast.storage.sync.duration", "s", "Time of one group commit")
        self._settled = meter.create_counter("holdfast.settled.records", "{record}", "Records settled")
        self._dropped = meter.create_counter("holdfast.dropped.records", "{record}", "Records dropped")
        self._redelivered = meter.create_counter("holdfast.redelivered.records", "{record}", "Records sent again")
        self._delivered = meter.create_counter("messaging.client.consumed.messages", "{message}", "Records delivered")
        self._residence = meter.create_histogram("holdfast.residence.duration", "s", "Accepted to delivered")
        meter.create_observable_gauge("holdfast.sink.depth", [self._depth], "{record}", "Records stored")
        meter.create_observable_gauge("holdfast.sink.size", [self._size], "By", "Bytes of pages stored")
        meter.create_observable_gauge("holdfast.subscription.lag", [self._lag], "{record}", "Records not settled")
        meter.create_observable_gauge("holdfast.subscription.lag.size", [self._lag_size], "By", "Bytes not settled")
        meter.create_observable_gauge(
            "holdfast.subscription.lag.age", [self._lag_age], "s", "Age of the oldest unsettled record"
        )
        meter.create_observable_gauge("holdfast.reader.mode", [self._mode], "1", "1 from memory, 2 from the store")
        meter.create_observable_gauge("holdfast.tail.size", [self._tail], "By", "Recent pages in memory")

    def watch(self, broker: Broker) -> None:
        """Observe this broker's depth and lag."""
        self._broker = broker

    def close(self) -> None:
        """Send what is left and end the exporters."""
        self._broker = None
        for part in self._close:
            part.shutdown()

    # -- events

    def ingested(self, sink: str, partition: int, entries: Sequence[Entry]) -> None:
        at = _place(sink, partition)
        self._records.add(sum(entry.count for entry in entries), at)
        self._bytes.add(sum(entry.size for entry in entries), at)

    def synced(self, synced: Synced) -> None:
        self._sync.record(synced.seconds)

    def delivered(self, sink: str, subscription: str, event: Delivered, now_us: int) -> None:
        records = sum(found.size for found in event.ranges)
        at = {**_place(sink, event.partition), "messaging.consumer.group.name": subscription}
        self._delivered.add(records, at)
        if event.resend:
            self._redelivered.add(records, at)
        for entry, _ in event.pages:
            self._residence.record(max(0, now_us - entry.accepted_at_us) / 1e6, at)
            self._span(sink, entry, at, now_us)

    def _span(self, sink: str, entry: Entry, at: dict[str, Any], now_us: int) -> None:
        links = [link for part in entry.parts if (link := _link(part)) is not None]
        span = self._tracer.start_span(
            f"buffer {sink}",
            kind=SpanKind.INTERNAL,
            links=links,
            attributes={**at, "messaging.batch.message_count": entry.count},
            start_time=entry.accepted_at_us * 1_000,
        )
        span.end(end_time=max(now_us, entry.accepted_at_us) * 1_000)

    def settled(self, sink: str, subscription: str, outcome: str, records: int) -> None:
        at = {"messaging.destination.name": sink, "messaging.consumer.group.name": subscription, "outcome": outcome}
        self._settled.add(records, at)

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        self._dropped.add(records, {**_place(sink, partition), "reason": reason.name})

    def measured(self, sink: str, subscription: str, lanes: list[LaneState]) -> None:
        self._lags[sink, subscription] = lanes

    # -- gauges: called by the exporters' threads; they read counters, and at worst a value of a moment ago

    def _depth(self, options: CallbackOptions) -> Iterable[Observation]:
        for name, log in self._logs():
            yield Observation(log.records, _place(name, log.number))

    def _size(self, options: CallbackOptions) -> Iterable[Observation]:
        for name, log in self._logs():
            yield Observation(log.size, _place(name, log.number))

    def _logs(self) -> Iterable[tuple[str, Any]]:
        broker = self._broker
        sinks = list(broker.sinks.values()) if broker is not None else []
        return [(buffer.name, log) for buffer in sinks for log in buffer.logs]

    def _lanes(self) -> Iterable[tuple[dict[str, Any], Any]]:
        broker = self._broker
        sinks = list(broker.sinks.values()) if broker is not None else []
        for buffer in sinks:
            for subscription in list(buffer.subscriptions.values()):
                for lag in self._lags.get((buffer.name, subscription.name), []):
                    group = {"messaging.consumer.group.name": subscription.name}
                    yield {**_place(buffer.name, lag.partition), **group}, lag

    def _lag(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(lag.pending, at) for at, lag in self._lanes()]

    def _lag_size(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(lag.pending_bytes, at) for at, lag in self._lanes()]

    def _lag_age(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(lag.oldest_age_us / 1e6, at) for at, lag in self._lanes()]

    def _mode(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(1 if lag.realtime else 2, at) for at, lag in self._lanes() if lag.realtime is not None]

    def _tail(self, options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._broker.tail.size)] if self._broker is not None else []


def _place(sink: str, partition: int) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": sink,
        "messaging.destination.partition.id": str(partition),
    }


def _link(part: Part) -> Link | None:
    if not part.traceparent:
        return None
    context = trace.get_current_span(_PROPAGATOR.extract({"traceparent": part.traceparent})).get_span_context()
    return Link(context) if context.is_valid else None


def instruments(settings: BrokerSettings) -> OpenTelemetryInstruments:
    """The broker's instruments: with exporters where the environment or ``metrics_listen`` asks for them."""
    wanted = any(name.startswith("OTEL_") and "EXPORTER" in name for name in os.environ)
    if not wanted and not settings.metrics_listen:
        return OpenTelemetryInstruments(metrics.get_meter(SYSTEM), trace.get_tracer(SYSTEM))
    # The SDK is only needed where something is exported.
    from holdfast.broker.exporters import providers  # noqa: PLC0415

    host, port = address(settings.metrics_listen) if settings.metrics_listen else ("", 0)
    meters, tracers, close = providers(otlp=wanted, prometheus_host=host, prometheus_port=port)
    return OpenTelemetryInstruments(meters.get_meter(SYSTEM), tracers.get_tracer(SYSTEM), close)
