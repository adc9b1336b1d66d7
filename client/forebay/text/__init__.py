"""Text for people: foreign text, escaped, and quantities. Standard library only."""

from __future__ import annotations

from forebay.text.escapes import is_safe, visible, visible_json
from forebay.text.logs import SafeFormatter, log_to_stderr

__all__ = ["SafeFormatter", "is_safe", "log_to_stderr", "visible", "visible_json"]
