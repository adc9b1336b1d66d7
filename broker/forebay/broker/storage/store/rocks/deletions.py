"""Deleted keys of the bulk files, recorded in RocksDB as ranges in the family of that name.

So a deletion is atomic with the rest of its batch, and the files do not change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from rocksdict import ColumnFamily, Rdict, WriteBatch

from forebay.broker.storage.errors import StoreCorrupt, StoreUnreadable
from forebay.broker.storage.failures import classified, is_lost_sector
from forebay.broker.storage.store.bulk.files import BulkFiles
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.key_ranges import KeyRanges, Span

_log: Final = logging.getLogger(__name__)


def stored_deletions(table: Rdict, *, unreadable_is_damage: bool = False) -> KeyRanges:
    """Return the deleted ranges; if they are damaged, some orphaned bytes stay on disk.

    Raises ``StoreUnreadable`` if they cannot be read, except in a lost sector where ``unreadable_is_damage``.
    """
    found: list[Span] = []
    try:
        with classified("read", Family.BULK):
            entries = table.iter()
            entries.seek_to_first()
            while entries.valid():
                found.append((entries.key(), entries.value()))
                entries.next()
            entries.status()
    except (StoreCorrupt, StoreUnreadable) as damage:
        if isinstance(damage, StoreUnreadable) and not (unreadable_is_damage and is_lost_sector(damage.__cause__)):
            raise
        _log.error("ranges of deleted pages could not be read, their space may not be released cause=%s", damage)
    return KeyRanges.of(found)


class BulkDeletions:
    """Deleted ranges of the bulk files of an open database."""

    def __init__(self, database: Rdict, handle: ColumnFamily, bulk: BulkFiles, stored: KeyRanges) -> None:
        self.ranges = stored
        self._database = database
        self._bulk = bulk
        self._handle = handle
        self._changing: Final = threading.Lock()
        """Held while the ranges change; a change waits for the one before it."""

    def write(self, batch: WriteBatch, spans: Sequence[Span]) -> None:
        """Write a batch, with the ranges that it deletes from the bulk files."""
        with self._changing:
            highest = self._bulk.highest
            end_max = b"" if highest is None else highest + b"\0"  # later files are not affected
            found = [(first, min(end, end_max)) for first, end in spans if self._bulk.meets(first, end)]
            self._replace(batch, self.ranges.added_all(found))

    def clear(self) -> None:
        """Remove the ranges that no file has any more."""
        with self._changing:
            left = KeyRanges.of((first, end) for first, end in self.ranges if self._bulk.meets(first, end))
            if left != self.ranges:
                self._replace(WriteBatch(raw_mode=True), left)

    def close(self) -> None:
        """Free what was made from the database: until then it is not closed."""
        del self._handle

    def _replace(self, batch: WriteBatch, deleted: KeyRanges) -> None:
        before, after = dict(self.ranges), dict(deleted)
        for first in before.keys() - after.keys():
            batch.delete(first, self._handle)
        for first, end in after.items():
            if before.get(first) != end:
                batch.put(first, end, self._handle)
        self._database.write(batch)
        self.ranges = deleted
