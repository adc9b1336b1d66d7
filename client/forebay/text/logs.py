"""Formatter of log lines that cannot be forged: one event is one line, whatever text it quotes.

The formatter escapes all events of a process, so that callers need not. A traceback keeps its lines; each begins with a
mark that no event begins with.
"""

from __future__ import annotations

import logging
import sys
from typing import Final, TextIO

from forebay.text.escapes import visible

TRACE_MARK: Final = "  | "
"""Prefix of each line after the first one of an event."""


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


def log_to_stderr(level: str | int, form: str) -> None:
    """Log the events of this process to standard error, escaped. Ignored if a handler is set already."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = StderrHandler()
    handler.setFormatter(SafeFormatter(form))
    root.addHandler(handler)
    root.setLevel(level)


def _marked(text: str) -> str:
    return "\n".join(TRACE_MARK + visible(line) for line in text.split("\n"))
