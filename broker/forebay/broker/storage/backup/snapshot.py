"""Snapshot of a store between two group commits: its database, and the list of its bulk files.

    snapshot/      in the data directory, removed when the backup ends and by the next start
        FORMAT, synced, db/    as in the data directory; tables are links, the rest are copies

Files of pages never change but for their release. The caller holds that back until they are copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.storage.backup.manifest import PartitionAccount, SinkAccount
from forebay.broker.storage.directory import FORMAT, SNAPSHOT
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.permissions import DIRECTORY_MODE
from forebay.broker.storage.records.epochs.producer import PRODUCER
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.records.sealed import Undecodable, V
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.records.sinks.subscription import SUBSCRIPTION
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.store.settings import RocksSettings

_SMALL: Final = RocksSettings(block_cache_bytes=8 << 20, open_tables_max=64, open_bulk_max=8, open_files_beside=0)


@runtime_checkable
class SnapshotSource(Protocol):
    """Store that a snapshot can be taken of."""

    def flush(self) -> None:
        """Write out what is in memory, so that ``checkpoint`` has little left to write.

        Any thread; blocks for long. Raises ``StoreError``.
        """
        ...

    def checkpoint(self, into: Path) -> list[Path]:
        """Make the folders of a snapshot of this instant, and return the files of pages.

        Called where ``write`` is. Raises ``StoreError``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is not copied yet."""

    directory: Path
    bulk: tuple[Path, ...]
    taken_at_us: int

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the path in the data directory, and the file, of everything but the files of pages."""
        for folder in (self.directory, self.directory / "db"):
            for path in sorted(folder.iterdir()):
                if path.is_file() and path.name not in {"LOCK", "LOG"} and not path.name.startswith("LOG."):
                    yield os.path.relpath(path, self.directory), path

    def remove(self) -> None:
        """Delete the snapshot."""
        shutil.rmtree(self.directory, ignore_errors=True)


def take_snapshot(source: SnapshotSource, directory: Path, at_us: int) -> Snapshot:
    """Take a snapshot into a data directory. Called where ``write`` is. Raises ``StoreError``."""
    into = directory / SNAPSHOT
    if into.exists():
        shutil.rmtree(into)
    into.mkdir(DIRECTORY_MODE)
    (into / "FORMAT").write_text(f"{FORMAT}\n", encoding="ascii")
    return Snapshot(into, tuple(source.checkpoint(into)), at_us)


def accounts_of(snapshot: Snapshot) -> tuple[tuple[SinkAccount, ...], int, str]:
    """Return the accounts of a copied snapshot, the number of saved positions, and the damage.

    The snapshot is opened for it, which changes its files.
    """
    from forebay.broker.storage.store.rocks import RocksStore  # noqa: PLC0415 - a broker in memory runs without RocksDB

    try:
        store = RocksStore(snapshot.directory, settings=_SMALL)
        try:
            sinks = tuple(_sinks(store))
            positions = sum(1 for _ in scan_all(store, Family.META, *POSITION.under()))
        finally:
            store.close()
    except (StoreCorrupt, Undecodable) as damage:
        return (), 0, str(damage)
    return sinks, positions, ""


def _sinks(store: Store) -> Iterator[SinkAccount]:
    for _, value in scan_all(store, Family.META, *SINK.under()):
        record = SINK.codec.decode(value)
        number = record.id
        tails = {partition: tail for (_, partition), tail in _values(store, TAIL, number)}
        heads = {partition: head for (_, partition), head in _values(store, HEAD, number)}
        cursors = {(name, partition): cursor for (_, partition, name), cursor in _values(store, CURSOR, number)}
        names = {"default", *(name for (_, name), _ in _values(store, SUBSCRIPTION, number))}
        partitions = range(record.settings.corrected()[0].partitions)
        yield SinkAccount(
            record.name,
            record.incarnation,
            tuple(_account(tails.get(each, Tail()), heads.get(each, Head())) for each in partitions),
            {name: sum(cursors.get((name, each), Cursor()).watermark for each in partitions) for name in sorted(names)},
            {found.producer: found.epoch for _, found in _values(store, PRODUCER, number) if found.epoch is not None},
        )


def _values(store: Store, kind: Kind[V], sink: int) -> Iterator[tuple[tuple[Any, ...], V]]:
    for key, value in scan_all(store, Family.META, *kind.under(sink)):
        yield kind.parts(key), kind.codec.decode(value)


def _account(tail: Tail, head: Head) -> PartitionAccount:
    return PartitionAccount(head.earliest, tail.next_offset, tail.next_offset - head.removed_records)
