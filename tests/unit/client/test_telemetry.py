"""Spans and metrics of the client, and the W3C context that travels with a page."""

from __future__ import annotations

import pytest
from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from forebay.client import Client, Record
from forebay.client.errors import SinkFull
from forebay.client.telemetry import LINKS_MAX, Telemetry, format_traceparent, links_of, parse_traceparent
from forebay.client.testing import broker
from tests.support.telemetry.observed import Observed, Point

CONTEXT = SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=True, trace_flags=TraceFlags(1))
TEXT = "00-00000000000000000000000000000abc-0000000000000def-01"


@pytest.fixture
def seen() -> Observed:
    """Providers of the test's own."""
    return Observed()


def telemetry(seen: Observed, subscription: str = "") -> Telemetry:
    """The instruments of the sink `orders` over these providers."""
    return Telemetry("orders", subscription, tracers=seen.tracers, meters=seen.meters)


def attributes(span: ReadableSpan) -> dict[str, object]:
    """The attributes of a span without the system and the sink, which all have."""
    found = dict(span.attributes or {})
    assert (found.pop("messaging.system"), found.pop("messaging.destination.name")) == ("forebay", "orders")
    return {name.removeprefix("messaging."): value for name, value in found.items()}


# -- the context


def test_a_context_survives_being_written_and_read() -> None:
    assert format_traceparent(CONTEXT) == TEXT
    assert parse_traceparent(TEXT) == CONTEXT
    assert format_traceparent(trace.INVALID_SPAN_CONTEXT) == ""


