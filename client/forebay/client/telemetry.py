"""Spans and metrics of the client, through the OpenTelemetry API alone.

Names follow the OpenTelemetry messaging conventions. Batches are linked, not nested: a delivery is linked to the sends
of its records. Instruments record per page or delivery, never per record. Without an SDK, a page costs a few no-op
calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TraceFlags, TracerProvider

from forebay.client.errors import ForebayError

SCOPE: Final = "forebay.client"
LINKS_MAX: Final = 128
TRACEPARENT_FIELDS: Final = 4
DURATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bucket bounds of duration histograms, as recommended by the conventions."""

Attributes = Mapping[str, str | int]


def parse_traceparent(text: str) -> SpanContext | None:
    """Return the span context of a W3C ``traceparent``; ``None`` if it is invalid."""
    fields = text.split("-")
    if len(fields) < TRACEPARENT_FIELDS or len(fields[1]) != 32 or len(fields[2]) != 16:
        return None
    try:
        context = SpanContext(
            trace_id=int(fields[1], 16),
            span_id=int(fields[2], 16),
            is_remote=True,
            trace_flags=TraceFlags(int(fields[3][:2], 16)),
        )
    except ValueError:
        return None
    return context if context.is_valid else None


def format_traceparent(context: SpanContext) -> str:
    """Return the W3C ``traceparent`` of a span context; empty if it is invalid."""
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def links_of(traceparents: Iterable[str]) -> list[Link]:
    """Return span links to the given contexts, without duplicates, at most 128."""
    found = (parse_traceparent(text) for text in dict.fromkeys(traceparents) if text)
    return list(islice((Link(context) for context in found if context is not None), LINKS_MAX))


class SendSpan:
    """Span from the first send of a page to its receipt."""

    __slots__ = ("_span", "_started", "traceparent")

    def __init__(self, span: Span, started: float) -> None:
        self._span = span
        self._started = started
        self.traceparent = format_traceparent(span.get_span_context())
        """Trace context that is sent with the page."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of a unary call."""
        return (("traceparent", self.traceparent),) if self.traceparent else ()

    def end(self, error: str = "") -> float:
        """End the span and return its duration in seconds; ``error`` is a reason code, never a text."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR, error)
        self._span.end()
        return time.monotonic() - self._started

    @property
    def context(self) -> otel_context.Context:
        """Context of the span, for the exemplar of its duration."""
        return trace.set_span_in_context(self._span)


class Telemetry:
    """Instruments of one sink's publisher, subscriber or replay."""

    def __init__(
        self,
        sink: str,
        subscription: str = "",
        *,
        server: Attributes | None = None,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
    ) -> None:
        """Use the given providers, or the global ones; ``server`` has the attributes of the broker's address."""
        self._sink = sink
        self._common: dict[str, str | int] = {
            "messaging.system": "forebay",
            "messaging.destination.name": sink,
            **(server or {}),
        }
        if subscription:
            self._common["messaging.consumer.group.name"] = subscription
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(SCOPE, meter_provider=meters)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Records published"
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", unit="{message}", description="Records delivered to the application"
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of an operation until the answer of the broker",
            explicit_bucket_boundaries_advisory=DURATION_S,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration from receiving a delivery to settling it",
            explicit_bucket_boundaries_advisory=DURATION_S,
        )

    @staticmethod
    def current_context() -> object:
        """Return the caller's trace context, for a page that another thread sends later."""
        return otel_context.get_current()

    def _attributes(self, operation: str, kind: str, partition: int | None, count: int) -> dict[str, str | int]:
        place = {} if partition is None else {"messaging.destination.partition.id": str(partition)}
        return {
            **self._common,
            **place,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
            "messaging.batch.message_count": count,
        }

    def send(self, partition: int | None, count: int, context: object) -> SendSpan:
        """Start the span of a page, or of records that the broker assigns to partitions."""
        span = self._tracer.start_span(
            f"send {self._sink}",
            context=context if isinstance(context, otel_context.Context) else None,
            kind=SpanKind.PRODUCER,
            attributes=self._attributes("send", "send", partition, count),
        )
        return SendSpan(span, time.monotonic())

    def sent(self, span: SendSpan, count: int, error: str = "") -> None:
        """End the span of a page and count its records."""
        elapsed_s = span.end(error)
        attributes = {**self._common, "messaging.operation.name": "send"}
        if error:
            attributes["error.type"] = error
        self._sent.add(count, attributes)
        self._operation.record(elapsed_s, attributes, context=span.context)

    @contextmanager
    def sending(self, partition: int | None, count: int) -> Iterator[SendSpan]:
        """Trace and count records sent in a unary call; a ``ForebayError`` marks the span as failed."""
        span = self.send(partition, count, self.current_context())
        try:
            yield span
        except ForebayError as error:
            self.sent(span, count, error.reason)
            raise
        self.sent(span, count)

    @contextmanager
    def settling(self, operation: str, partition: int | None, count: int) -> Iterator[None]:
        """Trace and time the settling of records in a unary call."""
        span, began = self.settle(operation, partition, count, None), time.monotonic()
        try:
            yield
        except ForebayError as error:
            self.settled(span, time.monotonic() - began, error.reason)
            raise
        self.settled(span, time.monotonic() - began)

    def read(self, operation: str, count: int) -> None:
        """Count records that were read without a stream of deliveries: ``pull`` or ``replay``."""
        self._consumed.add(count, {**self._common, "messaging.operation.name": operation})

    def deliver(self, partition: int, count: int, traceparents: Iterable[str]) -> Span:
        """Count a delivery and start its processing span, linked to the sends of its records."""
        self._consumed.add(count, {**self._common, "messaging.operation.name": "deliver"})
        return self._tracer.start_span(
            f"deliver {self._sink}",
            kind=SpanKind.CONSUMER,
            links=links_of(traceparents),
            attributes=self._attributes("deliver", "process", partition, count),
        )

    def processed(self, span: Span, elapsed_s: float, error: str = "") -> None:
        """End the span of a delivery; ``error`` is the kind of a nack, or ``stale``."""
        attributes = {**self._common, "messaging.operation.name": "deliver"}
        if error:
            attributes["error.type"] = error
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, error)
        span.end()
        self._process.record(elapsed_s, attributes, context=trace.set_span_in_context(span))

    def settle(self, operation: str, partition: int | None, count: int, delivery: Span | None) -> Span:
        """Start the span of an ack or nack, linked to its delivery."""
        context = None if delivery is None else delivery.get_span_context()
        return self._tracer.start_span(
            f"settle {self._sink}",
            kind=SpanKind.CLIENT,
            links=[Link(context)] if context is not None and context.is_valid else None,
            attributes=self._attributes(operation, "settle", partition, count),
        )

    def settled(self, span: Span, elapsed_s: float, error: str = "") -> None:
        """End the span of an ack or nack."""
        attributes = {**self._common, "messaging.operation.name": "settle"}
        if error:
            attributes["error.type"] = error
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, error)
        span.end()
        self._operation.record(elapsed_s, attributes, context=trace.set_span_in_context(span))
