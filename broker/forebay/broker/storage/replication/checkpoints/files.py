"""Bulk files of the newest checkpoint, for a directory that was loaded without them.

A checkpoint is replaced while files of it are fetched: the next one names most of them too, or has written a file again
without its deleted pages. A file that it does not name has no page that is needed by a broker that has applied as much
as the checkpoint has, and with it the deletion of these pages. So is a file without its deleted pages. An owner always
has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.errors import BackupError, BackupStopped
from forebay.broker.storage.backup.manifest import Piece
from forebay.broker.storage.backup.restores.files import MISSING, Files
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.replication.checkpoints.damage_notes import DamageNotes
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.loading import has_bytes
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engine import Engine, EngineError
from forebay.broker.storage.store.bulk.remote import KEPT, RemoteNotYet
from forebay.broker.storage.store.contract import Family


class CheckpointFiles:
    """A ``RemoteSource``. Any thread."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is read yet."""
        self._target: Final = engine.files()
        self._marks: Final = Marks(engine)
        self._notes: Final = DamageNotes(engine)
        self._lock: Final = threading.Lock()
        """Guards the marks, and what follows."""
        self._mark: Mark | None = None
        self._pieces: dict[str, Piece] = {}
        self.applied: Callable[[], int] = lambda: 0
        """Position up to which the directory has the journal. Any thread."""

    def fetch(self, name: str, folder: Path, stop: threading.Event) -> Path | None:
        """Write a bulk file below ``folder``; see ``RemoteSource.fetch``."""
        path = f"bulk/{name}"
        kept = folder / KEPT / name
        try:
            mark, piece = self._piece(path, after=None)
            while True:
                if (piece is None or piece.extents is not None) and mark.position > self.applied():
                    raise RemoteNotYet(
                        "a checkpoint beyond what was read of the journal has replaced it", family=Family.BULK
                    )
                if piece is None:
                    return None
                with suppress(OSError):  # it is only a copy: its disk may have lost a part of it
                    if has_bytes(kept, piece):
                        return kept
                kept.unlink(missing_ok=True)
                problem = self._written(piece, folder, stop)
                if not problem:
                    return folder / path
                before, read = mark, piece
                mark, piece = self._piece(path, after=before)
                if mark == before:
                    if problem != MISSING:  # the next checkpoint sees that it is
                        self._notes.add(read, problem)
                    raise CheckpointDamaged(mark.number, [f"{path} {problem}"])
        except (BackupError, EngineError) as error:
            raise StoreUnreadable(str(error), family=Family.BULK) from error
        except RuntimeError as error:  # no thread can be started now
            raise StoreUnreadable(f"{path}: {error}", family=Family.BULK) from error

    def _written(self, piece: Piece, folder: Path, stop: threading.Event) -> str:
        """Write a file; returns its damage, empty if there is none."""
        problems: list[str] = []

        def check(_: int) -> None:
            if stop.is_set():
                raise BackupStopped("the broker is stopping")

        check(0)
        Files(self._target, on_damage=lambda _, problem: problems.append(problem), on_part=check).write(
            [(piece, folder)]
        )
        return "".join(problems)

    def _piece(self, path: str, *, after: Mark | None) -> tuple[Mark, Piece | None]:
        """Return the newest checkpoint, and its piece with a path.

        It is looked up where none is known yet, or only ``after``.
        """
        with self._lock:
            while self._mark is None or self._mark == after:
                newest = self._marks.refresh()
                if newest is None:
                    raise BackupError("the journal has no checkpoint any more")
                if newest == self._mark:
                    break
                try:
                    manifest = load_manifest(self._target, newest)
                except FileNotFoundError as missing:
                    if self._marks.refresh() == newest:
                        raise CheckpointDamaged(newest.number, [str(missing)]) from missing
                    continue  # it was replaced meanwhile
                self._pieces = {piece.path: piece for piece in manifest.pieces}
                self._mark = newest
            return self._mark, self._pieces.get(path)
