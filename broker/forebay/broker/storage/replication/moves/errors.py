"""Errors of moves, by the reaction of the caller.

StoreError
├── JournalOccupied        use a journal without records
├── JournalEmpty           name the journal of a shard
├── JournalInUse           stop the brokers of the shard
├── ShardMissing           name a shard of the fleet
├── ShardNotEmpty          deliver or delete its records
├── JournalNeeded          keep the journal of an export
├── JournalMissing         mount the journal, or delete the object of the shard by hand
├── DirectoryUnsuitable    name another directory
├── ImportFailed           remove the cause, and run it again
└── RemovalFailed          remove the cause, and run it again
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from forebay.broker.storage.errors import StoreError

SINKS_SHOWN: Final = 10


class JournalOccupied(StoreError):
    """The journal has records or a checkpoint, which an import never replaces."""

    def __init__(self, journal: str, cause: str = "it has records") -> None:
        """Name the journal, and what is in it."""
        super().__init__(f"journal {journal} is not empty: {cause}; nothing was changed, use another journal")
        self.journal: Final = journal


class JournalEmpty(StoreError):
    """The journal has no store."""

    def __init__(self, journal: str, cause: str = "it has no records") -> None:
        """Name the journal, and the cause."""
        super().__init__(f"journal {journal} has no store: {cause}")
        self.journal: Final = journal


class JournalInUse(StoreError):
    """A broker owns the journal, or has just taken it over."""

    def __init__(self, journal: str, owner: str) -> None:
        """Name the journal and its owner."""
        super().__init__(f"journal {journal} is in use by {owner}; stop all brokers of the shard, and run it again")
        self.journal: Final = journal


class ShardMissing(StoreError):
    """The fleet has no such shard."""

    def __init__(self, shard: str, journal: str) -> None:
        """Name the shard, and the common address of the fleet."""
        super().__init__(
            f"the fleet with the journal {journal} has no shard {shard!r}: `forebay shard list` shows them"
        )
        self.shard: Final = shard


class ShardNotEmpty(StoreError):
    """Sinks of the shard have unsettled records."""

    def __init__(self, shard: str, unsettled: Mapping[str, int]) -> None:
        """Name the shard, and the unsettled records by sink."""
        shown = [f"{sink} ({records:,})" for sink, records in sorted(unsettled.items())[:SINKS_SHOWN]]
        more = f" and {len(unsettled) - len(shown):,} more" if len(unsettled) > len(shown) else ""
        super().__init__(
            f"shard {shard!r} has unsettled records in {', '.join(shown)}{more}; nothing was changed: let its brokers "
            "deliver them, or delete the sinks with `forebay sink delete --force`"
        )
        self.shard: Final = shard
        self.unsettled: Final = dict(unsettled)


class JournalNeeded(StoreError):
    """The journal is to be deleted, and its store was exported with unsettled records."""

    def __init__(self, journal: str, directory: str) -> None:
        """Name the journal, and the directory of the export."""
        super().__init__(
            f"journal {journal} was exported to {directory} with unsettled records, and an export that was interrupted "
            "needs it; nothing was changed: remove the shard without --delete-journal"
        )
        self.journal: Final = journal


class JournalMissing(StoreError):
    """The shard has a journal, which is not there, so nothing can be checked."""

    def __init__(self, shard: str, journal: str) -> None:
        """Name the shard, and the common address of the fleet."""
        super().__init__(
            f"the journal of shard {shard!r} is not below {journal}: it may not be mounted here; nothing was changed. "
            f"If it was deleted, delete directory/{shard} there by hand"
        )
        self.shard: Final = shard


class DirectoryUnsuitable(StoreError):
    """The directory is not empty, or has a store that is not imported."""

    def __init__(self, directory: Path, cause: str) -> None:
        """Name the directory, and the cause."""
        super().__init__(f"directory {directory} {cause}; nothing was changed")
        self.directory: Final = directory


class ImportFailed(StoreError):
    """The store is damaged, or its checkpoint could not be made. The text has the cause."""


class RemovalFailed(StoreError):
    """The shard was removed, and its journal could not be trimmed. The text has the cause."""
