"""Tools for the directory of a stopped broker: `verify` compares, `repair` salvages into a new one.

Neither changes the directory. A repair applies the rules of a start to a copy of its database, replaces missing records
by gaps, and writes the result, with the bulk files, into a new directory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from errno import EACCES, EEXIST, EPERM, EROFS
from pathlib import Path
from typing import Final

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.ranges import Range, RangeSet
from forebay.broker.core.partition.ranges import add as with_range
from forebay.broker.core.partition.repair import dropped_for, gaps_for, recounted
from forebay.broker.core.writes import DropEntry, PutCursor, PutEntry, PutGap, PutHead, PutQuarantine, Write
from forebay.broker.storage.backup.working_folder import working_folder
from forebay.broker.storage.directory import sync_path
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.records.journal_position import LEAVE_JOURNAL
from forebay.broker.storage.records.registry import damaged_values
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.repair.inspection import held, opened, snapshot
from forebay.broker.storage.repair.salvage import copy_readable
from forebay.broker.storage.repair.verification import Checked, PartitionReport, check
from forebay.broker.storage.store.bulk.file import SUFFIX
from forebay.broker.storage.store.bulk.remote_list import NAME as REMOTE
from forebay.broker.storage.store.bulk.remote_list import read_list
from forebay.broker.storage.store.contract import DeleteRange, Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.state.numbers import counted

_SLICE: Final = 1_000
_SMALL_SLICE: Final = 64


OnProgress = Callable[[int, int], None]
"""Takes the number in total, and the number that is done."""


def no_progress(total: int, done: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report on a directory."""

    directory: str
    damage: tuple[str, ...]
    """Damage of the store as a whole, and the repairs that a start would make, or has made."""

    partitions: tuple[PartitionReport, ...]

    @property
    def clean(self) -> bool:
        """True if nothing is damaged."""
        return not self.damage and not any(one.problems for one in self.partitions)


def verify(directory: Path, on_partition: OnProgress = no_progress) -> Report:
    """Check everything in a directory that no broker uses.

    ``on_partition`` is called before the first and after each partition.

    Raises ``StoreLocked``; ``StoreCorrupt`` or another ``StoreError`` where it cannot be read at all.
    """
    with held(directory), _scratch(directory.parent) as folder:
        copy = Path(folder) / "copy"
        snapshot(directory, copy)
        store, _ = opened(copy, repair=False)
        try:
            damage = [*_unread(directory), *damaged_values(store)]
            return _report(directory, damage, _checked(recovered := recover(store), on_partition), recovered)
        finally:
            store.close()


def _scratch(beside: Path) -> tempfile.TemporaryDirectory[str]:
    """Create a folder beside the directory, where tables can be linked; elsewhere if that is read-only."""
    try:
        return tempfile.TemporaryDirectory(prefix=".verify-", dir=beside)
    except OSError as error:
        if error.errno not in {EROFS, EACCES, EPERM}:
            raise
        return tempfile.TemporaryDirectory(prefix="forebay-verify-")


def _report(directory: Path, damage: list[str], checked: list[Checked], recovered: Recovered) -> Report:
    damage += [str(one) for one in recovered.repairs]
    return Report(str(directory), tuple(damage), tuple(one.report for one in checked))


def _checked(recovered: Recovered, on_partition: OnProgress) -> list[Checked]:
    found: list[Checked] = []
    total = sum(sink.partitions for sink in recovered.sinks)
    on_partition(total, 0)
    for one in check(recovered):
        found.append(one)
        on_partition(total, len(found))
    return found


def _unread(directory: Path) -> list[str]:
    found = [] if (directory / "bulk").is_dir() else ["the folder `bulk` is missing"]
    if not (directory / REMOTE).exists():
        return found
    try:
        missing = sum(not (directory / "bulk" / name).exists() for name in read_list(directory))
    except StoreCorrupt as damage:
        return [*found, damage.reason]
    if missing:
        found.append(f"{counted(missing, 'file')} with pages must be read from the journal of the shard")
    return found


