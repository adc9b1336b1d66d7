"""Store on disk: RocksDB, and bulk files. Only this folder uses RocksDB.

Observed properties of rocksdict 0.3.29 (RocksDB 9.8) that this module relies on:

- ``flush_wal(True)`` lets other threads run during the sync, a synced write does not. So batches are
  written without a sync, and synced after.
- ``compact_range`` reports no error. One that meets a wrong checksum makes every later write fail, after
  each start again. So values that carry a checksum of their own get none from RocksDB: damaged values can
  still be dropped.
- ``ReadOptions.set_iterate_lower_bound`` sets the upper bound. Neither keeps a reference to its key.
- A database is closed only when every object made from it is freed, closed or not.
- A database does not open when one table of it cannot, unless its checks are relaxed: then that table cannot be read,
  and the rest can.
- A damaged log is read up to the damage, without an error: see ``synced``.
"""

from __future__ import annotations

import gc
import logging
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from rocksdict import (
    Cache,
    Checkpoint,
    CompactOptions,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from forebay.broker.storage.directory import StoreDirectory
from forebay.broker.storage.errors import StoreCorrupt, StoreError, StoreFailed, StoreShortage, StoreUnreadable
from forebay.broker.storage.failures import Action, classified, is_lost_sector
from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.formats import FORMATS, Formats, migrate
from forebay.broker.storage.store.bulk.files import BulkFiles
from forebay.broker.storage.store.bulk.remote import LOADING, RemoteFiles, RemoteSource
from forebay.broker.storage.store.bulk.remote_list import NAME as LIST
from forebay.broker.storage.store.bulk.remote_list import read_list
from forebay.broker.storage.store.contract import (
    Delete,
    DeleteRange,
    Family,
    Marks,
    Operation,
    Put,
    PutAll,
    Value,
    WriteStall,
    check_ingest,
    check_range,
    check_scan,
)
from forebay.broker.storage.store.key_ranges import KeyRanges
from forebay.broker.storage.store.open_files import SpareFiles, ensure_open_files
from forebay.broker.storage.store.read_retries import SHORTAGE_DELAYS_S, START_READ_DELAYS_S, patiently
from forebay.broker.storage.store.rocks.checkpoint import link_checkpoint
from forebay.broker.storage.store.rocks.deletions import BulkDeletions, stored_deletions
from forebay.broker.storage.store.rocks.families import copied, generations, make_families, next_generation
from forebay.broker.storage.store.rocks.options import database_options, family_options
from forebay.broker.storage.store.rocks.stalls import PROPERTY, stall_s
from forebay.broker.storage.store.rocks.synced import Note, SyncMark
from forebay.broker.storage.store.settings import RocksSettings
from forebay.broker.storage.usage import Usage

_log: Final = logging.getLogger(__name__)
_SPARE_FILES: Final = 8
"""Descriptors kept for the files that RocksDB opens while it writes."""


class RocksStore:
    """A ``Store`` in a directory that it owns while it is open."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: RocksSettings | None = None,
        formats: Formats = FORMATS,
        remote: RemoteSource | None = None,
    ) -> None:
        """Open the store in ``directory``: create it where there is none, migrate an older format.

        ``remote`` has the files that an incomplete directory lacks: they are fetched from now on.
        Raises ``StoreLocked``, ``StoreFormatUnsupported``, ``StoreFilesLimited``, ``StoreCorrupt``,
        ``StoreNoSpace``, ``StoreUnreadable`` or ``StoreFailed``.
        """
        settings = settings or RocksSettings()
        self._usage: Final = Usage()
        self._unreadable_is_damage: Final = settings.unreadable_is_damage
        self._fenced_by: BaseException | None = None
        self._remote: RemoteFiles | None = None
        with ExitStack() as undo:  # an open that failed may be repeated while its error is still known
            self._spare: Final = SpareFiles(_SPARE_FILES)
            undo.callback(self._spare.close)
            ensure_open_files(settings.open_tables_max + settings.open_bulk_max + settings.open_files_beside)
            with classified("open"):
                self._directory = StoreDirectory(directory, formats=formats)
            undo.callback(self._directory.release)
            if self._directory.is_incomplete and remote is None and not settings.opens_incomplete:
                raise StoreFailed(
                    "open",
                    f"some pages of {directory} are in the journal of its shard only: start the broker with this "
                    "journal, which reads them",
                )
            undo.callback(gc.collect)
            if not settings.unreadable_is_damage:
                patiently(self._read_logs, START_READ_DELAYS_S, passing=StoreUnreadable)
            self._open(settings)
            undo.callback(self._close_database)
            with classified("open"):
                self._synced = SyncMark(self._directory.synced)
                undo.callback(self._synced.close)
                if not self._directory.is_incomplete:
                    self._remove_list()  # a process ended between this and the note
                elif remote is not None:
                    self._remote = RemoteFiles(
                        directory,
                        remote,
                        read_list(directory),
                        on_arrival=lambda path: self._bulk.arrived(path, self._deletions.ranges),
                        on_needless=self._unlist,
                        on_complete=self._complete,
                    )
                self._bulk: Final = BulkFiles(
                    self._directory.bulk, open_max=settings.open_bulk_max, remote=self._remote
                )
                undo.callback(self._bulk.close)
            stored = patiently(self._stored_deletions, START_READ_DELAYS_S, passing=StoreUnreadable)
            self._deletions: Final = BulkDeletions(self._database, self._handles[Family.BULK], self._bulk, stored)
            undo.pop_all()
        missing = self._synced.found.sequence - self._database.latest_sequence_number()
        self._marks = self._synced.found.marks
        if missing > 0:
            _log.error("synced writes were lost, the log is damaged directory=%s writes=%d", directory, missing)
        try:
            migrate(self, self._directory, formats, time.monotonic)
        except BaseException:
            self.close()
            raise
        if self._remote is not None:
            self._remote.start()

    def _read_logs(self) -> None:
        """Read the logs once before RocksDB does, which takes a read error of its log for the log's end."""
        for path in sorted(self._directory.database.glob("*.log")):
            with classified("read"), naming(path), path.open("rb", buffering=0) as log:
                while log.read(1 << 20):
                    pass

    def _unlist(self, path: Path) -> None:
        self._bulk.needless(path)

    def _complete(self) -> None:
        """Note that no file is remote any more; the next start does it where that fails."""
        try:
            self._bulk.sync_names()
            self._directory.mark_incomplete(is_incomplete=False)
            self._remove_list()
        except OSError as error:
            _log.warning("directory is complete, which could not be noted cause=%s", error)
            return
        _log.info("all pages of the checkpoint are here directory=%s", self._directory.path)

    def _remove_list(self) -> None:
        """Remove the list of remote files of a complete directory, and what their transfer has left.

        Raises ``OSError``.
        """
        if (self._directory.path / LIST).exists():
            shutil.rmtree(self._directory.path / LOADING, ignore_errors=True)
            (self._directory.path / LIST).unlink()

    def _stored_deletions(self) -> KeyRanges:
        return stored_deletions(self._families[Family.BULK], unreadable_is_damage=self._unreadable_is_damage)

    def _open(self, settings: RocksSettings) -> None:
        """Open the database, and if a table cannot be read, all but that table."""
        try:
            self._open_database(settings, strict=True)
        except StoreCorrupt as damage:
            gc.collect()
            if not settings.opens_damaged:
                raise
            self._open_database(settings, strict=False)
            _log.error("table could not be read, its pages are lost cause=%s", damage)

    def _open_database(self, settings: RocksSettings, *, strict: bool) -> None:
        path = self._directory.database
        with classified("open", directory=self._directory.path):
            self._cache = Cache(settings.block_cache_bytes)
            options = database_options(settings)
            options.set_paranoid_checks(strict)
            if not (path / "CURRENT").exists():
                make_families(path, options, self._cache)
            self._names, unfinished = generations(Rdict.list_cf(str(path), options))
            names = {name: family for family, name in self._names.items()}
            names.update({name: Family(name.partition(".")[0]) for name in unfinished})
            families = {name: family_options(family, self._cache) for name, family in names.items()}
            self._database = Rdict(str(path), options, families)
            for name in unfinished:
                self._database.drop_column_family(name)
            self._families = {family: self._database.get_column_family(self._names[family]) for family in Family}
            self._handles = {family: self._database.get_column_family_handle(self._names[family]) for family in Family}

    def commit(
        self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation], *, sync: bool = True
    ) -> None:
        """Ingest, write and sync; see ``Store.commit``."""
        self.ingest(bulk)
        self.write(operations)
        if sync:
            self.sync()

    def window(self) -> None:
        """Return None; see ``Store.window``."""
        return

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Add ``items`` to ``BULK`` as one durable file; see ``Store.ingest``."""
        check_ingest(items, self._bulk.highest)
        with self._changing("ingest"):
            if items:
                self._add_bulk(items)

    def _add_bulk(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Write a file; appends wait for it while descriptors or memory are short."""

        def add() -> None:
            with classified("ingest"):
                self._bulk.add(items)

        try:
            patiently(add, SHORTAGE_DELAYS_S, passing=StoreShortage)
        except StoreShortage as shortage:
            raise StoreFailed("ingest", f"{shortage.reason}, and that did not pass") from shortage

    def write(self, operations: Sequence[Operation]) -> None:
        """Apply one batch, durable with the next ``sync``; see ``Store.write``."""
        with self._changing("write"):
            if not operations:
                return
            batch = WriteBatch(raw_mode=True)
            handles = self._handles
            bulk: list[tuple[bytes, bytes]] = []
            for operation in operations:
                if type(operation) is Put:  # most of them are
                    batch.put(operation.key, operation.value, handles[operation.family])
                    continue
                match operation:
                    case PutAll(family, found, values):
                        put, handle = batch.put, handles[family]
                        for key, value in zip(found, values, strict=True):
                            put(key, value, handle)
                    case Delete(Family.BULK, key):
                        bulk.append((key, key + b"\0"))
                    case DeleteRange(Family.BULK, first, end):
                        bulk.append((first, end))
                    case Delete(family, key):
                        batch.delete(key, handles[family])
                    case DeleteRange(family, first, end):
                        batch.delete_range(first, end, handles[family])
            self._wait_for_descriptors()
            if bulk:
                self._deletions.write(batch, bulk)
            else:
                self._database.write(batch)

    def is_ready(self) -> bool:
        """Return True if there is a free descriptor; see ``Store.is_ready``."""
        return self._spare.has_room()

    def _wait_for_descriptors(self) -> None:
        """Wait until the process has a free descriptor: RocksDB needs some for a new log or table.

        Without one its write fails, and then its handle is unusable. The spare descriptors are released for it.
        """

        def check() -> None:
            if not self._spare.has_room():
                raise StoreShortage("write", "too many open files")

        try:
            patiently(check, SHORTAGE_DELAYS_S, passing=StoreShortage)
        except StoreShortage:
            return  # it may need none: the write itself decides
        self._spare.restore()

    def sync(self) -> None:
        """Make every batch durable; see ``Store.sync``."""
        with self._changing("sync"):
            sequence = self._database.latest_sequence_number()  # other threads write meanwhile
            self._database.flush_wal(True)
            self._synced.note(sequence, self._marks)

    def remove_bulk_from(self, first: bytes) -> None:
        """Remove the bulk files with no key below ``first``, which no batch names. Raises ``StoreFailed``."""
        with self._changing("ingest"):
            self._bulk.remove_from(first)

    def mark(self, marks: Marks) -> None:
        """Keep two numbers beside the log; see ``Store.mark``."""
        self._marks = marks

    def marked(self) -> Marks:
        """Return the marks of the last process; see ``Store.marked``."""
        return self._synced.found.marks

    def marked_now(self) -> Marks:
        """Return the marks of this process."""
        return self._marks

    def deleted_bulk(self) -> list[tuple[bytes, bytes]]:
        """Return the deleted ranges of keys in files that still exist."""
        return list(self._deletions.ranges)

    def is_replica(self) -> bool:
        """Return False; see ``Store.is_replica``."""
        return False

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """Rewrite a family without its unreadable part; see ``Store.rewrite``."""
        if family is Family.BULK:
            raise ValueError("the files of the bulk family are never written again")
        with self._changing("write"):
            old, name = self._families[family], self._names[family]

            def alone(key: bytes) -> bytes | None:
                try:
                    return self.get_many(family, [key])[0]
                except StoreCorrupt:
                    return None

            later = next_generation(name)
            try:
                broken = (StoreCorrupt, StoreUnreadable) if self._unreadable_is_damage else (StoreCorrupt,)
                made, lost = copied(self._database, old, later, family, self._cache, wanted, alone, broken)
            except StoreUnreadable:
                self._database.drop_column_family(later)  # nothing was changed
                raise
            self._families[family], self._names[family] = made, later
            self._handles[family] = self._database.get_column_family_handle(later)
            self._database.drop_column_family(name)
            return lost

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values in the order of ``keys``; see ``Store.get_many``.

        Blocks other threads only while it copies the values, not while it reads them.
        """
        with self._calling("read", family):
            if family is Family.BULK:
                found = self._bulk.read(keys, self._deletions.ranges)
                deleted = (
                    self._deletions.ranges
                )  # the space of keys deleted meanwhile may have been released during the read
                return [None if key in deleted else value for key, value in zip(keys, found, strict=True)]
            table = self._families[family]
            try:
                with classified("read", family):
                    return list(table.get(list(keys)) or ())
            except StoreCorrupt:
                for key in keys:  # only a read of a single key names the damaged one
                    with classified("read", family, key=key):
                        table.get([key])
                raise

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Prefetch bulk values; see ``Store.prefetch``."""
        with self._calling("read", Family.BULK):
            self._bulk.prefetch(keys, self._deletions.ranges)

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        """Return whether one of these values is in a remote file; see ``Store.is_remote``."""
        return self._bulk.is_remote(keys)

    def end_transfers(self) -> None:
        """Let readers that wait for remote files fail; see ``Store.end_transfers``."""
        if self._remote is not None:
            self._remote.stop()

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return a bounded slice; see ``Store.scan``. Blocks other threads while it runs."""
        check_scan(first, end, limit)
        if first == end:
            return []
        with self._calling("read", family):
            if family is Family.BULK:
                keys = list(islice(self._bulk.keys(first, end, self._deletions.ranges, reverse=reverse), limit))
                values = self._bulk.read(keys, self._deletions.ranges)
                return [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
            options = ReadOptions()
            options.set_iterate_upper_bound(end)  # the local name keeps it alive, the options do not
            iterator = self._families[family].iter(options)
            iterator.seek(first)
            entries: list[tuple[bytes, bytes]] = []
            if not reverse:
                while iterator.valid() and len(entries) < limit:
                    entries.append((iterator.key(), iterator.value()))
                    iterator.next()
            elif iterator.valid():
                # The lowest key ends it: a step further could cross all that was deleted below.
                lowest = iterator.key()
                iterator.seek_to_last()
                while iterator.valid():
                    entries.append((iterator.key(), iterator.value()))
                    if len(entries) == limit or entries[-1][0] <= lowest:
                        break
                    iterator.prev()
            iterator.status()
            return entries

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        """Release deleted space; see ``Store.compact``.

        RocksDB keeps a log as long as a family has unflushed writes in it. So after small values the other families,
        which are smaller, are flushed too.
        """
        check_range(first, end)
        if first == end:
            return
        with self._calling("compact", family):
            self._refuse_fenced("compact")
            if family is Family.BULK:
                failure = self._bulk.compact(first, end, self._deletions.ranges)
                self._deletions.clear()  # not if a file could not be removed: the next start finds it
                if failure is not None:
                    raise failure
                return
            table = self._families[family]
            failures = self._database.property_int_value("rocksdb.background-errors")
            options = CompactOptions()
            options.set_exclusive_manual_compaction(False)
            table.compact_range(first, end, options)
            if family is Family.SMALL:
                for other in (Family.BULK, Family.INDEX, Family.META):
                    self._families[other].flush(True)
            if self._database.property_int_value("rocksdb.background-errors") != failures:
                raise StoreFailed("compact", "RocksDB counted a background error; see its LOG file")

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        """Return a bounded slice of keys; see ``Store.bulk_keys``."""
        check_scan(first, end, limit)
        with self._calling("read", Family.BULK):
            return list(islice(self._bulk.keys(first, end, self._deletions.ranges, here=here), limit))

    def highest_keys(self) -> list[bytes]:
        """Return the largest key of each file; see ``Store.highest_keys``."""
        with self._calling("read", Family.BULK):
            return self._bulk.lasts

    def flush(self) -> None:
        """Write out what is in memory; see ``SnapshotSource.flush``. Other threads are not blocked."""
        with self._calling("flush"):
            self._refuse_fenced("flush")
            for table in list(self._families.values()):
                table.flush(True)

    def remote_bytes(self) -> int:
        """Return the bytes of remote files; see ``SnapshotSource.remote_bytes``."""
        return self._remote.remote_bytes if self._remote is not None else 0

    def checkpoint(self, into: Path) -> list[Path]:
        """Make the files of a snapshot; see ``SnapshotSource.checkpoint``. Other threads are not blocked."""
        with self._calling("checkpoint"):
            self._refuse_fenced("checkpoint")
            if not link_checkpoint(self._directory.database, into / "db"):
                Checkpoint(self._database).create_checkpoint(str(into / "db"))  # holds other threads up
            (into / "synced").write_bytes(Note(self._database.latest_sequence_number(), self._marks).encode())
            return self._bulk.paths

    def live_bytes(self) -> int:
        """Return the bytes of all files in the directory; see ``Store.live_bytes``."""
        with self._calling("read"):
            return self._directory.live_bytes()

    def free_bytes(self) -> int:
        """Return the free bytes by ``statvfs``, without what remote files will take; see ``Store.free_bytes``."""
        with self._calling("read"):
            taken = self._remote.space_bytes if self._remote is not None else 0
            return max(0, self._directory.free_bytes() - taken)

    def write_stall(self) -> WriteStall:
        """Return RocksDB's own account of it; see ``Store.write_stall``."""
        with self._calling("read"):
            if self._database.property_int_value("rocksdb.is-write-stopped"):
                return WriteStall.STOPPED
            slowed = self._database.property_int_value("rocksdb.actual-delayed-write-rate")
            return WriteStall.SLOWED if slowed else WriteStall.NONE

    def write_stall_s(self) -> float | None:
        """Return RocksDB's own count of it, to the millisecond; see ``Store.write_stall_s``."""
        with self._calling("read"):
            return stall_s(self._database.property_value(PROPERTY) or "")

    def close(self) -> None:
        """Flush the memory of RocksDB, for a faster next start, and release the directory."""
        if self._remote is not None:
            self._remote.close()  # calls may wait for it
        if not self._usage.end():
            return
        self._bulk.close()
        self._spare.close()
        self._deletions.close()
        self._close_database()
        gc.collect()
        self._synced.close()
        self._directory.release()

    def _close_database(self) -> None:
        self._handles.clear()
        # After an earlier failure the flush fails too. The lost writes were never confirmed.
        for family in [*self._families]:
            with suppress(StoreError), classified("close", family):
                self._families.pop(family).close()
        with suppress(StoreError), classified("close"):
            self._database.close()

    @contextmanager
    def _calling(self, action: Action, family: Family | None = None) -> Iterator[None]:
        """Keep the store open during a call, and convert its errors."""
        try:
            with self._usage.call(), classified(action, family):
                yield
        except StoreCorrupt as damage:
            if not self._directory.is_there():  # its disk may be unmounted: that is no damage
                raise StoreUnreadable(f"directory {self._directory.path} is not at its path", family=family) from damage
            raise
        except StoreUnreadable as failure:
            if self._unreadable_is_damage and is_lost_sector(failure.__cause__):
                raise StoreCorrupt(family, failure.reason) from failure
            raise

    @contextmanager
    def _changing(self, action: Action) -> Iterator[None]:
        """Run a change; the first that fails fences the store against all later ones."""
        with self._calling(action):
            self._refuse_fenced(action)
            try:
                with classified(action):
                    yield
            except (KeyError, TypeError, ValueError):
                raise  # a mistake of the caller, found before any change
            except StoreUnreadable:
                raise  # nothing was changed
            except BaseException as error:
                self._fenced_by = error
                raise

    def _refuse_fenced(self, action: Action) -> None:
        if self._fenced_by is not None:
            raise StoreFailed(action, f"fenced: {self._fenced_by}")
