"""Reference of the keys of the store, from the registry of the kinds of stored values."""

from __future__ import annotations

from docs.generator.table import table
from forebay.broker.storage.records.registry import KINDS


def markdown() -> str:
    """Return the table of all kinds of stored values."""
    rows = ((each.name, each.family, each.prefix.hex(), each.layout, each.lives, each.damaged) for each in KINDS)
    return table(("kind", "family", "first byte", "rest of the key", "lives", "a damaged one at a start"), rows)
