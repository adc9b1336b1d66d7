"""Restore of a backup into a new data directory, and its verification.

Files are written beside the directory and checked against the manifest. The directory gets its name when all of it is
durable, so a restore that was interrupted leaves none.

A damaged file stops the restore, or its damage becomes gaps by the rules of ``repair``: `skip` takes what is readable
of the file, `remove` takes nothing of it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.storage.backup.accounts import Accounts, read_accounts
from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupDamaged, BackupError, BackupNotFound
from forebay.broker.storage.backup.manifest import Manifest, SinkAccount, manifest_name
from forebay.broker.storage.backup.restores.files import Files
from forebay.broker.storage.backup.restores.restored import RestoredSink, mark_restored
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.backup.working_folder import working_folder
from forebay.broker.storage.directory import make_directory, sync_path
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.permissions import DIRECTORY_MODE, close_to_others
from forebay.broker.storage.records.journal_position import LEAVE_JOURNAL
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.repair.command import OnProgress, no_progress, repair, verify
from forebay.broker.storage.repair.verification import PartitionReport
from forebay.broker.storage.store.rocks.store import RocksStore


class OnDamage(StrEnum):
    """Treatment of damaged files of a backup."""

    STOP = "stop"
    """Restore nothing."""

    SKIP = "skip"
    """Take the readable pages of a damaged file; the others become gaps."""

    REMOVE = "remove"
    """Take nothing of a damaged file; its pages become gaps."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Result of a restore."""

    backup: str
    directory: str
    store_id: str
    """New identity of the store."""

    taken_at_us: int
    sinks: tuple[RestoredSink, ...]
    positions: int
    """Saved positions."""

    damaged: tuple[str, ...] = ()
    """Damaged files of the backup."""

    repaired: tuple[str, ...] = ()
    """Effects of the damage."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification."""

    backup: str
    files: int
    bytes: int
    partitions: tuple[PartitionReport, ...]
    problems: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Tell whether the backup can be restored as a whole, with the accounts of its manifest."""
        return not self.problems


def restore(
    target: Target,
    manifest: Manifest,
    into: Path,
    *,
    on_damage: OnDamage,
    store_id: str,
    at_us: int,
    on_bytes: OnProgress = no_progress,
) -> RestoreReport:
    """Restore a backup into a directory that does not exist yet, or is empty.

    ``store_id`` is the new identity of the store, 16 random bytes in hexadecimal. ``on_bytes`` is called while files
    are read. Raises ``BackupDamaged``, another ``BackupError``, or ``StoreError``.
    """
    with working_folder(into, purpose="restore", suffix="restoring") as work:
        _check_free(into)
        made, damaged, repaired = _files(target, manifest, work, on_damage, on_bytes)
        store = RocksStore(made)
        try:
            recovered = recover(store)
            restored = Restored(store_id, manifest.id, manifest.taken_at_us, at_us, manifest.start_count)
            sinks = mark_restored(recovered, restored)
            # What it has no longer follows from the journal of the shard that made the backup.
            store.commit([], [LEAVE_JOURNAL])
            store.sync()
            positions = len(recovered.positions)
        finally:
            store.close()
        _check_free(into)
        close_to_others(made, is_new=True)
        made.rename(into)
        sync_path(into.absolute().parent)
    return RestoreReport(
        manifest.id, str(into), store_id, manifest.taken_at_us, sinks, positions, tuple(damaged), tuple(repaired)
    )


def _check_free(into: Path) -> None:
    if into.exists() and any(into.iterdir()):
        raise BackupError(f"{into} exists and is not empty: name a new directory")


def _files(
    target: Target, manifest: Manifest, work: Path, on_damage: OnDamage, on_bytes: OnProgress
) -> tuple[Path, list[str], list[str]]:
    """Write the files of a backup; returns their directory, the damaged files, and their repairs."""
    made = work / "data"
    damaged = fetch(target, manifest, made, keep=on_damage is OnDamage.SKIP, on_bytes=on_bytes)
    if not damaged:
        return made, [], []
    if on_damage is OnDamage.STOP:
        raise BackupDamaged(manifest.id, damaged)
    report = repair(made, work / "repaired")
    shutil.rmtree(made)
    problems = [f"{one.sink}/{one.partition}: {what}" for one in report.partitions for what in one.problems]
    return work / "repaired", damaged, [*report.damage, *problems]


def fetch(
    target: Target, manifest: Manifest, into: Path, *, keep: bool, on_bytes: OnProgress = no_progress
) -> list[str]:
    """Write the files of a backup into a new directory; returns those that are damaged, with the cause.

    With ``keep`` these are written too, as far as they were read. ``on_bytes`` is called before the first byte, and
    after each part of a file. Raises ``BackupError``.
    """
    if manifest.data_format > FORMAT:
        raise BackupError(
            f"backup {manifest.id} has data of format {manifest.data_format} and was written by Forebay "
            f"{manifest.version}; this version reads up to format {FORMAT}: use that version, or a newer one"
        )
    make_directory(into)
    into.chmod(DIRECTORY_MODE)
    make_directory(into / "bulk")
    problems: dict[str, str] = {}
    count = _Count(sum(piece.stored_bytes for piece in manifest.pieces), on_bytes)
    count(0)
    files = Files(target, on_damage=lambda piece, problem: problems.update({piece.path: problem}), on_part=count)
    files.write((piece, into) for piece in manifest.pieces)
    damaged = [f"{piece.path} {problems[piece.path]}" for piece in manifest.pieces if piece.path in problems]
    if not keep:
        for path in problems:
            (into / path).unlink(missing_ok=True)
    if damaged and manifest_name(manifest.id) not in target.names(manifest_name(manifest.id)):
        raise BackupNotFound(f"backup {manifest.id} was deleted while it was read: by prune?")
    for folder in {(into / piece.path).parent for piece in manifest.pieces if piece.extents is not None}:
        sync_path(folder)  # files with holes are not written through the target
    files.sync()
    if not (into / "FORMAT").exists():
        own = DirectoryTarget(into)
        own.put("FORMAT", [f"{manifest.data_format}\n".encode()])
        own.sync()
    return damaged


class _Count:
    """Bytes of all files that were read. For any thread."""

    def __init__(self, total: int, show: OnProgress) -> None:
        self._total: Final = total
        self._show: Final = show
        self._lock: Final = threading.Lock()  # protects ``_done``, and is held while it is shown
        self._done = 0

    def __call__(self, size: int) -> None:
        """Add the bytes of a part of a file."""
        with self._lock:
            self._done += size
            self._show(self._total, self._done)


def verify_backup(
    target: Target,
    manifest: Manifest,
    *,
    work_dir: Path | None = None,
    on_bytes: OnProgress = no_progress,
    on_partition: OnProgress = no_progress,
) -> VerifyReport:
    """Restore a backup into a temporary directory, read everything, and compare it with the manifest.

    ``on_bytes`` is called while files are read, ``on_partition`` while partitions are. Raises ``BackupError``.
    """
    with tempfile.TemporaryDirectory(prefix="forebay-verify-", dir=work_dir) as folder:
        made = Path(folder) / "data"
        problems = fetch(target, manifest, made, keep=False, on_bytes=on_bytes)
        partitions: tuple[PartitionReport, ...] = ()
        if not problems:
            try:
                report = verify(made, on_partition)
            except StoreError as error:
                problems.append(str(error))
            else:
                partitions = report.partitions
                problems += report.damage
                problems += [f"{one.sink}/{one.partition}: {what}" for one in partitions for what in one.problems]
                problems += _differences(manifest, read_accounts(made))
    return VerifyReport(manifest.id, len(manifest.pieces), manifest.size, partitions, tuple(problems))


def _differences(manifest: Manifest, found: Accounts) -> Iterator[str]:
    """Yield the differences of a restored store from the accounts of the manifest."""
    if manifest.damage:
        yield f"the store was damaged when it was backed up: {manifest.damage}"
        return
    if found.damage:
        yield f"the accounts cannot be read: {found.damage}"
        return
    in_store, in_manifest = ({one.name: one for one in each.sinks} for each in (found, manifest))
    for name in sorted({*in_store, *in_manifest}):
        stored, wanted = (_facts(each.get(name)) for each in (in_store, in_manifest))
        for fact in sorted({*stored, *wanted}):
            if stored.get(fact) != wanted.get(fact):
                yield f"{name}{fact}: {stored.get(fact)}, and {wanted.get(fact)} in the manifest"
    if found.positions != manifest.positions:
        yield f"saved positions: {found.positions}, and {manifest.positions} in the manifest"


def _facts(sink: SinkAccount | None) -> dict[str, object]:
    """Return the account of a sink by what is named in a finding; empty without a sink."""
    if sink is None:
        return {}
    facts: dict[str, object] = {" incarnation": sink.incarnation}
    for number, one in enumerate(sink.partitions):
        facts[f"/{number} offsets"] = (one.earliest, one.next_offset)
        facts[f"/{number} records"] = one.records
    facts |= {f" settled of {name}": offsets for name, offsets in sink.settled.items()}
    return facts | {f" last epoch of {name}": epoch for name, epoch in sink.epochs.items()}
