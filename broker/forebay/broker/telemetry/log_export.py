"""Log events as OpenTelemetry log records, with their fields and the current span.

Only loggers of Forebay are exported: an exporter that logged its own failures would produce events without end.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from opentelemetry import context
from opentelemetry._logs import LoggerProvider, LogRecord, SeverityNumber

from forebay.text import event_of, fields_of, visible

LOGGER: Final = "forebay"
"""Logger whose events are exported, with those below it."""

_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
)


class ExportHandler(logging.Handler):
    """Handler that passes events to the loggers of a provider."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        """Pass an event on. The text of an exception is left out: it may quote a record."""
        try:
            number, severity = _severity(record.levelno)
            attributes: dict[str, str | int | float | bool] = {"forebay.event": event_of(record), **fields_of(record)}
            if record.exc_info and record.exc_info[0] is not None:
                attributes["exception.type"] = record.exc_info[0].__qualname__
            self._provider.get_logger(record.name).emit(
                LogRecord(
                    timestamp=int(record.created * 1e9),
                    observed_timestamp=time.time_ns(),
                    context=context.get_current(),
                    severity_number=number,
                    severity_text=severity,
                    body=visible(record.getMessage()),
                    attributes=attributes,
                )
            )
        except Exception:  # noqa: BLE001 - as every handler: an event that cannot be passed on harms no caller
            self.handleError(record)

    def open(self) -> None:
        """Begin to take events."""
        logging.getLogger(LOGGER).addHandler(self)

    def close(self) -> None:
        """Take no more events."""
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()


def _severity(level: int) -> tuple[SeverityNumber, str]:
    for lowest, number, text in _SEVERITIES:
        if level >= lowest:
            return number, text
    return SeverityNumber.DEBUG, "DEBUG"
