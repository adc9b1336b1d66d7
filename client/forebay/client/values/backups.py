"""Values of backups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """Progress of a backup."""

    id: str
    parent: str
    """Backup that it is incremental to; empty for a full one."""

    files: int
    """Number of files to transfer."""

    files_done: int
    bytes: int
    """Number of bytes to transfer."""

    bytes_done: int
    reused_bytes: int
    """Number of bytes that an earlier backup has transferred."""


@dataclass(frozen=True, slots=True)
class Backup:
    """Complete backup of a broker."""

    id: str
    parent: str
    """Backup that it is incremental to; empty for a full one."""

    taken_at: datetime
    """Instant of its data."""

    bytes: int
    """Number of bytes that a restore reads."""

    transferred_bytes: int
    files: int
    sinks: int
    duration_s: float
    stall_s: float
    """Time for which the snapshot held back appends; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class BackupStatus:
    """Backups of a running broker."""

    target: str
    """Target of its settings; empty for none."""

    interval_s: float
    """Interval between scheduled backups; 0 for none."""

    newest: Backup | None
    """Newest complete backup, if one is known."""

    progress: BackupProgress | None
    """Backup in progress."""

    failures: int
    """Backups that failed since the broker started."""

    last_failure: str
    """Cause of the last failure; empty after a success."""
