"""Job that makes a checkpoint: snapshot, transfer into the engine, verification, mark, trim.

    transfer     bulk files that the checkpoint before does not have intact, then the database, then the manifest;
                 everything where the manifest of the checkpoint before is damaged
    inspection   of the snapshot, since a damaged replica must not replace intact records
    read back    of every file that was transferred, against the manifest, and of the manifest
    mark         created last; if another broker has created the one of this number, this checkpoint is given up
    trim         of the records below it, and of the files of earlier checkpoints

It has the steps of a backup, and shares its transfer. A checkpoint that fails before the mark deletes its files. A stop
or a crash before the mark leaves files that the next checkpoint deletes; a crash after it leaves a trim that the next
checkpoint completes before it begins.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.storage.backup import transfer
from forebay.broker.storage.backup.accounts import Accounts
from forebay.broker.storage.backup.catalog import mark_started
from forebay.broker.storage.backup.engine import summary_of
from forebay.broker.storage.backup.errors import BackupError, BackupStopped
from forebay.broker.storage.backup.manifest import Manifest, Piece, manifest_name
from forebay.broker.storage.backup.snapshot import SnapshotSource
from forebay.broker.storage.backup.snapshot_copy import SnapshotCopy
from forebay.broker.storage.backup.target import Target, read_all
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.replication.checkpoints.damage_notes import delete_notes, noted
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged, CheckpointOvertaken
from forebay.broker.storage.replication.checkpoints.inspection import inspect
from forebay.broker.storage.replication.checkpoints.manifests import load_newest_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.checkpoints.trim import first_untrimmed, new_id, sweep, trim
from forebay.broker.storage.replication.engine import Engine, EngineError
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.store.bulk.file import SUFFIX as PAGES
from forebay.page.crc32 import crc32

_log: Final = logging.getLogger(__name__)
TABLES: Final = ".sst"
LIVE_LEAST: Final = 0.75
"""Share of a bulk file that has to be left for a checkpoint to share it.

Below it what is left is written again.
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """Replica that a checkpoint is made of."""

    store: SnapshotSource
    directory: Path
    place: Callable[[], ReaderPosition]
    """Place of the last applied batch. Called where ``take`` is."""

    journal: Callable[[], str]
    """Identity of the journal."""


