"""Journal: writes of the core as keys and values of the store.

One batch has all writes of one decision. Bulk pages are ingested, as one file, before the batch with their index
entries, so a crash between the two leaves an orphaned file, which the next start adds to the reclaim ledger.
Calls block; the contract of the byte store names the thread of each call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from forebay.broker.core.epochs.values import EpochRecord
from forebay.broker.core.errors import BrokerError, ReadFailed, StoreFenced
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.repair import IndexDamaged
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.writes import Due, PageWrite, Write
from forebay.broker.storage.errors import StoreCorrupt, StoreError, StoreUnreadable
from forebay.broker.storage.records.epochs.epoch import EPOCH, epochs_from
from forebay.broker.storage.records.header import Damaged, Header, body_of
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.pages.due import span_of
from forebay.broker.storage.records.pages.entry import ENTRY, base_of, decode_entry
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE, SMALL_PAGE, key_of
from forebay.broker.storage.records.registry import OPERATIONS
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.records.sinks.writer import SLOT
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.scans import SLICE, bulk_keys_all, sliced
from forebay.broker.storage.store import contract
from forebay.broker.storage.store.contract import Family, Operation, Put, Store, Value

_log: Final = logging.getLogger(__name__)


class OpenCommit:
    """Commit that ``Journal.begin`` has begun."""

    def __init__(self, opened: contract.OpenCommit) -> None:
        self._opened = opened

    def finish(self) -> None:
        """Return once it is durable and applied. The commit thread; raises as ``Journal.commit``."""
        try:
            self._opened.finish()
        except StoreError as error:
            raise StoreFenced(str(error)) from error


class Journal:
    """Store of pages, entries and cursors over a store of bytes."""

    def __init__(self, store: Store, store_id: bytes) -> None:
        self.store = store
        self.store_id = store_id
        self.records = 0
        """Records ever stored, also noted outside of the log: a start derives the missing ones after damage.
        """
        self.start_count = 0
        self._highest = 0
        """Highest page number that this start has written. A page from memory keeps the number it got there."""

    # -- writing: the commit thread, and the append thread where commits overlap

    def commit(self, pages: Sequence[PageWrite], writes: Sequence[Write], *, sync: bool = True) -> None:
        """Store pages and apply writes, atomically and, with ``sync``, durably.

        Raises:
            StoreFenced: it failed; nothing may be acknowledged and nothing is retried.
        """
        bulk, operations = self._encoded(pages, writes)
        try:
            self.store.commit(bulk, operations, sync=sync)
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    @property
    def commits_at_once(self) -> int:
        """Commits that may be open at once; 1 where ``begin`` is not used."""
        window = self.store.window()
        return window.size if window is not None else 1

    def begin(self, pages: Sequence[PageWrite], writes: Sequence[Write]) -> OpenCommit:
        """Begin a commit of a store with a window. The append thread; raises as ``commit``."""
        window = self.store.window()
        assert window is not None, "asked before"
        bulk, operations = self._encoded(pages, writes)
        try:
            return OpenCommit(window.begin(bulk, operations))
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    def _encoded(
        self, pages: Sequence[PageWrite], writes: Sequence[Write]
    ) -> tuple[list[tuple[bytes, Value]], list[Operation]]:
        """Return pages and writes as bulk values and operations, with the highest page number."""
        operations: list[Operation] = []
        bulk: list[tuple[bytes, Value]] = []
        highest = 0
        for page in pages:
            entry = page.entry
            header = self._header(page.sink, page.partition, entry, page.body.crc32, page.stage).encode()
            highest = max(highest, entry.number)
            if entry.bulk:
                bulk.append((BULK_PAGE.key(entry.number, page.sink, page.partition), (header, page.body.data)))
            else:
                key = SMALL_PAGE.key(page.sink, page.partition, entry.number)
                operations.append(Put(Family.SMALL, key, b"".join((header, page.body.data))))
        for write in writes:
            operations += OPERATIONS[type(write)](write)
        if highest:
            self._highest = max(self._highest, highest)
            self.records += sum(page.entry.count for page in pages)
            operations.append(HIGHEST.put(HIGHEST.key(), (self._highest, self.records)))
            self.store.mark((self.records, self.start_count))
        return bulk, operations

    def is_ready(self) -> bool:
        """Return True if a small commit waits for nothing but the disk."""
        return self.store.is_ready()

    def put_number(self, kind: Kind[int], number: int) -> None:
        """Write a number that belongs to the store as a whole, durably."""
        try:
            self.store.commit([], [kind.put(kind.key(), number)])
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    def rewrite_index(self) -> list[tuple[bytes, bytes]]:
        """Rewrite the index without its damaged part; returns the ranges of keys that were left out.

        Raises:
            ReadFailed: a read failed for another reason; the index is as it was.
            StoreFenced: it could not be written.
        """
        with _refusing():
            return self.store.rewrite(Family.INDEX)

    # -- reclaiming: the reclaim thread, after the commit of a `Reclaim`

    def compact(self, dues: Sequence[Due]) -> None:
        """Release the space of reclaimed ranges: all bulk, or all small."""
        spans = [span_of(due) for due in dues]
        family = Family.BULK if dues[0].bulk else Family.SMALL
        try:
            self.store.compact(family, min(first for first, _ in spans), max(end for _, end in spans))
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    # -- reading: any thread

    def read_pages(self, sink: int, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        """Return the bodies of pages in order; None for a missing or damaged one, which is logged.

        A damaged page is read a second time, and only that result counts.

        Raises:
            ReadFailed: a read failed for a reason other than damage.
        """
        found: list[Body | None] = [None] * len(entries)
        for family in (Family.BULK, Family.SMALL):
            wanted = [i for i, entry in enumerate(entries) if entry.bulk == (family is Family.BULK)]
            if not wanted:
                continue
            keys = [key_of(sink, partition, entries[i].number, bulk=entries[i].bulk) for i in wanted]
            values = self.get(family, keys)
            for i, key, value in zip(wanted, keys, values, strict=True):
                found[i] = self._body(value, sink, partition, entries[i])
                if found[i] is None:
                    [again] = self.get(family, [key])
                    found[i] = self._body(again, sink, partition, entries[i], log_damage=True)
        return found

    def prefetch(self, sink: int, partition: int, numbers: Sequence[int]) -> None:
        """Start to prefetch bulk pages that will be read soon, without waiting.

        Raises:
            ReadFailed: the lookup failed for a reason other than damage.
        """
        with _refusing():
            self.store.prefetch([BULK_PAGE.key(number, sink, partition) for number in numbers])

    def is_remote(self, sink: int, partition: int, entries: Sequence[Entry]) -> bool:
        """Return whether the read of these pages waits for a transfer."""
        return self.store.is_remote(BULK_PAGE.key(entry.number, sink, partition) for entry in entries if entry.bulk)

    def has_remote(self) -> bool:
        """Return whether bulk pages are remote."""
        return self.store.remote_bytes() > 0

    def end_transfers(self) -> None:
        """Let reads fail that wait for a transfer, now and later."""
        self.store.end_transfers()

    def get(self, family: Family, wanted: list[bytes]) -> list[bytes | None]:
        """Return values in order; None for a missing or damaged one, which is logged.

        Raises ``ReadFailed`` for a reason other than damage.
        """
        try:
            return self.store.get_many(family, wanted)
        except StoreCorrupt as error:
            if len(wanted) == 1:
                _log.error("page could not be read cause=%s", error)
                return [None]
            return [value for key in wanted for value in self.get(family, [key])]
        except StoreError as error:
            raise _refusal(error) from error

    def _body(
        self, value: bytes | None, sink: int, partition: int, entry: Entry, *, log_damage: bool = False
    ) -> Body | None:
        if value is None:
            return None
        try:
            return body_of(value, self._header(sink, partition, entry, 0))
        except Damaged as damage:
            if log_damage:
                place = (sink, partition, entry.number)
                _log.error("page was damaged sink=%d partition=%d number=%d cause=%s", *place, damage)
            return None

    def _header(self, sink: int, partition: int, entry: Entry, crc32: int, stage: int = 0) -> Header:
        place = (self.store_id, sink, partition, entry.number, entry.base)
        return Header(*place, entry.count, entry.encoding, crc32, stage)

    def bulk_of_sink(self, sink: int) -> list[Due]:
        """Return the bulk pages of a sink that are not remote, even orphaned ones, as runs of their numbers."""
        runs: list[Due] = []
        with _refusing():
            for number, owner, partition in map(BULK_PAGE.parts, bulk_keys_all(self.store, *ALL_BULK, here=True)):
                if owner != sink:
                    continue
                if runs and runs[-1].last + 1 == number:
                    runs[-1] = replace(runs[-1], last=number)
                else:
                    runs.append(Due(sink, partition, bulk=True, first=number, last=number, size=0))
        return runs

    def entries(self, sink: int, partition: int, first: int, end: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` entries with bases in ``[first, end)``, by offset."""
        low, high = ENTRY.between(sink, partition, first=first, end=end)
        return self._entries(self.scan(Family.INDEX, low, high, min(limit, SLICE)))

    def entry_before(self, sink: int, partition: int, first: int, end: int) -> Entry | None:
        """Return the entry with the highest base in ``[first, end)``."""
        low, high = ENTRY.between(sink, partition, first=first, end=end)
        found = self._entries(self.scan(Family.INDEX, low, high, 1, reverse=True))
        return found[0] if found else None

    def _entries(self, found: list[tuple[bytes, bytes]]) -> list[Entry]:
        entries: list[Entry] = []
        for key, value in found:
            try:
                entries.append(decode_entry(value, base_of(key)))
            except Undecodable as damage:
                _log.error("index entry was damaged partition=%d offset=%d cause=%s", *ENTRY.parts(key)[1:], damage)
        return entries

    def slots(self, sink: int, writer_id: str, epoch: int) -> dict[int, list[Slot]]:
        """Return the window of a writer's epoch, per partition."""
        found: dict[int, list[Slot]] = {}
        try:
            stored = list(self.scan_all(Family.META, *SLOT.under(sink, writer_id)))
        except StoreFenced as failure:
            if not isinstance(failure.__cause__, StoreCorrupt):
                raise
            _log.error("window of a writer could not be read and was dropped writer=%s cause=%s", writer_id, failure)
            return {}
        for key, value in stored:
            try:
                stored_epoch, slot = SLOT.codec.decode(value)
            except Undecodable as damage:
                _log.error("writer's slot was damaged writer=%s cause=%s", writer_id, damage)
                continue
            if stored_epoch == epoch:
                found.setdefault(SLOT.parts(key)[2], []).append(slot)
        return found

    def epochs(self, sink: int, producer: str, first: int, limit: int) -> list[EpochRecord]:
        """Return up to ``limit`` epochs of a producer from number ``first`` on that may have live pages.

        A damaged one is left out, which is logged.
        """
        found: list[EpochRecord] = []
        for _, value in self.scan(Family.META, *epochs_from(sink, producer, first), limit):
            try:
                found.append(EPOCH.codec.decode(value))
            except Undecodable as damage:
                _log.error("epoch was damaged sink=%d producer=%s cause=%s", sink, producer, damage)
        return found

    def scan_all(self, family: Family, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and values of a range, in slices."""
        return sliced(lambda start: self.scan(family, start, end, SLICE), first, key_of=lambda found: found[0])

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return a bounded slice of a family; see ``Store.scan``."""
        try:
            return self.store.scan(family, first, end, limit, reverse=reverse)
        except StoreCorrupt as error:
            raise (IndexDamaged if family is Family.INDEX else StoreFenced)(str(error)) from error
        except StoreError as error:
            raise _refusal(error) from error

    def live_bytes(self) -> int:
        """Return the bytes of the store on its device. Raises ``ReadFailed``."""
        with _refusing():
            return self.store.live_bytes()

    def free_bytes(self) -> int:
        """Return the free bytes of its device. Raises ``ReadFailed``."""
        with _refusing():
            return self.store.free_bytes()

    def write_stall(self) -> int:
        """Return 1 if the store slows writes, 2 if it stops them, or 0. Raises ``StoreFenced``."""
        with _refusing():
            return self.store.write_stall()

    def write_stall_s(self) -> float | None:
        """Return the seconds for which the store has held writes back, if known. Raises ``StoreFenced``."""
        with _refusing():
            return self.store.write_stall_s()

    def is_replicated(self) -> bool:
        """Return True if a commit is in the journal of a shard before it returns."""
        return self.store.is_replica()

    def close(self) -> None:
        """Close the store."""
        self.store.close()


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise the error of the core for a failed read."""
    try:
        yield
    except StoreError as error:
        raise _refusal(error) from error


def _refusal(error: StoreError) -> BrokerError:
    """Return the error of the core for a failed read."""
    return ReadFailed(str(error)) if isinstance(error, StoreUnreadable) else StoreFenced(str(error))
