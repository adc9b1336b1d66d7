"""The span of a Spark task, and the export of all that a task has measured before it ends.

A Python worker ends with ``os._exit`` and may be killed while idle, so what waits for the end of the process is never
sent. Only the API of OpenTelemetry is used: without an SDK in the worker all of this does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, StatusCode
from pyspark import TaskContext

SCOPE: Final = "holdfast.spark"
FLUSH_TIMEOUT_MS: Final = 5000


@contextmanager
def task(operation: str, sink: str) -> Iterator[None]:
    """Put a span around a task, the parent of what the client does in it; export everything at its end.

    ``operation`` is ``write`` or ``read``.
    """
    attributes: dict[str, str | int] = {"messaging.system": "holdfast", "messaging.destination.name": sink}
    context = TaskContext.get()
    if context is not None:
        attributes["spark.stage.id"] = context.stageId()
        attributes["spark.partition.id"] = context.partitionId()
        attributes["spark.task.attempt"] = context.attemptNumber()
    tracer = trace.get_tracer(SCOPE)
    try:
        with tracer.start_as_current_span(
            f"spark {operation} {sink}",
            kind=SpanKind.INTERNAL,
            attributes=attributes,
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
        flush((trace.get_tracer_provider(), metrics.get_meter_provider()))


def flush(providers: Sequence[object]) -> None:
    """Ask providers, where they can, to export what they hold; waits up to 5 s for each."""
    for provider in providers:
        force_flush = getattr(provider, "force_flush", None)
        if force_flush is not None:
            force_flush(FLUSH_TIMEOUT_MS)
