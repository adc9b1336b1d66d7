"""Span of a request to a remote system, by the semantic conventions of OpenTelemetry.

Those for HTTP and for database clients. It is a child of the attempt's span. No text of an exception and no query of an
address is recorded: they may quote a record or a credential.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider

_SCOPE: Final = "forebay.deliver"


@contextmanager
def client_span(name: str, attributes: Mapping[str, str | int], tracers: TracerProvider | None) -> Iterator[Span]:
    """Run a block in the span of a request."""
    with trace.get_tracer(_SCOPE, tracer_provider=tracers).start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def failed(span: Span, error: str) -> None:
    """Mark a span as failed; ``error`` is a status code or the name of a class, never a text."""
    span.set_attribute("error.type", error)
    span.set_status(StatusCode.ERROR)
