"""Errors of backups, by the reaction of the caller.

StoreError
└── BackupError                 read the text: the request or the target is not usable
    ├── BackupNotFound          name another backup, or list them
    ├── BackupDamaged           choose another backup, or say what to do with damaged pieces
    ├── ManifestDamaged         make another backup or checkpoint: the files of this one are unknown
    ├── BackupStopped           nothing: the stop was requested; `prune` deletes what was transferred
    └── TargetFailed            make the target reachable and try again
        └── TargetMissing       check the name of the target, and that its file system is mounted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.broker.storage.errors import StoreError

_NAMED_MAX: Final = 10
"""Damaged pieces that a message names."""


class BackupError(StoreError):
    """Any error of a backup."""


class BackupNotFound(BackupError):
    """The target has no such backup, or none that is complete."""


class BackupDamaged(BackupError):
    """Pieces of the backup are missing or have other bytes than its manifest says."""

    def __init__(self, backup: str, pieces: Sequence[str]) -> None:
        """Name the backup and its damaged pieces, each with its cause."""
        named = "; ".join(pieces[:_NAMED_MAX])
        more = f"; and {len(pieces) - _NAMED_MAX} more" if len(pieces) > _NAMED_MAX else ""
        super().__init__(
            f"backup {backup} is damaged: {named}{more}. Restore another one, or pass --on-damage skip or remove"
        )
        self.pieces = tuple(pieces)


class ManifestDamaged(BackupError):
    """The bytes of a manifest do not have its checksum."""


class BackupStopped(BackupError):
    """The backup was stopped before its manifest was written."""


class TargetFailed(BackupError):
    """The target could not be read or written."""


class TargetMissing(TargetFailed):
    """The directory or the bucket of the target does not exist."""

    def __init__(self, message: str, target: str) -> None:
        """``message`` names the target and says what to check."""
        super().__init__(message)
        self.target = target
