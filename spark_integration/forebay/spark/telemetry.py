"""The span of a Spark task, and the export of all that a task has measured before it ends.

A Python worker ends with ``os._exit`` and may be killed while idle, so what waits for the end of the process is never
sent. Only the API of OpenTelemetry is used: without an SDK in the worker all of this does nothing.
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
"""How long nothing is flushed at the end of tasks after a flush that took longer."""


@contextmanager
def task(operation: str, sink: str) -> Iterator[None]:
    """Put a span around a task, the parent of what the client does in it; export everything at its end.

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
    """Has what was measured exported before a task ends, without holding tasks up for a collector that is away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before = 0.0

    def flush(self, providers: Sequence[object]) -> None:
        """Ask providers, where they can, to export what they hold; waits up to 1 s for all of them together.

        A flush that takes longer goes on behind the task, and for half a minute no further one is begun.
        """
        able = [provider for provider in providers if hasattr(provider, "force_flush")]
        if not able or self._clock() < self._not_before:
            return
        # An exporter tries again on its own, and no time-out that it is given ends that.
        flushing = threading.Thread(target=_flush, args=(able,), name="forebay-flush", daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)
        if flushing.is_alive():
            self._not_before = self._clock() + PAUSE_S


def _flush(providers: Sequence[Any]) -> None:
    for provider in providers:
        provider.force_flush()


_FLUSHER: Final = Flusher()
"""One per Python worker."""
