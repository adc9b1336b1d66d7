"""Errors of checkpoints, by the reaction of the caller.

BackupError
├── CheckpointOvertaken     nothing: another broker has made one
├── CheckpointDamaged       let a broker that has the data in its directory make another one
└── MarkDamaged             use a newer version, or restore the object
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.broker.storage.backup.errors import BackupError

_NAMED_MAX: Final = 10
"""Damaged files that a message names."""


class CheckpointOvertaken(BackupError):
    """Another broker has made the checkpoint of this number."""


class MarkDamaged(BackupError):
    """A mark that cannot be read, or one of a later version."""


class CheckpointDamaged(BackupError):
    """Files of a checkpoint, or its manifest, are missing or have other bytes than the checksum says."""

    def __init__(self, number: int, files: Sequence[str]) -> None:
        """Name the checkpoint and its damaged files, each with its cause."""
        named = "; ".join(files[:_NAMED_MAX])
        more = f"; and {len(files) - _NAMED_MAX} more" if len(files) > _NAMED_MAX else ""
        super().__init__(
            f"checkpoint {number} is damaged: {named}{more}. Start a broker of the shard whose directory has the data:"
            " it makes another checkpoint"
        )
        self.damage: Final = f"{named}{more}"
        """Its damaged files, each with its cause."""
