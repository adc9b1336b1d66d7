"""Text for people: foreign text, escaped, and quantities. Standard library only."""

from __future__ import annotations

from forebay.text.escapes import is_safe, visible, visible_json
from forebay.text.events import event_of, fields_of
from forebay.text.logs import JsonFormatter, LogFormat, SafeFormatter, log_to_stderr

__all__ = [
    "JsonFormatter",
    "LogFormat",
    "SafeFormatter",
    "event_of",
    "fields_of",
    "is_safe",
    "log_to_stderr",
    "visible",
    "visible_json",
]
