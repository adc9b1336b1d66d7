"""Load of a checkpoint into the directory of a broker that is new, or too far behind the journal.

    loading/db     the database until it is complete
    loading/kept   bulk files of before, which are compared before they are used again
    replaced/      the database that is replaced, on its way out

The database is renamed into its place last. A directory without one is loaded again, whatever else is in it: a crash in
between costs the files that were not complete. Bulk files that are there already, with the bytes of the checkpoint,
are kept.

A broker that wants to serve soon loads the rest alone: its bulk files are remote then, see ``store.bulk.remote``.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from enum import StrEnum
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.errors import BackupError, BackupStopped, TargetFailed
from forebay.broker.storage.backup.manifest import Piece
from forebay.broker.storage.backup.restores.files import MISSING, Files
from forebay.broker.storage.backup.target import CHUNK_BYTES
from forebay.broker.storage.directory import StoreDirectory, make_directory, sync_path
from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.repair.last_check import FILE as VERIFIED
from forebay.broker.storage.replication.checkpoints.damage_notes import DamageNotes
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engine import Engine, away_of
from forebay.broker.storage.store.bulk.file import SUFFIX as PAGES
from forebay.broker.storage.store.bulk.remote import KEPT, LOADING
from forebay.broker.storage.store.bulk.remote_list import NAME as REMOTE
from forebay.broker.storage.store.bulk.remote_list import write_list
from forebay.page.crc32 import crc32

_log: Final = logging.getLogger(__name__)
REPLACED: Final = "replaced"
COUNTS: Final = ("accepted", "delivered", "synced", VERIFIED)
"""Files about the data that were in the directory before."""


def is_loaded(directory: Path) -> bool:
    """Return whether a directory has a database."""
    return (directory / "db" / "CURRENT").exists()


class Pages(StrEnum):
    """Treatment of the bulk files of a checkpoint."""

    NOW = "now"
    LATER = "later"
    """They are listed as remote files."""

    NEVER = "never"
    """The directory has none, and is only read for what else it has."""


def load(engine: Engine, mark: Mark, directory: Path, stop: threading.Event, *, pages: Pages = Pages.NOW) -> None:
    """Replace the store in a directory with a checkpoint.

    Raises ``BackupStopped`` when ``stop`` is set, ``FileNotFoundError`` where the checkpoint was replaced by a newer
    one meanwhile, ``BackupDamaged``, ``TargetFailed``, or another ``StoreError``.
    """
    target = engine.files()
    manifest = load_manifest(target, mark)
    if manifest.data_format != FORMAT:
        raise BackupError(
            f"checkpoint {mark.number} has data of format {manifest.data_format} and was written by Forebay "
            f"{manifest.version}; this version reads format {FORMAT}: use that version"
        )
    held = StoreDirectory(directory)
    try:
        _log.info("loading a checkpoint checkpoint=%d position=%d bytes=%d", mark.number, mark.position, mark.size)
        _clear(directory)
        bulk = directory / "bulk"
        sizes = {Path(piece.path).name: piece.stored_bytes for piece in manifest.pieces if piece.path.endswith(PAGES)}
        kept = bulk
        if pages is Pages.LATER and sizes:
            kept = directory / LOADING / KEPT
            make_directory(kept)
            write_list(directory, sizes)
        held.mark_incomplete(is_incomplete=kept != bulk)
        for path in bulk.iterdir():
            if path.name not in sizes:
                path.unlink()
            elif kept != bulk:
                path.rename(kept / path.name)

        def is_wanted(piece: Piece, into: Path) -> bool:
            if stop.is_set():
                raise BackupStopped("the broker is stopping")
            return not (piece.path.endswith(PAGES) and has_bytes(into / piece.path, piece))

        def refuse(piece: Piece, problem: str) -> None:
            if problem == MISSING:
                raise FileNotFoundError(f"{piece.path} of checkpoint {manifest.id} is missing")
            DamageNotes(engine).add(piece, problem)
            raise CheckpointDamaged(manifest.number, [f"{piece.path} {problem}"])

        files = Files(target, on_damage=refuse, is_wanted=is_wanted)
        files.write(
            (piece, directory / LOADING if piece.path.startswith("db/") else directory)
            for piece in manifest.pieces
            if piece.path != "FORMAT" and (pages is Pages.NOW or not piece.path.endswith(PAGES))
        )
        files.sync()
        sync_path(bulk)
        held.database.rmdir()
        (directory / LOADING / "db").rename(held.database)
        sync_path(directory)
        if kept == bulk:
            (directory / LOADING).rmdir()
    finally:
        held.release()
    _log.warning("loaded a checkpoint checkpoint=%d position=%d bytes=%d", mark.number, mark.position, mark.size)


def load_newest(
    engine: Engine, marks: Marks, directory: Path, stop: threading.Event, *, pages: Pages = Pages.NOW
) -> Mark | None:
    """Replace the store in a directory with the newest checkpoint; returns its mark.

    Returns None if there is none. Raises ``EngineAway``, and otherwise as ``load`` does.
    """
    while (mark := marks.refresh()) is not None:
        try:
            load(engine, mark, directory, stop, pages=pages)
        except FileNotFoundError as missing:
            if marks.refresh() == mark:
                raise CheckpointDamaged(mark.number, [str(missing)]) from missing
        except TargetFailed as failure:
            raise away_of(failure) from failure
        else:
            return mark
    return None


def _clear(directory: Path) -> None:
    """Remove the database, and what belongs to it, durably before anything else changes."""
    replaced, loading = directory / REPLACED, directory / LOADING
    shutil.rmtree(replaced, ignore_errors=True)
    (directory / "db").rename(replaced)
    sync_path(directory)
    shutil.rmtree(replaced)
    if (loading / KEPT).is_dir():  # only now: beside a database, a file in the folder counts as complete
        for path in (loading / KEPT).iterdir():
            if not (directory / "bulk" / path.name).exists():
                path.rename(directory / "bulk" / path.name)
    shutil.rmtree(loading, ignore_errors=True)
    for name in COUNTS:
        (directory / name).unlink(missing_ok=True)
    (directory / REMOTE).unlink(missing_ok=True)
    make_directory(directory / "db")
    make_directory(directory / LOADING / "db")


def has_bytes(path: Path, piece: Piece) -> bool:
    """Return whether a file has the bytes of a piece."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if os.fstat(handle).st_size != piece.size:
            return False
        crc = 0
        for first, length in ((0, piece.size),) if piece.extents is None else piece.extents:
            at, end = first, first + length
            while at < end:
                chunk = os.pread(handle, min(CHUNK_BYTES, end - at), at)
                if not chunk:
                    return False
                crc, at = crc32(chunk, crc), at + len(chunk)
        return crc == piece.crc32
    finally:
        os.close(handle)
