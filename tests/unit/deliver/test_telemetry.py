"""Spans and counters of a deliverer."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, set_span_in_context

from forebay.deliver import Batch, BatchLimits, Delivered, Outcome, Reject, Retry
from forebay.deliver.batches.joined_delivery import JoinedDelivery
from forebay.deliver.dispatcher import Dispatcher
from forebay.deliver.health import TargetHealth
from forebay.deliver.telemetry import Instruments
from tests.support.targets.memory_source import MemoryDelivery, records
from tests.support.targets.recording_target import RecordingTarget, Rule


class Observed:
    """A dispatcher whose telemetry is kept in memory."""

    def __init__(self, rule: Rule) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._meters = MeterProvider([self._reader])
        instruments = Instruments("orders", "default", tracers=self.tracers, meters=self._meters)
        self.dispatcher = Dispatcher(
            "orders",
            RecordingTarget(rule),
            BatchLimits(records_max=4),
            retry_delay_max_s=1.0,
            instruments=instruments,
            health=TargetHealth("orders", "default"),
            stopping=lambda: False,
        )

    def metrics(self) -> dict[str, float]:
        """Return the sum, or for a histogram the count, of each metric."""
        found: dict[str, float] = {}
        data = self._reader.get_metrics_data()
        assert data is not None
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                value = getattr(point, "value", None)
                found[metric.name] = found.get(metric.name, 0) + (point.count if value is None else value)  # type: ignore[union-attr]
        self._meters.shutdown()
        return found

    def spans(self) -> tuple[ReadableSpan, ...]:
        """Return the spans that ended."""
        return self._exporter.get_finished_spans()


def test_records_retries_rejects_and_gaps_are_counted() -> None:
    rejected = Reject("no", delivered=2, exact=True)
    answers: list[Outcome] = [Delivered(), Retry("away", delivered=1), rejected, Delivered()]
    observed = Observed(lambda _: answers.pop(0))

    observed.dispatcher.deliver(MemoryDelivery(records(8)))
    observed.dispatcher.deliver(MemoryDelivery(records(4)))
    observed.dispatcher.deliver(MemoryDelivery([], gap="offsets 0 to 3"))

    assert observed.metrics() == {
        "forebay.deliver.duration": 4,
        "forebay.deliver.records": 4 + 1 + 2 + 1,
        "forebay.deliver.retries": 1,
        "forebay.deliver.rejects": 1,
        "forebay.deliver.gaps": 1,
    }


def test_a_send_is_a_child_of_its_delivery_and_is_current_while_the_target_works() -> None:
    def rule(batch: Batch) -> Outcome:
        return Retry("HTTP 503")

    observed = Observed(rule)
    delivery = MemoryDelivery(records(2), partition=3)
    parent = observed.tracers.get_tracer("test").start_span("deliver orders")
    delivery.trace_context = set_span_in_context(parent)

    observed.dispatcher.deliver(delivery)
    parent.end()

    send, _ = observed.spans()
    assert send.name == "process orders"
    assert send.parent is not None
    assert send.attributes is not None
    assert send.parent.span_id == parent.get_span_context().span_id
    assert send.attributes["error.type"] == "retry"
    assert send.attributes["messaging.destination.partition.id"] == "3"
    assert send.attributes["messaging.batch.message_count"] == 2


def test_the_reason_of_a_target_is_in_no_span() -> None:
    observed = Observed(lambda _: Reject("payload-4711 is no order", delivered=3, exact=True))

    observed.dispatcher.deliver(MemoryDelivery(records(4)))

    [send] = observed.spans()
    assert send.attributes is not None
    assert (send.attributes["error.type"], send.status.status_code) == ("reject", StatusCode.ERROR)
    assert "payload-4711" not in send.to_json()


def test_a_send_of_several_deliveries_is_linked_to_all_of_them() -> None:
    observed = Observed(lambda _: Delivered())
    tracer = observed.tracers.get_tracer("test")
    parts = [MemoryDelivery(records(2, first=first)) for first in (0, 2)]
    parents = [tracer.start_span("deliver orders") for _ in parts]
    for part, parent in zip(parts, parents, strict=True):
        part.trace_context = set_span_in_context(parent)

    observed.dispatcher.deliver(JoinedDelivery(parts))

    [send] = observed.spans()
    assert send.parent is not None
    assert send.parent.span_id == parents[0].get_span_context().span_id
    assert [link.context for link in send.links] == [parent.get_span_context() for parent in parents]
    assert [part.acked for part in parts] == [[(0, 1)], [(2, 3)]]
