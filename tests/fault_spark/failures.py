"""Failure of a query, parsed from the text of Spark."""

from __future__ import annotations

import re
from typing import Final

UNEXPECTED: Final = frozenset(
    {
        "EPOCH_CONFLICT",
        "EPOCH_CONTENT_CONFLICT",
        "EPOCH_FENCED",
        "PRODUCER_CHANGED",
        "STAGED_INCOMPLETE",
        "INVALID_EPOCH",
    }
)
"""One query alone meets none of these, whatever is killed."""


def name_of(why: str) -> str:
    """Return the failure of a query: the reason of a Forebay error, otherwise the class that Spark names."""
    if found := re.search(r": ([A-Z][A-Z_]+): ", why.partition("ForebaySparkError")[2]):
        return found[1]
    if found := re.search(r"\[([A-Z_.]+)\]", why):
        return found[1]
    return why.strip().splitlines()[0][:80] if why.strip() else "unknown"
