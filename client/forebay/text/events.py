"""Fields of log events, from the template and the arguments of a record.

Events are written as ``"target failed sink=%s attempts=%d"``. Each conversion that follows ``NAME=`` is a field whose
value is the argument itself, so that no text has to be parsed again.
"""

from __future__ import annotations

import logging
import re
from typing import Final

_CONVERSION: Final = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
"""Conversion of a template, with the name of its field if it has one; ``%%`` takes no argument."""

_FIRST_FIELD: Final = re.compile(r"[\s,;:]*(?:[A-Za-z_]\w*=)?%")

FieldValue = str | int | float | bool


def event_of(record: logging.LogRecord) -> str:
    """Return the constant part of an event: its template up to the first field."""
    template = str(record.msg)
    found = _FIRST_FIELD.search(template) if record.args else None
    return template[: found.start()] if found is not None else template


def fields_of(record: logging.LogRecord) -> dict[str, FieldValue]:
    """Return the named fields of an event; empty if template and arguments do not match."""
    if not isinstance(record.args, tuple):
        return {}
    found = [match for match in _CONVERSION.finditer(str(record.msg)) if not match.group().endswith("%%")]
    if len(found) != len(record.args):
        return {}
    return {
        match["name"]: value if isinstance(value, str | int | float | bool) else str(value)
        for match, value in zip(found, record.args, strict=True)
        if match["name"]
    }
