"""Errors of a store, by the reaction of the caller.

    StoreError
    ├── StoreFailed               acknowledge nothing that waits; end the process; open the store again
    │   └── StoreNoSpace          the same, once there is free space
    ├── StoreUnreadable           retry the read later; drop and reclaim nothing because of it
    ├── StoreShortage             nothing was done; retry after a moment
    ├── StoreCorrupt              read around the damage, or rebuild what it covers
    ├── StoreClosed               nothing: the process is stopping
    ├── StoreLocked               end the owner, or use another directory
    ├── StoreFormatUnsupported    use the version of Forebay that wrote it, or another directory
    └── StoreFilesLimited         raise the limit of open files

Reason texts come from the operating system or from RocksDB. They are for people, not for comparison.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forebay.broker.storage.store.contract import Family

REMEDY: Final = (
    "save what can be saved with `forebay repair --data-dir DIR --into NEW`, "
    "put back a copy of the directory, or start with another one"
)
"""Remaining options for a store that does not start."""


class StoreError(Exception):
    """Any error of a store."""


class StoreFailed(StoreError):
    """A write failed; every later write on this handle fails too.

    Acknowledge nothing that waits for it, stop the process, open the store again. Unsynced writes may be lost then.
    """

    def __init__(self, action: str, reason: str) -> None:
        """Set the action and the reason of its failure."""
        super().__init__(f"store could not {action}: {reason}")
        self.action = action
        self.reason = reason


class StoreNoSpace(StoreFailed):
    """The disk or the quota is full. Free some space, then open the store again, which needs space too."""


class StoreUnreadable(StoreError):
    """Read failure that does not prove damage: an I/O error, or a temporary shortage.

    Retry later. Nothing may be dropped, reclaimed or rebuilt because of it.
    """

    def __init__(self, reason: str, *, family: Family | None = None) -> None:
        """Set the reason, and the family if it is known."""
        where = "store" if family is None else f"family {family}"
        super().__init__(f"{where} could not be read: {reason}")
        self.family = family
        self.reason = reason


class StoreShortage(StoreError):
    """The process or the system was short of descriptors or memory. The change did not begin: retry."""

    def __init__(self, action: str, reason: str) -> None:
        """Name the action and the reason."""
        super().__init__(f"store could not {action} for a shortage: {reason}")
        self.action = action
        self.reason = reason


class StoreCorrupt(StoreError):
    """Stored bytes are damaged. Read around them or rebuild them; the rest of the store is intact.

    If the store could not be opened, ``directory`` is set and ``family`` is ``None``. ``key`` is known for reads of
    single keys only.
    """

    def __init__(
        self, family: Family | None, reason: str, *, key: bytes | None = None, directory: Path | None = None
    ) -> None:
        """Set the place of the damage; for a whole store the text has the remedies."""
        where = f"family {family}" if family is not None else "store" if directory is None else f"store {directory}"
        at = "" if key is None else f" at key {key.hex()}"
        remedy = "" if directory is None else f"; {REMEDY}"
        super().__init__(f"{where} is damaged{at}: {reason}{remedy}")
        self.family = family
        self.reason = reason
        self.key = key
        self.directory = directory


class StoreClosed(StoreError):
    """The store was closed before the call, which did nothing."""

    def __init__(self) -> None:
        """Set the text."""
        super().__init__("store is closed")


class StoreLocked(StoreError):
    """Another process owns the directory. End it or use another directory; do not delete files.

    ``pid`` is ``None`` if the owner has not written it yet or runs in another PID namespace.
    """

    def __init__(self, directory: Path, pid: int | None) -> None:
        """Name the directory and its owner."""
        owner = "another process" if pid is None else f"process {pid}"
        super().__init__(f"store {directory} is in use by {owner}; end it, or use another directory")
        self.directory = directory
        self.pid = pid


class StoreFormatUnsupported(StoreError):
    """Another version of Forebay wrote the store. Use that version, or another directory.

    ``found`` is ``None`` if there is data without a readable format number.
    """

    def __init__(
        self, directory: Path, *, found: int | None, supported: int, oldest: int | None = None, writer: str = ""
    ) -> None:
        """Name the formats, and the version of the last owner; ``oldest`` is the oldest that is migrated."""
        named = f"Forebay {writer}, which" if writer else "the version of Forebay that"
        older = f" and migrates formats from {oldest} on" if oldest is not None and oldest < supported else ""
        super().__init__(
            f"store {directory} has format {'unknown' if found is None else found}, "
            f"this version reads format {supported}{older}; "
            f"use {named} wrote it, or another directory"
        )
        self.directory = directory
        self.found = found
        self.supported = supported
        self.writer = writer


class StoreDirectoryForeign(StoreError):
    """The directory has no store, but other files. Name an empty directory, or that of a store."""

    def __init__(self, directory: Path, name: str) -> None:
        """Name the directory, and one of the files in it."""
        super().__init__(
            f"directory {directory} has no store, but other files, such as {name!r}: name an empty directory, "
            "or that of a store; nothing was changed"
        )
        self.directory = directory
        self.name = name


class StoreFilesLimited(StoreError):
    """The process may not open enough files. Raise the hard limit (``ulimit -Hn``) and start again."""

    def __init__(self, *, needed: int, allowed: int) -> None:
        """Name both numbers."""
        super().__init__(f"the store needs {needed} open files and the process may have {allowed}")
        self.needed = needed
        self.allowed = allowed
