"""Values of backups that the runtime and the storage share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Progress of one backup. Written by the thread that transfers, read by any."""

    backup: str = ""
    parent: str = ""
    """Backup that it is incremental to; empty for a full one."""

    files: int = 0
    """Files to transfer."""

    files_done: int = 0
    bytes: int = 0
    """Bytes to transfer."""

    bytes_done: int = 0
    reused_bytes: int = 0
    """Bytes that an earlier backup has transferred already."""


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """A complete backup."""

    id: str
    parent: str
    """Backup that it is incremental to; empty for a full one."""

    taken_at_us: int
    """Instant of its snapshot, by the wall clock."""

    size: int
    """Bytes that a restore reads."""

    transferred_bytes: int
    files: int
    sinks: int
    seconds: float
    stall_s: float = 0.0
    """Time for which the snapshot held back the commits; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Restore that a store comes from."""

    store_id: str
    """Identity of the store since then. Pages carry that of the store that was backed up."""

    backup: str
    taken_at_us: int
    """Instant of the backup, by the wall clock."""

    restored_at_us: int

    first_start: int = 0
    """Start of the broker that made the backup."""

    last_start: int = 0
    """Last of the starts that are left out: those after the backup, of which nothing is known."""
