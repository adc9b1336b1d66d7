"""Accounts of the sinks of a snapshot, read from its database.

A process of its own reads them: to open and to close a database holds up all threads of a process, and the appends of a
broker with them.

    python -m forebay.broker.storage.backup.accounts SNAPSHOT
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.storage.backup.manifest import PartitionAccount, SinkAccount, decode_sink
from forebay.broker.storage.errors import StoreError
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
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings

_SMALL: Final = RocksSettings(block_cache_bytes=8 << 20, open_tables_max=64, open_bulk_max=8, open_files_beside=0)
NICE: Final = 10
"""Priority of the process: below that of a broker that serves."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """Accounts of a store at the instant of a backup."""

    sinks: tuple[SinkAccount, ...] = ()
    positions: int = 0
    """Saved positions."""

    damage: str = ""
    """Cause why they could not be read; empty where they could."""


def read_accounts(snapshot: Path) -> Accounts:
    """Return the accounts of a copied snapshot. It is opened for it, which changes its files."""
    command = [sys.executable, "-m", __name__, str(snapshot)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        output, errors = process.communicate()
    if process.returncode:
        return Accounts(damage=errors.strip().rpartition("\n")[2] or f"exit code {process.returncode}")
    found = json.loads(output)
    return Accounts(tuple(decode_sink(one) for one in found["sinks"]), found["positions"], found["damage"])


def main(snapshot: Path) -> None:
    """Write the accounts of a snapshot to standard output, as JSON."""
    try:
        store = RocksStore(snapshot, settings=_SMALL)
        try:
            positions = sum(1 for _ in scan_all(store, Family.META, *POSITION.under()))
            accounts = Accounts(tuple(_sinks(store)), positions)
        finally:
            store.close()
    except (StoreError, Undecodable) as damage:
        accounts = Accounts(damage=str(damage))
    json.dump(asdict(accounts), sys.stdout)


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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
