"""Log of a long-running command on standard error: text, or JSON with the current span."""

from __future__ import annotations

import logging
import time
from typing import Annotated, Final

import typer

from forebay.cli.times import ZONE
from forebay.text import JsonFormatter, LogFormat, SafeFormatter, log_to_stderr

LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="FOREBAY_LOG_FORMAT",
        help="Format of the log on standard error: text, or json with one object per event.",
    ),
]
"""``--log-format``; the default is text."""

_QUOTING: Final = ("httpcore2",)
"""Loggers of libraries that at level debug write headers and other contents of a connection."""


def start_log(level: str | int, form: str, log_format: LogFormat) -> None:
    """Log to standard error; ``form`` is the template of lines of text. Times are as in tables."""
    for name in _QUOTING:
        logging.getLogger(name).setLevel(logging.INFO)
    log_to_stderr(level, JsonFormatter(_current_span) if log_format is LogFormat.JSON else _lines(form))


def _lines(form: str) -> SafeFormatter:
    """Return the formatter of lines of text: local times, or marked ones in UTC."""
    lines = SafeFormatter(form)
    if ZONE.get() is not None:
        lines.converter = time.gmtime
        lines.default_msec_format = "%s,%03dZ"
    return lines


def _current_span() -> tuple[str, str]:
    """Return the ids of the current trace and span; empty without one."""
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return "", ""
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)
