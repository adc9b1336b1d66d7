"""Reference of the keys of the store, from the registry of the kinds of stored values."""

from __future__ import annotations

from docs.generator.table import table
from forebay.broker.storage.records.registry import KINDS


def markdown() -> str:
    """Return the table of all kinds of stored values."""
    head = ("kind", "family", "first byte", "rest of the key", "lives", "a damaged one at a start")
    rows = ((kind.name, kind.family, kind.prefix.hex(), kind.layout, kind.lives, kind.damaged) for kind in KINDS)
    return table(head, rows)
