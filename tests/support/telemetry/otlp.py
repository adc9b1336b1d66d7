"""A receiver of OTLP over gRPC on a free port, which keeps what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it came."""

    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    links: frozenset[tuple[bytes, bytes]]
    """(trace id, span id)."""

    attributes: dict[str, Any]
    start_ns: int
    end_ns: int
    """Times of the clock."""

    message: str
    """Description of its status."""

    @property
    def context(self) -> tuple[bytes, bytes]:
        """Identity for span links."""
        return self.trace_id, self.span_id


@dataclass(frozen=True, slots=True)
class Point:
    """The newest value of one series."""

    unit: str
    kind: str
    value: float
    """The number, or the count of a histogram."""

    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A log event as it came."""

    service: str
    logger: str
    severity: str
    body: str
    attributes: dict[str, Any]
    span: tuple[bytes, bytes]
    """Identity of the span that was current; empty without one."""


class Receiver(
    metrics_service_pb2_grpc.MetricsServiceServicer,
    trace_service_pb2_grpc.TraceServiceServicer,
    logs_service_pb2_grpc.LogsServiceServicer,
):
    """Keeps every span, log event and exemplar, and of each metric what came last."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        """Protects the five below; fires when something came."""
        self._spans: list[Span] = []
        self._events: list[Event] = []
        self._metrics: dict[tuple[str, str], list[Point]] = {}
        self._exemplars: dict[tuple[str, str], set[tuple[bytes, bytes]]] = {}
        self.resources: list[dict[str, Any]] = []
        self.endpoint = ""

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take any signal: all services have this one call."""
        with self._news:
            if isinstance(request, trace_service_pb2.ExportTraceServiceRequest):
                self._spans += _spans(request)
                answer: Any = trace_service_pb2.ExportTraceServiceResponse()
            elif isinstance(request, logs_service_pb2.ExportLogsServiceRequest):
                self._events += _events(request)
                answer = logs_service_pb2.ExportLogsServiceResponse()
            else:
                self._metrics |= _metrics(request)
                for metric, spans in _exemplars(request):
                    self._exemplars.setdefault(metric, set()).update(spans)
                answer = metrics_service_pb2.ExportMetricsServiceResponse()
                self.resources += [_attributes(one.resource.attributes) for one in request.resource_metrics]
            self._news.notify_all()
        return answer

    def metrics(self, service: str) -> dict[str, list[Point]]:
        """Last measurements of one service."""
        with self._news:
            return {name: points for (sender, name), points in self._metrics.items() if sender == service}

    def metrics_with(self, service: str, *names: str) -> dict[str, list[Point]]:
        """Last measurements of one service, once each of these metrics came."""
        with self._news:
            came = self._news.wait_for(lambda: all((service, name) in self._metrics for name in names), WAIT_S)
            assert came, f"not all of {names} came; there are {sorted(self._metrics)}"
            return {name: self._metrics[service, name] for name in names}

    def exemplars(self, service: str, metric: str) -> set[tuple[bytes, bytes]]:
        """Identities of the spans that were exemplars of a metric."""
        with self._news:
            return set(self._exemplars.get((service, metric), ()))

    def spans(self, name: str, count: int = 1) -> list[Span]:
        """The spans of a name, once there are so many."""
        return self._await(lambda: [span for span in self._spans if span.name == name], count)

    def all_spans(self) -> list[Span]:
        """Every span that came so far."""
        with self._news:
            return list(self._spans)

    def event(self, text: str) -> Event:
        """The first log event that begins so, once there is one."""

        def found() -> Event | None:
            return next((event for event in self._events if event.body.startswith(text)), None)

        with self._news:
            came = self._news.wait_for(found, WAIT_S)
            assert came is not None, f"{text!r} did not come; there are {[event.body for event in self._events]}"
            return came

    def _await(self, look: Callable[[], list[Span]], count: int) -> list[Span]:
        with self._news:
            came = self._news.wait_for(lambda: len(look()) >= count, WAIT_S)
            assert came, f"{count} did not come; there are {sorted({span.name for span in self._spans})}"
            return look()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver until the block ends."""
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="otlp"))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(receiver, server)
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(receiver, server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    service=service,
                    name=span.name,
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    parent_id=span.parent_span_id,
                    links=frozenset((link.trace_id, link.span_id) for link in span.links),
                    attributes=_attributes(span.attributes),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    message=span.status.message,
                )


def _events(request: Any) -> Iterator[Event]:
    for resource in request.resource_logs:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_logs:
            for record in scope.log_records:
                yield Event(
                    service,
                    scope.scope.name,
                    record.severity_text,
                    record.body.string_value,
                    _attributes(record.attributes),
                    (record.trace_id, record.span_id),
                )


def _metrics(request: Any) -> dict[tuple[str, str], list[Point]]:
    found: dict[tuple[str, str], list[Point]] = {}
    for resource in request.resource_metrics:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                found[service, metric.name] = [
                    Point(metric.unit, kind, _value(kind, point), _attributes(point.attributes))
                    for point in getattr(metric, kind).data_points
                ]
    return found


def _exemplars(request: Any) -> Iterator[tuple[tuple[str, str], set[tuple[bytes, bytes]]]]:
    for resource in request.resource_metrics:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points = getattr(metric, metric.WhichOneof("data")).data_points
                spans = {(each.trace_id, each.span_id) for point in points for each in point.exemplars}
                yield (service, metric.name), spans


def _value(kind: str, point: Any) -> float:
    return float(point.count if kind == "histogram" else getattr(point, point.WhichOneof("value")))


def _attributes(found: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in found}
