"""Telemetry of the deliverer, in addition to the deliveries that the client library records.

One span per send, a child of the delivery's span, which is linked to the spans that published its records. The span of
a batch of several deliveries is the child of one of them, and linked to all. A target that continues the trace context
appears in one trace with its delivery. Only the OpenTelemetry API is used: without an SDK in the process it does
nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, StatusCode

from forebay.deliver.batches.joined_delivery import JoinedDelivery
from forebay.deliver.outcome import Delivered, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from forebay.deliver.batches.batch import Batch
    from forebay.deliver.outcome import Outcome
    from forebay.deliver.source import SourceDelivery

_SCOPE: Final = "forebay.deliver"
_DURATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60)
"""Bucket bounds for the duration of a target's answer."""


class Instruments:
    """Instruments of the deliverer for one sink and subscription. Thread-safe."""

    def __init__(
        self,
        sink: str,
        subscription: str,
        *,
        clock: Callable[[], float] = perf_counter,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
    ) -> None:
        self._sink = sink
        self._subscription = subscription
        self._clock = clock
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(_SCOPE, meter_provider=meters)
        self._duration = meter.create_histogram(
            "forebay.deliver.duration",
            unit="s",
            description="Duration of sending one batch to the target.",
            explicit_bucket_boundaries_advisory=_DURATION_S,
        )
        self._records = meter.create_counter(
            "forebay.deliver.records", unit="{record}", description="Records that the target accepted."
        )
        self._retries = meter.create_counter(
            "forebay.deliver.retries",
            unit="{batch}",
            description="Batches that the target could not accept and that are retried.",
        )
        self._rejects = meter.create_counter(
            "forebay.deliver.rejects", unit="{record}", description="Records that the target rejected permanently."
        )
        self._gaps = meter.create_counter(
            "forebay.deliver.gaps", unit="{gap}", description="Gaps: ranges whose records no longer exist."
        )

    def gap(self, partition: int) -> None:
        """Count a gap."""
        self._gaps.add(1, self._attributes(partition))

    def rejected(self, partition: int) -> None:
        """Count a permanently rejected record."""
        self._rejects.add(1, self._attributes(partition))

    @contextmanager
    def sending(self, delivery: SourceDelivery, batch: Batch) -> Iterator[Callable[[Outcome], None]]:
        """Trace and time one send; call the yielded function once with its outcome."""
        attributes = self._attributes(batch.partition)
        started = self._clock()
        others = delivery.trace_contexts if isinstance(delivery, JoinedDelivery) else []
        with self._tracer.start_as_current_span(
            f"process {self._sink}",
            context=delivery.trace_context,
            kind=SpanKind.INTERNAL,
            links=[trace.Link(trace.get_current_span(one).get_span_context()) for one in others],
            attributes={
                **attributes,
                "messaging.batch.message_count": len(batch),
                "forebay.offset.first": batch.first_offset,
                "forebay.offset.last": batch.last_offset,
            },
            # The text of an exception may quote a record.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield lambda outcome: self._sent(span, self._clock() - started, batch, attributes, outcome)

    def _sent(
        self,
        span: Span,
        elapsed_s: float,
        batch: Batch,
        attributes: dict[str, str],
        outcome: Outcome,
    ) -> None:
        count = len(batch) if isinstance(outcome, Delivered) else outcome.delivered
        if count:
            self._records.add(count, attributes)
        if isinstance(outcome, Delivered):
            self._duration.record(elapsed_s, attributes)
            return
        error = {"error.type": "retry" if isinstance(outcome, Retry) else "reject"}
        if isinstance(outcome, Retry):
            self._retries.add(1, attributes)
        span.set_attributes(error)
        span.set_status(StatusCode.ERROR)  # without the reason: it has text of the target, which may quote a record
        self._duration.record(elapsed_s, {**attributes, **error})

    def _attributes(self, partition: int) -> dict[str, str]:
        return {
            "messaging.system": "forebay",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": self._sink,
            "messaging.destination.partition.id": str(partition),
            "messaging.consumer.group.name": self._subscription,
        }
