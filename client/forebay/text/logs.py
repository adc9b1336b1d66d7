"""Formatters of log lines that cannot be forged: one event is one line, whatever text it quotes.

The formatters escape all events of a process, so that callers need not. A traceback keeps its lines; each begins with a
mark that no event begins with.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TextIO

from forebay.text.escapes import visible, visible_json
from forebay.text.events import event_of, fields_of

TRACE_MARK: Final = "  | "
"""Prefix of each line after the first one of an event."""


class LogFormat(StrEnum):
    """Form of log events."""

    TEXT = "text"
    JSON = "json"


class SafeFormatter(logging.Formatter):
    """Formatter whose lines contain no control, bidirectional or invisible characters of foreign text."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the event on one line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: object) -> str:
        """Return a traceback, marked line by line."""
        return _marked(super().formatException(ei))  # type: ignore[arg-type]  # what logging hands over

    def formatStack(self, stack_info: str) -> str:
        """Return a stack, marked line by line."""
        return _marked(super().formatStack(stack_info))


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object per event: time in UTC, level, logger, event, message and fields.

    ``trace`` returns the ids of the current trace and span; both are empty without one.
    """

    def __init__(self, trace: Callable[[], tuple[str, str]] = lambda: ("", "")) -> None:
        super().__init__()
        self._trace = trace

    def format(self, record: logging.LogRecord) -> str:
        """Return the event on one line."""
        trace_id, span_id = self._trace()
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": event_of(record),
            "message": record.getMessage(),
            "fields": fields_of(record),
        }
        if trace_id:
            document |= {"trace_id": trace_id, "span_id": span_id}
        if record.exc_info:
            document["exception"] = super().formatException(record.exc_info)
        return visible_json(json.dumps(document, ensure_ascii=False))


class StderrHandler(logging.StreamHandler[TextIO]):
    """Handler that writes to the current standard error.

    A line that is shown there then moves below the events.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)  # that of `StreamHandler` would keep the stream

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # an attribute of the base
        """Standard error."""
        return sys.stderr


def log_to_stderr(level: str | int, form: str | logging.Formatter) -> None:
    """Log the events of this process to standard error. Ignored if a handler is set already.

    ``form`` is a formatter, or the template of the lines of a `SafeFormatter`.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = StderrHandler()
    handler.setFormatter(SafeFormatter(form) if isinstance(form, str) else form)
    root.addHandler(handler)
    root.setLevel(level)


def _marked(text: str) -> str:
    return "\n".join(TRACE_MARK + visible(line) for line in text.split("\n"))
