"""What a query failed with, from the text that Spark makes of it."""

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
    """What a query failed with: the reason of a Forebay error if one is named, else the kind that Spark gives."""
    if found := re.search(r": ([A-Z][A-Z_]+): ", why.partition("ForebaySparkError")[2]):
        return found[1]
    if found := re.search(r"\[([A-Z_.]+)\]", why):
        return found[1]
    return why.strip().splitlines()[0][:80] if why.strip() else "unknown"
