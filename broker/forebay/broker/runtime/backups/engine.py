"""Interface of the runtime to backups in the storage.

Calls block; each docstring names the calling thread. All of them raise ``BackupFailed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from forebay.broker.core.backups.values import BackupSummary, Progress


class BackupFailed(Exception):
    """A backup, or the access to its target, failed. The text has the cause."""


class Job(Protocol):
    """One backup, step by step in this order."""

    @property
    def progress(self) -> Progress:
        """Progress up to now. Any thread."""
        ...

    def prepare(self) -> None:
        """Mark the backup as begun, and write out what the store has in memory. The backup thread."""
        ...

    def take(self) -> None:
        """Take the snapshot. The commit thread."""
        ...

    def copy_bulk(self, on_progress: Callable[[], None]) -> None:
        """Transfer the bulk files. The backup thread."""
        ...

    def copy_rest(self, on_progress: Callable[[], None]) -> None:
        """Transfer everything else. The backup thread."""
        ...

    def finish(self, seconds: Callable[[], float]) -> BackupSummary:
        """Complete the backup. The backup thread."""
        ...

    def stop(self, cause: str) -> None:
        """Let the step in progress fail soon. Any thread."""
        ...

    def remove(self) -> None:
        """Delete the snapshot, also after a failure. The backup thread."""
        ...


class Checkpointing(Protocol):
    """Checkpoints of the journal of a shard."""

    @property
    def journal(self) -> str:
        """Address of the journal, without credentials."""
        ...

    @property
    def durability(self) -> str:
        """Meaning of a confirmation of the journal, in words."""
        ...

    @property
    def position(self) -> int:
        """Next position of the journal. Any thread."""
        ...

    @property
    def epoch(self) -> int:
        """Epoch of the owner. Any thread."""
        ...

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the journal at the last ``is_due``, None before the first. Any thread."""
        ...

    @property
    def resends(self) -> int:
        """Requests of the owner that failed and were or will be repeated. Any thread."""
        ...

    @property
    def remote_bytes(self) -> int:
        """Bytes of pages that the last checkpoint has, and this broker not yet. Any thread."""
        ...

    def index(self) -> None:
        """Write an index of the journal, if it has one and it is due. The checkpoint thread."""
        ...

    def is_due(self) -> bool:
        """Return whether a checkpoint is due. The checkpoint thread."""
        ...

    def job(self, busy: Callable[[], bool]) -> Job:
        """Return a new checkpoint, which gives way while ``busy``. Any thread."""
        ...


class Engine(Protocol):
    """Backups of one store to one target."""

    @property
    def target(self) -> str:
        """Target, without credentials."""
        ...

    def job(self, *, full: bool, at_us: int, busy: Callable[[], bool]) -> Job:
        """Return a new backup, which gives way while ``busy``. Any thread."""
        ...

    def newest(self) -> BackupSummary | None:
        """Return the newest complete backup of this store. The backup thread."""
        ...

    def prune(self, now_us: int) -> int:
        """Delete backups of this store as the settings say; returns their number. The backup thread."""
        ...
