"""Backups of an open store, as the runtime asks for them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.storage.backup import catalog, transfer
from forebay.broker.storage.backup.manifest import Manifest
from forebay.broker.storage.backup.snapshot import SnapshotSource, check_complete
from forebay.broker.storage.backup.snapshot_copy import SnapshotCopy, failing
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.backup.targets import open_target


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """Target and retention of the backups of a broker."""

    target: str
    keep_last: int
    keep_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Store that is backed up."""

    store: SnapshotSource
    directory: Path
    store_id: str
    start_count: int
    version: str


class StoreBackups:
    """See ``runtime.backups.engine.Engine``. ``failed`` is the class of its errors."""

    def __init__(
        self,
        origin: Origin,
        settings: BackupSettings,
        clock_us: Callable[[], int],
        monotonic: Callable[[], float],
        *,
        failed: type[Exception],
    ) -> None:
        self._origin: Final = origin
        self._settings: Final = settings
        self._clock_us = clock_us
        self._monotonic = monotonic
        self._failed = failed
        self._opened: Target | None = None

    @property
    def target(self) -> str:
        """Text of the target."""
        return self._settings.target

    def job(self, *, full: bool, at_us: int, busy: Callable[[], bool]) -> StoreBackup:
        """Return a new backup."""
        return StoreBackup(
            self._origin,
            self._open,
            backup=catalog.new_id(at_us, secrets.token_hex(4)),
            at_us=at_us,
            full=full,
            clock_us=self._clock_us,
            pace=transfer.Pace(self._monotonic, busy),
            failed=self._failed,
        )

    def newest(self) -> BackupSummary | None:
        """Return the newest complete backup of this store."""
        with failing(self._failed):
            found = [one.manifest for one in catalog.list_backups(self._open()) if one.manifest is not None]
        newest = catalog.newest_of(found, self._origin.store_id)
        return summary_of(newest) if newest is not None else None

    def prune(self, now_us: int) -> int:
        """Delete old backups of this store; returns their number."""
        with failing(self._failed):
            pruned = catalog.prune(
                self._open(),
                now_us=now_us,
                keep_last=self._settings.keep_last,
                keep_days=self._settings.keep_days,
                store_id=self._origin.store_id,
            )
        return len(pruned.backups)

    def _open(self) -> Target:
        if self._opened is None:
            self._opened = open_target(self._settings.target)
        return self._opened


class StoreBackup:
    """See ``runtime.backups.engine.Job``."""

    def __init__(
        self,
        origin: Origin,
        target: Callable[[], Target],
        *,
        backup: str,
        at_us: int,
        full: bool,
        clock_us: Callable[[], int],
        pace: transfer.Pace,
        failed: type[Exception],
    ) -> None:
        self._origin = origin
        self._target = target
        self._backup = backup
        self._at_us = at_us
        self._full = full
        self._clock_us = clock_us
        self._plan: transfer.Plan | None = None
        self.progress = Progress(backup=backup)
        self._copy = SnapshotCopy(self.progress, pace, failed=failed)

    def prepare(self) -> None:
        """See ``Job.prepare``."""
        origin = self._origin
        with self._copy.failing():
            check_complete(origin.store)
            self._plan = transfer.begin(
                self._target(),
                backup=self._backup,
                store_id=origin.store_id,
                version=origin.version,
                start_count=origin.start_count,
                at_us=self._at_us,
                full=self._full,
            )
            origin.store.flush()
            origin.store.flush()  # of what came in during the first

    def take(self) -> None:
        """See ``Job.take``."""
        with self._copy.failing():
            self._copy.take(self._origin.store, self._origin.directory, self._clock_us())

    def copy_bulk(self, on_progress: Callable[[], None]) -> None:
        """See ``Job.copy_bulk``."""
        assert self._plan is not None
        with self._copy.failing():
            self._copy.begin(self._plan, self._target(), on_progress).copy_bulk()

    def copy_rest(self, on_progress: Callable[[], None]) -> None:
        """See ``Job.copy_rest``."""
        with self._copy.failing():
            self._copy.transfer.copy_rest()

    def finish(self, seconds: Callable[[], float]) -> BackupSummary:
        """See ``Job.finish``."""
        with self._copy.failing():
            return summary_of(self._copy.transfer.finish(seconds))

    def stop(self, cause: str) -> None:
        """See ``Job.stop``."""
        self._copy.stop(cause)

    def remove(self) -> None:
        """See ``Job.remove``."""
        self._copy.remove()


def summary_of(manifest: Manifest) -> BackupSummary:
    """Return the summary of a complete backup."""
    return BackupSummary(
        id=manifest.id,
        parent=manifest.parent,
        taken_at_us=manifest.taken_at_us,
        size=manifest.size,
        transferred_bytes=manifest.transferred_bytes,
        files=len(manifest.pieces),
        sinks=len(manifest.sinks),
        seconds=manifest.seconds,
    )
