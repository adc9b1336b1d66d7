"""Manifest of a checkpoint: its load, and what a damaged one means for the next checkpoint.

The manifest of the newest checkpoint says which of its files the next one shares, and which files its trim keeps. A
broker that makes a checkpoint has all of the data in its directory. So where that manifest is damaged or missing, the
next checkpoint shares nothing, as the first one of a journal, and its trim deletes all files of earlier ones. What the
journal cannot answer, and a manifest of a later version, are no damage.
"""

from __future__ import annotations

from forebay.broker.storage.backup.errors import ManifestDamaged
from forebay.broker.storage.backup.manifest import Manifest, decode_manifest, manifest_name
from forebay.broker.storage.backup.target import Target, read_all
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engine import Engine


def load_manifest(target: Target, mark: Mark) -> Manifest:
    """Return the manifest of a checkpoint.

    Raises ``CheckpointDamaged`` or another ``BackupError``, and ``FileNotFoundError`` once it is replaced.
    """
    name = manifest_name(mark.id)
    try:
        return decode_manifest(read_all(target, name), backup=mark.id)
    except ManifestDamaged as damage:
        raise CheckpointDamaged(
            mark.number, [f"its manifest {name} has other bytes than its checksum says"]
        ) from damage


def load_newest_manifest(engine: Engine, target: Target, mark: Mark) -> Manifest:
    """Return the manifest of the newest checkpoint, whose mark was just read.

    Raises ``CheckpointDamaged`` also where it is missing, ``FileNotFoundError`` where another broker has replaced the
    checkpoint meanwhile, another ``BackupError``, or ``EngineError``.
    """
    try:
        return load_manifest(target, mark)
    except FileNotFoundError as missing:
        if Marks(engine).refresh() != mark:  # read from the beginning: the journal may have lost its marks too
            raise
        raise CheckpointDamaged(mark.number, [f"its manifest {manifest_name(mark.id)} is missing"]) from missing
