"""Import of a data directory into an empty journal, as its first checkpoint.

    1   a copy of the database is opened and recovered, as at a start; the directory itself is not changed
    2   record 0 claims the journal for the store, by its identity: no other process appends a record
    3   the copy gets the position after record 0, and is transferred, inspected and read back, like every checkpoint
    4   the mark of the checkpoint completes the import

The epoch at that position is the start count of the copy, so the epoch of the first owner is above every start count of
the directory. A broker rejects a journal after step 2 and before step 4, because it would serve an empty store. An
import that was interrupted can be run again: it recognizes its claim by the identity of the store, and its mark by the
start count.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import Progress
from forebay.broker.storage.backup.errors import BackupError, TargetFailed
from forebay.broker.storage.backup.transfer import Pace
from forebay.broker.storage.directory import SNAPSHOT
from forebay.broker.storage.errors import StoreFormatUnsupported
from forebay.broker.storage.formats import FORMATS
from forebay.broker.storage.permissions import DIRECTORY_MODE
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.repair.inspection import held, snapshot
from forebay.broker.storage.replication.checkpoints.errors import CheckpointOvertaken
from forebay.broker.storage.replication.checkpoints.growth import END
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob, Origin
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engine import Engine, EngineAway, away_of
from forebay.broker.storage.replication.followers.follower import IDENTITY_BYTES
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.moves.errors import DirectoryUnsuitable, ImportFailed, JournalOccupied
from forebay.broker.storage.replication.pieces import Pieces
from forebay.broker.storage.replication.record import Header, RecordDamaged, RecordKind, decode, encode
from forebay.broker.storage.replication.replica import put_position
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings

REMEDY: Final = (
    "serve the directory without a journal, or save it with `forebay repair --data-dir DIR --into NEW`; then import it"
)
FIRST: Final = 1
"""Position after the claim."""
_SETTINGS: Final = RocksSettings(opens_damaged=False)


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import."""

    directory: str
    journal: str
    store_id: str
    """Identity of the store, which the import does not change."""

    epoch: int
    """Epoch of the checkpoint; the owner epochs of the journal are higher."""

    sinks: int
    bytes: int
    """Bytes of the checkpoint."""

    was_complete: bool
    """True if an earlier import of the same directory was complete, so that this one did nothing."""


def import_store(
    engine: Engine,
    directory: Path,
    *,
    clock_us: Callable[[], int],
    monotonic: Callable[[], float],
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Imported:
    """Import a directory that no broker uses as the first checkpoint of an empty journal. Blocks.

    Raises ``JournalOccupied``, ``DirectoryUnsuitable``, ``StoreLocked``, ``ImportFailed``, ``EngineAway``, or another
    ``StoreError``.
    """
    with held(directory), _copied(directory) as copy, closing(_opened(copy, directory)) as store:
        if store.get_many(Family.META, [JOURNAL_POSITION.key()]) != [None]:
            raise DirectoryUnsuitable(directory, "already follows a journal: use `forebay journal export` first")
        found = recover(store)
        if found.repairs:
            lost = "; ".join(map(str, found.repairs))
            raise ImportFailed(f"the store in {directory} is damaged: {lost}; it was not imported: {REMEDY}")
        mark = _earlier(engine, found)
        was_complete = mark is not None
        if mark is None:
            mark = _import(engine, store, copy, found, clock_us, monotonic, on_progress)
    return Imported(
        str(directory), engine.address, found.store_id, mark.epoch, len(found.sinks), mark.size, was_complete
    )


@contextmanager
def _copied(directory: Path) -> Iterator[Path]:
    """Yield a copy of the directory's database that can be opened in its place; tables are hard links.

    The copy is inside the directory, so that bulk files can be hard links, too. If the process is killed, the next
    start removes the copy.
    """
    folder = directory / SNAPSHOT
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(DIRECTORY_MODE)
    try:
        snapshot(directory, folder / "import")
        yield folder / "import"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _opened(copy: Path, directory: Path) -> RocksStore:
    """Open a copy in the format of its directory; the copy is migrated, as at a start.

    Raises ``StoreError``.
    """
    (copy / "FORMAT").unlink()
    if (directory / "FORMAT").exists():
        shutil.copyfile(directory / "FORMAT", copy / "FORMAT")
    try:
        return RocksStore(copy, settings=_SETTINGS)
    except StoreFormatUnsupported as error:
        raise StoreFormatUnsupported(
            directory, found=error.found, oldest=FORMATS.oldest, supported=error.supported
        ) from error


def _earlier(engine: Engine, found: Recovered) -> Mark | None:
    """Return the first mark if an import of this store in its present state made it; None without a mark.

    Raises ``JournalOccupied`` for any other mark.
    """
    marks = Marks(engine)
    if marks.refresh() is None:
        return None
    first, record = marks.read(0), engine.read(0)
    is_own = record is not None and _claimed_for(engine, record) == found.store_id
    if first is None or not is_own or first.epoch != found.start_count:
        raise JournalOccupied(engine.address, "it has a checkpoint")
    return first


def _claimed_for(engine: Engine, record: bytes) -> str:
    """Return the identity of the store that record 0 claims the journal for. Raises ``JournalOccupied``."""
    header, body = _decoded(engine, record)
    if header.kind is not RecordKind.IMPORT:
        raise JournalOccupied(engine.address)
    return body.joined().decode(errors="replace")


def _decoded(engine: Engine, record: bytes) -> tuple[Header, Pieces]:
    try:
        return decode(record)
    except RecordDamaged as damage:
        raise JournalOccupied(engine.address, f"its record 0 cannot be read, {damage}") from damage


def _claim(engine: Engine, store_id: str) -> str:
    """Claim the journal for a store; returns the identity of the journal, as hex.

    Raises ``JournalOccupied``.
    """
    if any(position > 0 for position, _ in engine.sizes(0, END)):
        raise JournalOccupied(engine.address)
    claim = encode(Header(RecordKind.IMPORT, 0, secrets.token_bytes(IDENTITY_BYTES)), [store_id.encode()])
    engine.create(0, claim)
    record = engine.read(0)
    if record is None:
        raise EngineAway("record 0 was created but cannot be read", engine.address)
    if _claimed_for(engine, record) != store_id:
        raise JournalOccupied(engine.address, "an import of another store has begun")
    return _decoded(engine, record)[0].owner.hex()


def _import(
    engine: Engine,
    store: RocksStore,
    copy: Path,
    found: Recovered,
    clock_us: Callable[[], int],
    monotonic: Callable[[], float],
    on_progress: Callable[[Progress], None],
) -> Mark:
    journal = _claim(engine, found.store_id)
    place = ReaderPosition(FIRST, found.start_count)
    store.commit([], [put_position(journal, place)])
    job = CheckpointJob(
        engine,
        Origin(store, copy, lambda: place, lambda: journal),
        tables_of="",
        pace=Pace(monotonic),
        clock_us=clock_us,
        failed=ImportFailed,
    )
    try:
        job.run(monotonic, lambda: on_progress(job.progress))
    except ImportFailed as failure:
        if job.mark is None:
            raise _reason(engine, failure) from failure
    assert job.mark is not None
    return job.mark


def _reason(engine: Engine, failure: ImportFailed) -> Exception:
    """Return the error for a checkpoint without a mark."""
    cause = failure.__cause__
    if isinstance(cause, (EngineAway, TargetFailed)):
        return away_of(failure)
    if isinstance(cause, CheckpointOvertaken):
        return JournalOccupied(engine.address, "another import has created its first checkpoint")
    return ImportFailed(f"{failure}; it was not imported: {REMEDY}") if isinstance(cause, BackupError) else failure
