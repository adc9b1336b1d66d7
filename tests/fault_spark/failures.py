"""What a query failed with, from the text that Spark makes of it."""

from __future__ import annotations

import re
from typing import Final

UNEXPECTED: Final = frozenset(
    {"EpochConflict", "EpochContentConflict", "EpochFenced", "ProducerChanged", "StagedIncomplete", "InvalidEpoch"}
)
"""One query alone meets none of these, whatever is killed."""


def name_of(why: str) -> str:
    """What a query failed with: an error of Forebay's client if one is named, else the kind that Spark gives."""
    if found := re.search(r": ([A-Z][A-Za-z]+): ", why.partition("ForebaySparkError")[2]):
        return found[1]
    if found := re.search(r"\[([A-Z_.]+)\]", why):
        return found[1]
    return why.strip().splitlines()[0][:80] if why.strip() else "unknown"