def repair(directory: Path, into: Path, on_partition: OnProgress = no_progress) -> Report:
    """Salvage ``directory`` into ``into``, which must not exist yet; ``on_partition`` as for `verify`.

    ``into`` is there when it is complete, and not after a failure. Raises ``FileExistsError``, ``StoreLocked``,
    ``BackupError`` where another repair into it is running, or another ``StoreError`` where nothing can be opened.
    """
    _check_free(into)
    with held(directory), working_folder(into, purpose="repair", suffix="repairing") as work:
        copy, made = work / "copy", work / "data"
        snapshot(directory, copy)
        damage = _unread(directory)
        store, repaired = opened(copy, repair=True)
        if repaired:
            damage.append("the database could not be opened: it was rebuilt from its tables and logs")
        try:
            damage += damaged_values(store)
            recovered = recover(store)
            checked = _checked(recovered, on_partition)
            for one in checked:
                recovered.journal.commit([], list(_writes(one)))
            store.commit([], [LEAVE_JOURNAL])  # the result is no replica any more
            damage += _copy(store, directory, made)
        finally:
            store.close()
        _check_free(into)
        close_to_others(made, is_new=True)
        made.rename(into)
        sync_path(into.absolute().parent)
    return _report(directory, damage, checked, recovered)


def _check_free(into: Path) -> None:
    if into.exists():
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(into))


def _writes(one: Checked) -> Iterator[Write]:
    """Yield the writes that repair a partition: unreadable pages become gaps."""
    sink, partition = one.sink, one.report.partition
    number = sink.record.id
    lost: RangeSet = ()
    for part in [*one.found.lost, *(Range(entry.base, entry.end) for entry in one.damaged)]:
        lost = with_range(lost, part)
    tail, head = sink.tails.get(partition, Tail()), sink.heads.get(partition, Head())
    yield from (PutEntry(number, partition, entry) for entry in one.found.rebuilt)
    yield from (DropEntry(number, partition, base) for base in one.found.broken)
    for entry in one.damaged:
        yield DropEntry(number, partition, entry.base)
        yield PutQuarantine(number, partition, entry)
    if not one.report.problems:
        return
    found = replace(
        one.found,
        entries=one.report.pages,
        records=one.report.records,
        size=one.report.size,
        lost=lost,
    )
    yield from (PutGap(number, partition, gap) for gap in gaps_for(lost, tail.accepted_at_us))
    yield PutHead(number, partition, recounted(head, tail, found))
    names = {name for name, at in sink.cursors if at == partition} | {"default"}
    for name in sorted(names):
        cursor = dropped_for(sink.cursors.get((name, partition), Cursor()), lost)
        yield PutCursor(number, name, partition, cursor)


def _copy(store: RocksStore, directory: Path, into: Path) -> list[str]:
    """Copy the content of the store and the bulk files; returns a sentence for each unreadable part."""
    made = RocksStore(into)
    try:
        for family in (Family.META, Family.INDEX, Family.SMALL):
            limit = _SMALL_SLICE if family is Family.SMALL else _SLICE
            first = b""
            while found := _slice(store, family, first, limit):
                made.write([Put(family, key, value) for key, value in found])
                first = found[-1][0] + b"\0"
        made.mark(store.marked_now())
        made.sync()
    finally:
        made.close()
    unreadable: list[str] = []
    for path in sorted((directory / "bulk").glob(f"*{SUFFIX}")) if (directory / "bulk").is_dir() else []:
        lost = copy_readable(path, into / "bulk" / path.name)
        if lost:
            unreadable.append(f"{counted(lost, 'byte')} of {path.name} could not be read")
    sync_path(into / "bulk")
    made = RocksStore(into)
    try:
        made.write([DeleteRange(Family.BULK, first, end) for first, end in store.deleted_bulk()])
        made.sync()
    finally:
        made.close()
    return unreadable


def _slice(store: RocksStore, family: Family, first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    try:
        return store.scan(family, first, b"\xff" * 64, limit)
    except StoreCorrupt:
        store.rewrite(family)
        return store.scan(family, first, b"\xff" * 64, limit)
