"""Position of a replica in its journal, written with each batch of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import json_record


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Place after the last batch that the store has."""

    journal: str
    """Identity of the journal, 16 random bytes as hex."""

    position: int
    """Next position to read."""

    epoch: int
    """Owner epoch at that position."""

    owner: str
    """Identity of its owner, as hex; empty where the epoch is that of an imported store."""

    group: int
    """Next group of the epoch."""


JOURNAL_POSITION: Final = Kind(
    name="journal position",
    prefix=b"\x0b",
    layout="",
    codec=json_record(JournalPosition, "a position in a journal"),
    lives="the life of a store with a journal; written with every batch",
    damaged="the store is not opened; it is rebuilt from the journal in an empty directory",
)
LEAVE_JOURNAL: Final = JOURNAL_POSITION.delete(JOURNAL_POSITION.key())
"""Makes the store of a directory one that follows no journal."""