@pytest.mark.parametrize(
    "text",
    ["", "00", "00-abc-def-01", TEXT.replace("abc", "xyz"), TEXT[:-3], "00-" + "0" * 32 + "-" + "0" * 16 + "-01"],
)
def test_a_text_that_is_no_trace_context_is_parsed_as_none(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_context_of_a_newer_version_is_read() -> None:
    assert parse_traceparent(f"01{TEXT[2:]}-more") == CONTEXT


def test_links_are_each_made_once_in_order_and_bounded() -> None:
    many = [f"00-{1:032x}-{number:016x}-01" for number in range(1, LINKS_MAX + 10)]

    assert [link.context.span_id for link in links_of([TEXT, "", "?", TEXT, many[0]])] == [0xDEF, 1]
    assert len(links_of(many)) == LINKS_MAX


# -- publishing


def test_a_page_has_a_producer_span_under_the_caller_s_and_carries_its_context(seen: Observed) -> None:
    parent = seen.tracers.get_tracer("test").start_span("caller")
    with trace.use_span(parent):
        context = Telemetry.current_context()
    measured = telemetry(seen)

    span = measured.send(3, 2, context)
    measured.sent(span, 2)

    [send] = seen.spans("send")
    assert (send.name, send.kind) == ("send orders", SpanKind.PRODUCER)
    assert send.parent == parent.get_span_context()
    assert span.traceparent == format_traceparent(send.context)
    assert span.metadata == (("traceparent", span.traceparent),)
    assert attributes(send) == {
        "operation.name": "send",
        "operation.type": "send",
        "destination.partition.id": "3",
        "batch.message_count": 2,
    }
    place = {"sink": "orders", "operation": "send"}
    assert seen.points("messaging.client.sent.messages") == [Point(place, 2)]
    assert [(point.at, point.count) for point in seen.points("messaging.client.operation.duration")] == [(place, 1)]


def test_spans_and_metrics_name_the_broker(seen: Observed) -> None:
    server: dict[str, str | int] = {"server.address": "broker.example", "server.port": 7461}
    measured = Telemetry("orders", server=server, tracers=seen.tracers, meters=seen.meters)

    measured.sent(measured.send(0, 1, None), 1)
    measured.settled(measured.settle("ack", 0, 1, None), 0.1, "STALE")

    assert all(server.items() <= dict(span.attributes or {}).items() for span in seen.spans())
    assert all(
        point.at["server.address"] == "broker.example" and point.at["server.port"] == 7461
        for name in ("messaging.client.sent.messages", "messaging.client.operation.duration")
        for point in seen.points(name)
    )


def test_a_duration_has_its_span_as_exemplar(seen: Observed) -> None:
    measured = telemetry(seen)

    measured.sent(measured.send(3, 2, None), 2)
    measured.processed(measured.deliver(3, 2, []), 0.5)

    ids = [(span.context.trace_id, span.context.span_id) for span in seen.spans() if span.context is not None]
    exemplars = seen.exemplars()
    assert exemplars["messaging.client.operation.duration"] == ids[:1]
    assert exemplars["messaging.process.duration"] == ids[1:]


def test_a_page_that_failed_says_so_by_its_reason(seen: Observed) -> None:
    measured = telemetry(seen)

    measured.sent(measured.send(0, 1, None), 1, "SINK_FULL")

    [send] = seen.spans()
    assert (send.status.status_code, send.status.description) == (StatusCode.ERROR, "SINK_FULL")
    assert attributes(send)["error.type"] == "SINK_FULL"
    [point] = seen.points("messaging.client.sent.messages")
    assert point.at["error.type"] == "SINK_FULL"


def test_records_of_a_single_call_have_a_span_without_a_partition_where_none_was_named(seen: Observed) -> None:
    with telemetry(seen).sending(None, 5):
        pass
    with pytest.raises(SinkFull), telemetry(seen).sending(1, 5):
        raise SinkFull("payload in a text")

    one, other = seen.spans("send orders")
    assert "destination.partition.id" not in attributes(one)
    assert attributes(other)["error.type"] == SinkFull("").reason
    assert "payload" not in other.to_json()


def test_without_an_sdk_the_caller_s_context_travels_with_pages_and_calls() -> None:
    caller = trace.set_span_in_context(NonRecordingSpan(CONTEXT))
    with broker() as running, running.client() as client:
        client.sinks.create("orders", buffer_page_size=1)
        token = current.attach(caller)
        try:
            with client.publisher("orders") as publisher:
                publisher.send(b"a").result(10)
            client.publish("orders", [Record(b"b")])
        finally:
            current.detach(token)
        client.publish("orders", [Record(b"c")])

        assert [kept(client, number) for number in range(3)] == [TEXT, TEXT, ""]


def kept(client: Client, offset: int) -> str:
    """The context that the broker keeps for the record at ``offset``."""
    for page in client.replay_pages("orders", partition=0, start=offset, end=offset + 1):
        if hasattr(page, "parts"):
            return str(page.parts[0].traceparent)
    raise AssertionError("the page is not there")


# -- delivery and settling


def test_a_delivery_has_a_consumer_span_linked_to_its_sends_and_is_timed_to_its_end(seen: Observed) -> None:
    measured = telemetry(seen, "default")

    span = measured.deliver(1, 4, ["", TEXT, TEXT])
    measured.processed(span, 2.5)

    [deliver] = seen.spans()
    assert (deliver.name, deliver.kind, deliver.parent) == ("deliver orders", SpanKind.CONSUMER, None)
    assert [link.context for link in deliver.links] == [CONTEXT]
    assert attributes(deliver) == {
        "consumer.group.name": "default",
        "operation.name": "deliver",
        "operation.type": "process",
        "destination.partition.id": "1",
        "batch.message_count": 4,
    }
    place = {"sink": "orders", "group": "default", "operation": "deliver"}
    assert seen.points("messaging.client.consumed.messages") == [Point(place, 4)]
    assert seen.points("messaging.process.duration") == [Point(place, 2.5, 1)]


def test_a_delivery_that_was_nacked_says_how(seen: Observed) -> None:
    measured = telemetry(seen)

    measured.processed(measured.deliver(0, 1, []), 1.0, "nack")

    [deliver] = seen.spans()
    assert (deliver.status.status_code, attributes(deliver)["error.type"]) == (StatusCode.ERROR, "nack")


def test_settling_has_a_client_span_linked_to_its_delivery(seen: Observed) -> None:
    measured = telemetry(seen, "default")
    delivery = measured.deliver(0, 1, [])

    measured.settled(measured.settle("ack", 0, 1, delivery), 0.125)
    measured.settled(measured.settle("nack", 0, 1, None), 0.125, "STALE")

    ack, nack = seen.spans("settle orders")
    assert ack.kind is SpanKind.CLIENT
    assert [link.context for link in ack.links] == [delivery.get_span_context()]
    assert (attributes(ack)["operation.name"], attributes(ack)["operation.type"]) == ("ack", "settle")
    assert (list(nack.links), attributes(nack)["error.type"]) == ([], "STALE")
    assert sum(point.count for point in seen.points("messaging.client.operation.duration")) == 2


def test_settling_in_a_single_call_is_reported_alike(seen: Observed) -> None:
    with telemetry(seen, "default").settling("ack", None, 3):
        pass
    with pytest.raises(SinkFull), telemetry(seen, "default").settling("nack", 0, 3):
        raise SinkFull("x")

    assert [attributes(span).get("error.type") for span in seen.spans("settle")] == [None, SinkFull("").reason]


def test_pulled_and_replayed_records_are_counted_by_operation(seen: Observed) -> None:
    telemetry(seen, "default").read("pull", 2)
    telemetry(seen).read("replay", 3)

    assert seen.values("messaging.client.consumed.messages", "operation") == {("pull",): 2, ("replay",): 3}


def test_the_number_of_series_does_not_grow_with_partitions_or_batches(seen: Observed) -> None:
    measured = telemetry(seen, "default")
    for number in range(50):
        measured.sent(measured.send(number, number + 1, None), number + 1)
        measured.processed(measured.deliver(number, number + 1, []), 0.1)

    assert {name: len(points) for name, points in seen.metrics().items()} == {
        "messaging.client.sent.messages": 1,
        "messaging.client.operation.duration": 1,
        "messaging.client.consumed.messages": 1,
        "messaging.process.duration": 1,
    }
