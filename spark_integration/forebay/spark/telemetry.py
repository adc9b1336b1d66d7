"""Spans of a Spark task and of a commit in the driver, and their export before the Python worker ends.

A Python worker ends with ``os._exit`` and may be killed while idle, so that data exported at the end of the process
would be lost. Only the OpenTelemetry API is used: without an SDK in the worker this does nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pyspark import TaskContext

from forebay.spark.application import application_id

SCOPE: Final = "forebay.spark"
FLUSH_S: Final = 1.0
PAUSE_S: Final = 30.0
"""Pause without flushes after a flush that timed out."""
LINKS_MAX: Final = 128
"""Tasks that the span of a commit is linked to; the SDK keeps as many."""
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
_PROPERTIES: Final = {QUERY_ID: "spark.streaming.query.id", BATCH_ID: "spark.streaming.batch.id"}
"""Attributes of a task's span by the local property of Spark that has the value."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@contextmanager
def task(operation: str, sink: str) -> Iterator[str]:
    """Trace a task as the parent of the client's spans; export all telemetry at its end.

    ``operation`` is ``write`` or ``read``. Yields the context of the span as a W3C ``traceparent``; empty without one.
    """
    attributes: dict[str, str | int] = {
        "messaging.system": "forebay",
        "messaging.destination.name": sink,
        **_application(),
    }
    context = TaskContext.get()
    if context is not None:
        attributes["spark.stage.id"] = context.stageId()
        attributes["spark.partition.id"] = context.partitionId()
        attributes["spark.task.attempt"] = context.attemptNumber()
        for name, attribute in _PROPERTIES.items():
            if value := context.getLocalProperty(name):
                attributes[attribute] = value
    with _traced(f"spark {operation} {sink}", attributes, ()):
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        yield carrier.get("traceparent", "")


@contextmanager
def commit(sink: str, *, producer: str, epoch: int, records: int, tasks: Sequence[str]) -> Iterator[None]:
    """Trace the commit of an epoch, linked to the spans of its tasks; export all telemetry at its end.

    ``tasks`` are the contexts that ``task`` yielded.
    """
    attributes: dict[str, str | int] = {
        "messaging.system": "forebay",
        "messaging.destination.name": sink,
        "messaging.batch.message_count": records,
        "forebay.epoch.producer": producer,
        "forebay.epoch.number": epoch,
        **_application(),
    }
    query, of_a_stream, _ = producer.partition(":")
    if of_a_stream:  # a batch has an id of its own
        attributes[_PROPERTIES[QUERY_ID]] = query
        attributes[_PROPERTIES[BATCH_ID]] = str(epoch)
    with _traced(f"spark commit {sink}", attributes, list(_links(tasks))):
        yield


def _application() -> dict[str, str]:
    """Return the id of the Spark application as an attribute, if it is known."""
    found = application_id()
    return {"spark.app.id": found} if found else {}


def _links(tasks: Sequence[str]) -> Iterator[Link]:
    for traceparent in [each for each in tasks if each][:LINKS_MAX]:
        context = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
        if context.is_valid:
            yield Link(context)


@contextmanager
def _traced(name: str, attributes: Mapping[str, str | int], links: Sequence[Link]) -> Iterator[None]:
    """Run a block in a span; export all telemetry at its end."""
    tracer = trace.get_tracer(SCOPE)
    try:
        with tracer.start_as_current_span(
            name,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            links=links,
            # The text of an exception may quote a row.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise
    finally:
        _FLUSHER.flush((trace.get_tracer_provider(), metrics.get_meter_provider()))


class Flusher:
    """Exports telemetry before a task ends, without delaying tasks for an unavailable collector."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before = 0.0

    def flush(self, providers: Sequence[object]) -> None:
        """Flush the given providers; waits up to 1 s for all of them together.

        A slower flush continues in the background, and no other flush starts for 30 s.
        """
        able = [provider for provider in providers if hasattr(provider, "force_flush")]
        if not able or self._clock() < self._not_before:
            return
        # An exporter retries on its own, and ignores the time limit while it does.
        flushing = threading.Thread(target=_flush, args=(able,), name="forebay-flush", daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)
        if flushing.is_alive():
            self._not_before = self._clock() + PAUSE_S


def _flush(providers: Sequence[Any]) -> None:
    for provider in providers:
        provider.force_flush()


_FLUSHER: Final = Flusher()
"""One flusher per Python worker."""