class CheckpointJob:
    """One checkpoint, step by step; see ``runtime.backups.engine.Job``.

    ``failed`` is the class of its errors.
    """

    def __init__(
        self,
        engine: Engine,
        origin: Origin,
        *,
        tables_of: str,
        pace: transfer.Pace,
        clock_us: Callable[[], int],
        failed: type[Exception],
        renews: bool = True,
    ) -> None:
        """``tables_of`` is the last checkpoint that this process has made or loaded, whose tables it shares.

        ``renews`` is False to take over also files of the checkpoint before that were noted as damaged.
        """
        self._engine: Final = engine
        self._origin: Final = origin
        self._tables_of: Final = tables_of
        self._renews: Final = renews
        self.is_damaged = False
        """True if the store, or what was transferred of it, is damaged."""
        self._clock_us: Final = clock_us
        self._target: Target | None = None
        self._marks: Final = Marks(engine)
        self._plan: transfer.Plan | None = None
        self._place = ReaderPosition()
        self._unreadable: CheckpointDamaged | None = None
        """Damage of the manifest of the checkpoint before, with which this one shares nothing then."""
        self._may_have_mark = False
        """True from the creation of the mark on, whose outcome may be unknown."""
        self.mark: Mark | None = None
        """Mark of the complete checkpoint."""
        self.progress: Final = Progress()
        self._copy: Final = SnapshotCopy(self.progress, pace, failed=failed, also=(EngineError,))

    @property
    def _files(self) -> Target:
        if self._target is None:
            self._target = self._engine.files()
        return self._target

    def run(self, monotonic: Callable[[], float], on_progress: Callable[[], None]) -> None:
        """Make the checkpoint of a store that nothing else writes. Blocks. Raises ``failed``."""
        began = monotonic()
        try:
            self.prepare()
            self.take()
            self.copy_bulk(on_progress)
            self.finish(lambda: monotonic() - began)
        finally:
            self.remove()

    def prepare(self) -> None:
        """See ``Job.prepare``; first completes the trim of the checkpoint before."""
        with self._copy.failing():
            before = self._marks.refresh()
            parent = self._parent(before) if before is not None else None
            if before is not None and parent is not None:
                self._trim(before, parent)
            number = before.number + 1 if before is not None else 0
            suffixes = (PAGES, TABLES) if before is not None and before.id == self._tables_of else (PAGES,)
            self._plan = transfer.Plan(
                id=new_id(number, secrets.token_hex(4)),
                store_id=self._origin.journal(),
                version=version("forebay"),
                start_count=0,
                parent=parent,
                number=number,
                present=self._intact(parent) if parent is not None else None,
                fixed=suffixes,
                live_least=LIVE_LEAST,
            )
            with self._deleting_where_failed():
                mark_started(
                    self._files, self._plan.id, at_us=self._clock_us(), parent=parent.id if parent is not None else ""
                )
                self._origin.store.flush()
                self._origin.store.flush()

    def _parent(self, before: Mark) -> Manifest | None:
        """Return the manifest of the checkpoint before, None where it is damaged or missing.

        Its records are not trimmed then until there is another checkpoint: nothing that it replaces is deleted for it.
        """
        try:
            return load_newest_manifest(self._engine, self._files, before)
        except CheckpointDamaged as damage:
            self._unreadable = damage
            return None

    def _intact(self, parent: Manifest) -> frozenset[str]:
        """Return the files in the engine without those of the checkpoint before that were noted as damaged."""
        damaged = [piece.name for piece in noted(self._engine, parent)] if self._renews else []
        if damaged:
            _log.warning("damaged files of a checkpoint are written again files=%s", ",".join(damaged))
        return frozenset(self._files.names()).difference(damaged)

    def take(self) -> None:
        """See ``Job.take``."""
        with self._copy.failing():
            self._place = self._origin.place()
            self._copy.take(self._origin.store, self._origin.directory, self._clock_us()).link_bulk()

    def copy_bulk(self, on_progress: Callable[[], None]) -> None:
        """Transfer everything, and inspect the snapshot while its bulk files stay as they are.

        See ``Job.copy_bulk``.
        """
        assert self._plan is not None
        with self._copy.failing(), self._deleting_where_failed():
            files = self._copy.begin(self._plan, self._files, on_progress)
            files.copy_bulk()
            files.copy_rest()
            new = [Path(path).name for path in files.transferred if path.endswith(PAGES)]
            if damage := inspect(self._copy.snapshot.directory, new, self._copy.stopped):
                self.is_damaged = True
                raise BackupError(f"the store is damaged: {damage}")

    def copy_rest(self, on_progress: Callable[[], None]) -> None:
        """Do nothing: everything is transferred; see ``Job.copy_rest``."""

    def finish(self, seconds: Callable[[], float]) -> BackupSummary:
        """Verify the checkpoint, name it, and trim the journal; see ``Job.finish``."""
        with self._copy.failing(), self._deleting_where_failed():
            manifest = self._copy.transfer.finish(seconds, Accounts())
            self._read_back(manifest)
            mark = self._name(manifest)
            self.mark = mark
            if self._unreadable is not None:
                _log.warning(
                    "checkpoint replaced one without a readable manifest, everything was transferred journal=%s"
                    " checkpoint=%d bytes=%d cause=%s",
                    *(self._engine.address, mark.number, mark.size, self._unreadable.damage),
                )
            self._trim(mark, manifest)
            return replace(summary_of(manifest), seconds=seconds())

    def stop(self, cause: str) -> None:
        """See ``Job.stop``."""
        self._copy.stop(cause)

    def remove(self) -> None:
        """See ``Job.remove``."""
        self._copy.remove()

    @contextmanager
    def _deleting_where_failed(self) -> Iterator[None]:
        """Delete the files of this checkpoint after an error, unless it was stopped or may have its mark.

        Otherwise each attempt would leave a copy of what waits. A stop is urgent, and the next checkpoint deletes them.
        """
        try:
            yield
        except BackupStopped:
            raise
        except (StoreError, EngineError, OSError):
            if not self._may_have_mark:
                with suppress(StoreError, EngineError, OSError):
                    self._delete_files()
            raise

    def _delete_files(self) -> None:
        assert self._plan is not None
        self._files.delete(list(self._files.names(f"{self._plan.id}/")))

    def _read_back(self, manifest: Manifest) -> None:
        """Compare every file of the checkpoint with the manifest; of those of earlier ones, that they exist."""
        there = set(self._files.names())
        wrong = [f"{piece.path} is missing" for piece in manifest.pieces if piece.name not in there]
        if read_all(self._files, manifest_name(manifest.id)) != manifest.encode():
            wrong.append("its manifest has other bytes than were written")
        for piece in manifest.pieces:
            if piece.held_by == manifest.id and piece.name in there and (found := self._difference(piece)):
                wrong.append(f"{piece.path} {found}")
        if wrong:
            raise CheckpointDamaged(manifest.number, wrong)

    def _difference(self, piece: Piece) -> str:
        size = crc = 0
        for chunk in self._files.get(piece.name):
            if self._copy.stopped.is_set():
                raise BackupStopped("the checkpoint was stopped and is incomplete")
            size, crc = size + len(chunk), crc32(chunk, crc)
        return "" if (size, crc) == (piece.stored_bytes, piece.crc32) else "has other bytes than its checksum says"

    def _name(self, manifest: Manifest) -> Mark:
        """Create the mark, which completes the checkpoint. Raises ``CheckpointOvertaken``."""
        place = self._place
        mark = Mark(
            manifest.number, manifest.id, place.position, place.epoch, place.owner.hex(), place.group, manifest.size
        )
        newest = self._marks.newest
        if place.position <= (newest.position if newest is not None else 0):
            raise BackupError(f"position {place.position} is not above the checkpoint before")
        self._may_have_mark = True
        if not self._marks.add(mark) and self._marks.read(mark.number) != mark:
            self._delete_files()
            raise CheckpointOvertaken(f"another broker has made checkpoint {mark.number}")
        return mark

    def _trim(self, mark: Mark, manifest: Manifest) -> None:
        trim_journal(self._engine, self._files, self._marks, mark, manifest, self._copy.stopped)


def trim_journal(
    engine: Engine, files: Target, marks: Marks, mark: Mark, manifest: Manifest, stop: threading.Event
) -> None:
    """Delete the records below a checkpoint, and the files of earlier ones with their notes.

    Of a checkpoint without a parent it completes those of the checkpoints before, too: the damaged manifest of the one
    before has kept them from being trimmed. It may be repeated. Raises ``EngineError``, ``TargetFailed``, and
    ``TrimStopped`` when ``stop`` is set.
    """
    first = mark.number if manifest.parent else first_untrimmed(engine, mark.number)
    before = marks.read(first - 1) if first else None
    deleted = 0
    for number in range(first, mark.number + 1):
        each = mark if number == mark.number else marks.read(number)
        assert each is not None, "marks are never deleted"
        deleted += trim(engine, before.place if before is not None else ReaderPosition(), each, stop)
        before = each
    swept = sweep(files, mark, manifest)
    delete_notes(engine, mark, manifest)
    engine.reclaim(stop)
    if deleted or swept:
        _log.info(
            "journal was trimmed journal=%s checkpoint=%d position=%d records=%d files=%d",
            *(engine.address, mark.number, mark.position, deleted, swept),
        )
