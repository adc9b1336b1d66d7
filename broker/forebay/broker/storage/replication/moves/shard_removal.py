"""Removal of a shard from its fleet, once its sinks have no unsettled records and no broker owns it.

    1   the newest checkpoint, without its bulk files, and the records after it are read into a working folder
    2   once the owner has ended, or is silent for long enough, a fence takes the journal over, as a broker does
    3   an `EXPORT` record without a place ends the journal: no broker takes over after it
    4   the object of the shard in the directory of the fleet is deleted: clients find the shard no more
    5   on demand the checkpoint of an empty store is made in front of that record, which trims everything else

A shard that was exported continues in a directory, with its records: of 1 to 3 nothing is left to do.

After step 5 only fences and the last record are left, a few hundred bytes each: they stop former owners and brokers
that are started again. A removal that was interrupted is run again, and so is one after which a broker that was frozen
has written its hint once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.ranges import Range
from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.backup.transfer import Pace
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob, Origin, trim_journal
from forebay.broker.storage.replication.checkpoints.loading import Pages, load_newest
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineError, away_of
from forebay.broker.storage.replication.moves.errors import (
    JournalInUse,
    JournalMissing,
    JournalNeeded,
    RemovalFailed,
    ShardMissing,
    ShardNotEmpty,
)
from forebay.broker.storage.replication.moves.journal_end import JournalEnd
from forebay.broker.storage.replication.probe import probe
from forebay.broker.storage.replication.reader import Trimmed
from forebay.broker.storage.replication.replica import put_position
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.store.rocks.store import RocksStore

ENDPOINT: Final = "forebay shard remove"
"""Endpoint in the fence of a removal, which serves nothing."""
DEFAULT: Final = "default"
"""Subscription that every sink has, stored or not."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Result of a removal."""

    shard: str
    journal: str
    """Address of the journal of the shard; empty where it has none."""

    sinks: int
    """Sinks of the shard, none of which had unsettled records."""

    was_removed: bool
    """True if an earlier removal had done all but the deletion of the journal."""

    journal_deleted: bool


class ShardRemoval:
    """Removal of one shard. For one thread."""

    def __init__(
        self,
        directory: ShardDirectory,
        shard: str,
        store: RocksStore,
        engine: Engine,
        end: JournalEnd,
        trim: Callable[[JournalEnd], None],
    ) -> None:
        """``store`` has the newest checkpoint of the journal, and ``end`` applies the records after it.

        ``trim`` deletes everything in front of the end.
        """
        self._directory: Final = directory
        self._shard: Final = shard
        self._store: Final = store
        self._engine: Final = engine
        self._end: Final = end
        self._trim: Final = trim
        self.journal: Final = engine.address
        """Address of the journal of the shard."""
        self.sinks = 0
        """Sinks of the shard."""
        self._waiting: dict[str, int] = {}
        """Unsettled records by sink; those of an exported shard are in its directory."""

    def check(self) -> None:
        """Raise ``ShardNotEmpty`` for unsettled records, ``JournalInUse`` for an owner that appends.

        Raises ``Trimmed`` where the store is too far behind, ``EngineAway``, or another ``StoreError``.
        """
        self._end.read()
        self._check_settled()
        self._end.await_silence()
        self._check_settled()

    def remove(self, *, deletes_journal: bool) -> Removed:
        """Take the journal over, end it, and delete the object of the shard in the directory. Blocks.

        Raises as ``check`` does, ``DirectoryAway``, and ``JournalNeeded`` where the journal is that of an export.
        """
        was_removed = self._end.place.exported and not self._directory.has(self._shard)
        if not self._end.place.exported:
            probe(self._engine)
            self._take_over()
        if deletes_journal and self._waiting and self._end.exported_to:
            raise JournalNeeded(self.journal, self._end.exported_to)
        self._directory.remove(self._shard)
        if deletes_journal:
            self._trim(self._end)
        return Removed(self._shard, self.journal, self.sinks, was_removed, deletes_journal)

    def _take_over(self) -> None:
        """Fence the owner, and append the last record, unless a record was published before the fence."""
        try:
            owner = self._end.take_over(ENDPOINT)
            if owner is None:  # another removal, or an export, has ended it
                self._check_settled()
                return
            with closing(owner):
                try:
                    self._check_settled()
                except ShardNotEmpty:
                    self._end.release(owner)
                    raise
                self._end.append(owner, "")
            self._end.read()
        except Trimmed as trimmed:
            raise JournalInUse(self.journal, "a broker that has made a checkpoint") from trimmed

    def _check_settled(self) -> None:
        try:
            found = dict(unsettled_records(self._store))
        except Undecodable as damage:
            raise StoreFailed("remove the shard", f"{self.journal}: {damage}") from damage
        self.sinks = len(found)
        self._waiting = {sink: records for sink, records in found.items() if records}
        if self._waiting and not self._end.exported_to:
            raise ShardNotEmpty(self._shard, self._waiting)


