"""Spans and metrics of a Spark task leave the process before the task ends.

A Python worker ends with ``os._exit`` and may be killed when idle, so nothing that waits for the end of the process is
sent. Only the API of OpenTelemetry is used: without an SDK in the worker this does nothing.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import metrics, trace

FLUSH_TIMEOUT_MS: Final = 5000


def flush() -> None:
    """Ask the providers of this process, where they can, to export what they hold; waits up to 5 s for each."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        force_flush = getattr(provider, "force_flush", None)
        if force_flush is not None:
            force_flush(FLUSH_TIMEOUT_MS)
