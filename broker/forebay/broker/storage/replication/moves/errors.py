"""Errors of moves, by the reaction of the caller.

StoreError
├── JournalOccupied        use a journal without records
├── JournalEmpty           name the journal of a shard
├── JournalInUse           stop the brokers of the shard
├── DirectoryUnsuitable    name another directory
└── ImportFailed           remove the cause, and run it again
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forebay.broker.storage.errors import StoreError


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
    """A broker owns the journal, or has taken it over meanwhile."""

    def __init__(self, journal: str, owner: str) -> None:
        """Name the journal and its owner."""
        super().__init__(f"journal {journal} is in use by {owner}; stop all brokers of the shard, and run it again")
        self.journal: Final = journal


class DirectoryUnsuitable(StoreError):
    """The directory is not empty, or has a store that is not imported."""

    def __init__(self, directory: Path, cause: str) -> None:
        """Name the directory, and the cause."""
        super().__init__(f"directory {directory} {cause}; nothing was changed")
        self.directory: Final = directory


class ImportFailed(StoreError):
    """The store is damaged, or its checkpoint could not be made. The text has the cause."""