class HintRemoval:
    """Removal of a shard without a journal: only its object in the directory is left."""

    journal: Final = ""
    sinks: Final = 0

    def __init__(self, directory: ShardDirectory, shard: str) -> None:
        """The directory has the shard."""
        self._directory: Final = directory
        self._shard: Final = shard

    def remove(self, *, deletes_journal: bool) -> Removed:
        """Delete the object of the shard in the directory. Raises ``DirectoryAway``."""
        self._directory.remove(self._shard)
        return Removed(self._shard, "", 0, was_removed=False, journal_deleted=False)


@contextmanager
def checked_removal(
    directory: ShardDirectory,
    engine: Engine | None,
    shard: str,
    folder: Path,
    *,
    fleet: str,
    silence_s: float,
    clock: Callable[[], float],
    clock_us: Callable[[], int],
    wait: Callable[[float], object],
) -> Iterator[ShardRemoval | HintRemoval]:
    """Yield the removal of a shard that has no unsettled records and no living owner. Blocks.

    ``engine`` is that of the shard's journal, None where it does not exist; ``fleet`` is the common address, for
    messages. ``folder`` is an empty one for working files. ``silence_s`` is the silence after which an owner counts as
    ended. ``clock`` is monotonic, in seconds; ``clock_us`` is the wall clock.

    Raises ``ShardMissing``, ``ShardNotEmpty``, ``JournalInUse``, ``DirectoryAway``, ``EngineAway``, or another
    ``StoreError``.
    """
    if engine is None or engine.peek(0) is None:
        if not directory.has(shard):
            raise ShardMissing(shard, fleet)
        if any(hint.shard == shard and hint.journal for hint in directory.read()):
            raise JournalMissing(shard, fleet)
        yield HintRemoval(directory, shard)
        return
    marks = Marks(engine)
    while True:
        load_newest(engine, marks, folder / "data", threading.Event(), pages=Pages.NEVER)
        with closing(RocksStore(folder / "data")) as store:
            end = JournalEnd(engine, store, silence_s=silence_s, clock=clock, wait=wait, pages=False)
            found = ShardRemoval(
                directory, shard, store, engine, end, lambda end: _trim(engine, end, folder / "empty", clock, clock_us)
            )
            try:
                found.check()
            except Trimmed:
                continue  # a newer checkpoint has what is missing
            yield found
            return


def unsettled_records(store: Store) -> Iterator[tuple[str, int]]:
    """Yield each sink of a store, and the unsettled records of its subscription that has most of them.

    Beyond the stored end of a partition there may be settled ones, which were only in memory.

    Raises ``Undecodable`` and ``StoreError``.
    """
    for _, value in scan_all(store, Family.META, *SINK.under()):
        sink = SINK.codec.decode(value)
        tails: dict[int, Tail] = {}
        for key, stored in scan_all(store, Family.META, *TAIL.under(sink.id)):
            tails[TAIL.parts(key)[1]] = TAIL.codec.decode(stored)
        cursors: dict[tuple[int, str], Cursor] = {}
        for key, stored in scan_all(store, Family.META, *CURSOR.under(sink.id)):
            _, partition, name = CURSOR.parts(key)
            cursors[partition, name] = CURSOR.codec.decode(stored)
        names = [
            DEFAULT,
            *(SUBSCRIPTION.parts(key)[1] for key, _ in scan_all(store, Family.META, *SUBSCRIPTION.under(sink.id))),
        ]
        yield (
            sink.name,
            max(
                sum(
                    part.size
                    for each, tail in tails.items()
                    for part in cursors.get((each, name), Cursor()).unsettled(Range(0, tail.next_offset))
                )
                for name in names
            ),
        )


def _trim(
    engine: Engine, ended: JournalEnd, directory: Path, clock: Callable[[], float], clock_us: Callable[[], int]
) -> None:
    """Replace everything in front of the last record by the checkpoint of an empty store.

    Raises ``EngineAway``, ``RemovalFailed``, or another ``StoreError``.
    """
    end, journal = ended.ended_at, ended.journal
    assert end is not None, "the last record was read"
    marks = Marks(engine)
    newest = marks.refresh()
    if newest is not None and newest.position >= end.position:
        files = engine.files()
        try:
            trim_journal(engine, files, marks, newest, load_manifest(files, newest), threading.Event())
        except EngineAway:
            raise
        except EngineError as failure:
            raise RemovalFailed(f"the journal {engine.address} could not be trimmed: {failure}") from failure
        return
    with closing(RocksStore(directory)) as store:
        store.commit([], [put_position(journal, end)])
        job = CheckpointJob(
            engine,
            Origin(store, directory, lambda: end, lambda: journal),
            tables_of="",
            pace=Pace(clock),
            clock_us=clock_us,
            failed=RemovalFailed,
        )
        try:
            job.run(clock, lambda: None)
        except RemovalFailed as failure:
            if isinstance(failure.__cause__, (EngineAway, TargetFailed)):
                raise away_of(failure) from failure
            raise
