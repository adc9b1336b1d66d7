"""Span of a Spark task, and the export of its telemetry before the task ends.

A Python worker ends with ``os._exit`` and may be killed while idle, so that data exported at the end of the process
would be lost. Only the OpenTelemetry API is used: without an SDK in the worker this does nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, StatusCode
from pyspark import TaskContext

SCOPE: Final = "forebay.spark"
FLUSH_S: Final = 1.0
PAUSE_S: Final = 30.0
"""Pause without flushes after a flush that timed out."""


@contextmanager
def task(operation: str, sink: str) -> Iterator[None]:
    """Trace a task as the parent of the client's spans; export all telemetry at its end.

    ``operation`` is ``write`` or ``read``.
    """
    attributes: dict[str, str | int] = {"messaging.system": "forebay", "messaging.destination.name": sink}
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
        # An exporter retries on its own, and ignores the time limit meanwhile.
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
