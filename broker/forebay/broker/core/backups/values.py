"""Values of backups that the runtime and the storage share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Progress of a backup or checkpoint. Written by the transferring thread, read by any thread."""

    backup: str = ""
    parent: str = ""
    """Backup that this one is incremental to; empty for a full backup."""

    files: int = 0
    """Files to transfer."""

    files_done: int = 0
    bytes: int = 0
    """Bytes to transfer."""

    bytes_done: int = 0
    reused_bytes: int = 0
    """Bytes of files that are reused from earlier backups, and not transferred again."""


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """A complete backup."""

    id: str
    parent: str
    """Backup that this one is incremental to; empty for a full backup."""

    taken_at_us: int
    """Wall-clock time of its snapshot."""

    size: int
    """Bytes that a restore reads."""

    transferred_bytes: int
    files: int
    sinks: int
    seconds: float
    stall_s: float = 0.0
    """Time for which the snapshot blocked commits; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Restore from which a store was created."""

    store_id: str
    """Identity of the restored store. Its older pages carry the identity of the store that was backed up."""

    backup: str
    taken_at_us: int
    """Wall-clock time of the backup."""

    restored_at_us: int

    first_start: int = 0
    """Start count of the broker when it made the backup."""

    last_start: int = 0
    """Last start count that is skipped, because the broker may have used it after the backup."""
