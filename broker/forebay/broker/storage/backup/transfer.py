"""Transfer of a snapshot to a target.

Bulk files go first, so that their release is held back for as short as possible. A file of the parent backup with
the same path and size is not transferred again if the target still has it: neither tables nor bulk files change
after they were written. Of a table the time of its last change is compared too: a snapshot may hold one that is not
whole yet and that no manifest names, and after a power loss its name may be used again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import Progress
from forebay.broker.storage.backup.accounts import Accounts, read_accounts
from forebay.broker.storage.backup.catalog import is_started, list_backups, mark_started, newest_of
from forebay.broker.storage.backup.errors import BackupError, BackupStopped
from forebay.broker.storage.backup.manifest import Extent, Manifest, Piece, manifest_name, piece_name
from forebay.broker.storage.backup.snapshot import Snapshot
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.failures import classified
from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.formats import FORMAT
from forebay.page.crc32 import crc32

READ_BYTES: Final = 1 << 20
PAUSE_PER_WORK: Final = 4.0
"""Pause per time of work beside appends: the transfer takes a fifth of the time then."""
PAUSE_MAX_S: Final = 0.5
_BLOCK_BYTES: Final = 512
"""Unit of ``st_blocks``."""
_TABLE: Final = ".sst"
FIXED: Final = (_TABLE, ".pages")
"""Suffixes of files that never change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A backup before its transfer."""

    id: str
    store_id: str
    version: str
    start_count: int
    parent: Manifest | None
    number: int
    """Number among the backups of the store."""

    present: frozenset[str] | None = None
    """Names in the target; None if those of the parent are known to be there."""

    fixed: tuple[str, ...] = FIXED
    """Suffixes of the files that are taken over from the parent."""

    live_least: float = 0.0
    """Least share of a file that takes up space, for it to be taken over.

    A file has holes where pages were deleted.
    """


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed of a transfer beside appends, which need the same disk and processor."""

    monotonic: Callable[[], float]
    busy: Callable[[], bool] = lambda: False
    """True while appends are committed. Called by the thread that transfers."""

    def pause_s(self, worked_s: float) -> float:
        """Return the pause after a piece of work beside appends."""
        return min(PAUSE_MAX_S, worked_s * PAUSE_PER_WORK)


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to transfer."""

    path: str
    file: Path
    size: int
    extents: tuple[Extent, ...] | None
    modified_ns: int | None

    @property
    def stored_bytes(self) -> int:
        return self.size if self.extents is None else sum(length for _, length in self.extents)


def begin(
    target: Target, *, backup: str, store_id: str, version: str, start_count: int, at_us: int, full: bool
) -> Plan:
    """Write the mark of a backup, and return its plan. Raises ``BackupError``."""
    names = frozenset(target.names())
    known = (one.manifest for one in list_backups(target, names) if one.manifest is not None)
    newest = newest_of(known, store_id)
    parent = None if full else newest
    mark_started(target, backup, at_us=at_us, parent=parent.id if parent is not None else "")
    number = newest.number + 1 if newest is not None else 1
    return Plan(
        id=backup,
        store_id=store_id,
        version=version,
        start_count=start_count,
        parent=parent,
        number=number,
        present=names,
    )


class Transfer:
    """Transfer of one snapshot, in one thread."""

    def __init__(
        self,
        plan: Plan,
        snapshot: Snapshot,
        target: Target,
        *,
        progress: Progress,
        stop: threading.Event,
        pace: Pace,
        on_progress: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._target = target
        self._progress = progress
        self._stop = stop
        self._pace = pace
        self._on_progress = on_progress
        known = plan.parent.pieces if plan.parent is not None else ()
        self._known = {
            piece.path: piece
            for piece in known
            if piece.path.endswith(plan.fixed) and (plan.present is None or piece.name in plan.present)
        }
        self._pieces: list[Piece] = []
        self._buffer = bytearray(READ_BYTES)
        rest = list(snapshot.files())
        self._bulk = self._to_transfer((f"bulk/{file.name}", file) for file in snapshot.bulk)
        self._rest = self._to_transfer(rest)
        progress.backup, progress.parent = plan.id, plan.parent.id if plan.parent is not None else ""
        progress.files = len(self._bulk) + len(self._rest)
        progress.bytes = sum(one.stored_bytes for one in (*self._bulk, *self._rest))

    def copy_bulk(self) -> None:
        """Transfer the bulk files. Raises ``BackupError``, also ``BackupStopped``."""
        for source in self._bulk:
            self._copy(source)

    def copy_rest(self) -> None:
        """Transfer everything else. Raises ``BackupError``, also ``BackupStopped``."""
        for source in self._rest:
            self._copy(source)

    @property
    def transferred(self) -> list[str]:
        """Paths of the files to transfer."""
        return [source.path for source in (*self._bulk, *self._rest)]

    def finish(self, seconds: Callable[[], float], accounts: Accounts | None = None) -> Manifest:
        """Read the accounts and write the manifest, which completes the backup. Raises ``StoreError``."""
        accounts = read_accounts(self._snapshot.directory) if accounts is None else accounts
        plan = self._plan
        if not is_started(self._target, plan.id):
            raise BackupError(
                f"backup {plan.id} was deleted before it was complete: was it pruned as an abandoned one?"
            )
        self._target.sync()
        manifest = Manifest(
            id=plan.id,
            store_id=plan.store_id,
            version=plan.version,
            data_format=FORMAT,
            start_count=plan.start_count,
            taken_at_us=self._snapshot.taken_at_us,
            pieces=tuple(sorted(self._pieces, key=lambda piece: piece.path)),
            sinks=accounts.sinks,
            positions=accounts.positions,
            parent=plan.parent.id if plan.parent is not None else "",
            seconds=seconds(),
            damage=accounts.damage,
            number=plan.number,
        )
        self._check_stop()
        self._target.put(manifest_name(plan.id), [manifest.encode()])
        self._target.sync()
        return manifest

    def _to_transfer(self, files: Iterator[tuple[str, Path]] | list[tuple[str, Path]]) -> list[_Source]:
        """Return the files to transfer, and take over those that the parent has."""
        plan = self._plan
        wanted: list[_Source] = []
        for path, file in files:
            try:
                found = file.stat()
            except FileNotFoundError:
                continue  # all of it was deleted before the snapshot
            modified_ns = found.st_mtime_ns if path.endswith(_TABLE) else None
            known = self._known.get(path)
            used = found.st_blocks * _BLOCK_BYTES
            if (
                known is not None
                and known.size == found.st_size
                and known.modified_ns in (None, modified_ns)
                and used >= plan.live_least * known.stored_bytes
            ):
                self._pieces.append(known)
                self._progress.reused_bytes += known.stored_bytes
                continue
            extents = _extents(file, found.st_size) if used < found.st_size else None
            wanted.append(_Source(path, file, found.st_size, extents, modified_ns))
        return wanted

    def _copy(self, source: _Source) -> None:
        self._check_stop()
        summed = [0]
        name = piece_name(self._plan.id, source.path)
        self._target.put(name, self._chunks(source, summed))
        piece = Piece(source.path, source.size, summed[0], self._plan.id, source.extents, source.modified_ns)
        self._pieces.append(piece)
        self._progress.files_done += 1
        self._on_progress()

    def _chunks(self, source: _Source, summed: list[int]) -> Iterator[memoryview]:
        """Yield the stored bytes of a file, and add them to a checksum."""
        buffer = memoryview(self._buffer)
        with classified("read"):
            handle = os.open(source.file, os.O_RDONLY)
        try:
            for first, length in ((0, source.size),) if source.extents is None else source.extents:
                at, end = first, first + length
                while at < end:
                    self._check_stop()
                    began = self._pace.monotonic()
                    with classified("read"), naming(source.file):
                        count = os.preadv(handle, [buffer[: min(READ_BYTES, end - at)]], at)
                    if not count:
                        raise BackupError(f"{source.file} ended at byte {at} of {source.size} while it was read")
                    summed[0] = crc32(buffer[:count], summed[0])
                    yield buffer[:count]
                    at += count
                    self._progress.bytes_done += count
                    self._on_progress()
                    if self._pace.busy():
                        self._stop.wait(self._pace.pause_s(self._pace.monotonic() - began))
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise BackupStopped("the backup was stopped and is incomplete")


def _extents(file: Path, size: int) -> tuple[Extent, ...]:
    """Return the ranges of a file that are no holes."""
    found: list[Extent] = []
    handle = os.open(file, os.O_RDONLY)
    try:
        at = 0
        while at < size:
            try:
                first = os.lseek(handle, at, os.SEEK_DATA)
            except OSError:
                break  # nothing but a hole is left
            at = os.lseek(handle, first, os.SEEK_HOLE)
            found.append((first, at - first))
    finally:
        os.close(handle)
    return tuple(found)
