"""Writes of the core as keys and bytes: the store as the rest of the broker sees it.

One batch carries everything that was decided together. Bulk pages are ingested, as one file, before the batch that
names them, so a crash between the two leaves a file without a name, which the next start puts into the reclaim ledger.
Calls block; which thread may call what is said by the byte store's contract.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.core.epochs.values import EpochRecord
from forebay.broker.core.errors import BrokerError, ReadFailed, StoreFenced
from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.partition.repair import IndexDamaged
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.writes import (
    WHOLE_SINK,
    DropEntriesFrom,
    DropEntry,
    DropEpoch,
    DropEpochStages,
    DropGap,
    DropPlacing,
    DropProducer,
    DropQuarantine,
    DropReserve,
    DropSink,
    DropStages,
    DropSubscription,
    DropWriter,
    Due,
    PageWrite,
    PutAge,
    PutCounting,
    PutCursor,
    PutDue,
    PutEntry,
    PutEpoch,
    PutEpochStages,
    PutGap,
    PutHead,
    PutHeld,
    PutMarks,
    PutPlaced,
    PutPlacing,
    PutProducer,
    PutQuarantine,
    PutReserve,
    PutSchema,
    PutSink,
    PutSlot,
    PutStage,
    PutStaged,
    PutStopped,
    PutSubscription,
    PutTail,
    PutTotals,
    PutWriter,
    Reclaim,
    Reclaimed,
    Write,
)
from forebay.broker.storage.errors import StoreCorrupt, StoreError, StoreUnreadable
from forebay.broker.storage.records import codec, keys
from forebay.broker.storage.records.header import Damaged, Header, body_of
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put, PutAll, Store, Value

_log: Final = logging.getLogger(__name__)
SLICE: Final = 1_000
"""Keys per scan: a scan holds other threads up."""


class Journal:
    """A store of bytes that speaks of pages, entries and cursors."""

    def __init__(self, store: Store, store_id: bytes) -> None:
        self.store = store
        self.store_id = store_id
        self.records = 0
        """Records ever stored, also noted beside the log.

        A start then knows how many are missing after damage.
        """
        self.start_count = 0
        self._highest = 0
        """Of the pages written by this start: one that was held in memory has a number from then."""

    # -- writing: the commit thread

    def commit(self, pages: Sequence[PageWrite], writes: Sequence[Write], *, sync: bool = True) -> None:
        """Store pages and apply writes, atomically and, with ``sync``, durably.

        Raises:
            StoreFenced: it failed; nothing may be acknowledged and nothing is tried again.
        """
        operations: list[Operation] = []
        bulk: list[tuple[bytes, Value]] = []
        highest = 0
        for page in pages:
            entry = page.entry
            header = self._header(page.sink, page.partition, entry, page.body.crc32, page.stage).encode()
            highest = max(highest, entry.number)
            if entry.bulk:
                bulk.append((keys.bulk(entry.number, page.sink, page.partition), (header, page.body.data)))
            else:
                key = keys.small(entry.number, page.sink, page.partition)
                operations.append(Put(Family.SMALL, key, b"".join((header, page.body.data))))
        for write in writes:
            operations.extend(_operations(write))
        if highest:
            self._highest = max(self._highest, highest)
            self.records += sum(page.entry.count for page in pages)
            operations.append(Put(Family.META, keys.HIGHEST, codec.encode_highest(self._highest, self.records)))
            self.store.mark((self.records, self.start_count))
        try:
            self.store.ingest(bulk)
            self.store.write(operations)
            if sync:
                self.store.sync()
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    def put_number(self, key: bytes, number: int) -> None:
        """Write one of the store's own numbers, durably."""
        try:
            self.store.write([Put(Family.META, key, codec.encode_number(number))])
            self.store.sync()
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    def rewrite_index(self) -> list[tuple[bytes, bytes]]:
        """Write the index anew without what is damaged; returns the ranges of keys that were left out.

        Raises:
            ReadFailed: a read failed for another reason; the index is as it was.
            StoreFenced: it could not be written.
        """
        try:
            return self.store.rewrite(Family.INDEX)
        except StoreError as error:
            raise _refusal(error) from error

    # -- reclaiming: the reclaim thread, after the commit of a `Reclaim`

    def compact(self, dues: Sequence[Due]) -> None:
        """Give the space of what was deleted with these back; they are all bulk, or all small."""
        spans = [_due_span(due) for due in dues]
        family = Family.BULK if dues[0].bulk else Family.SMALL
        try:
            self.store.compact(family, min(first for first, _ in spans), max(end for _, end in spans))
        except StoreError as error:
            raise StoreFenced(str(error)) from error

    # -- reading: any thread

    def read_pages(self, sink: int, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        """The bodies of pages, in order: None where one is missing or does not check out, which is logged.

        What does not check out is read twice: only the second answer counts.

        Raises:
            ReadFailed: the store could not read, for a reason that is not damage.
        """
        found: list[Body | None] = [None] * len(entries)
        for family in (Family.BULK, Family.SMALL):
            wanted = [i for i, entry in enumerate(entries) if entry.bulk == (family is Family.BULK)]
            if not wanted:
                continue
            key = keys.bulk if family is Family.BULK else keys.small
            values = self.get(family, [key(entries[i].number, sink, partition) for i in wanted])
            for i, value in zip(wanted, values, strict=True):
                found[i] = self._body(value, sink, partition, entries[i])
                if found[i] is None:
                    [again] = self.get(family, [key(entries[i].number, sink, partition)])
                    found[i] = self._body(again, sink, partition, entries[i], tell=True)
        return found

    def expect(self, sink: int, partition: int, numbers: Sequence[int]) -> None:
        """Let the system begin to read pages of bulk that will be asked for soon.

        Raises:
            ReadFailed: the store could not look for them, for a reason that is not damage.
        """
        try:
            self.store.expect([keys.bulk(number, sink, partition) for number in numbers])
        except StoreError as error:
            raise _refusal(error) from error

    def get(self, family: Family, wanted: list[bytes]) -> list[bytes | None]:
        """Values in order; None where there is none, or where it is damaged, which is logged.

        Raises ``ReadFailed`` where the reason is not damage.
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

    def _body(self, value: bytes | None, sink: int, partition: int, entry: Entry, *, tell: bool = False) -> Body | None:
        if value is None:
            return None
        try:
            return body_of(value, self._header(sink, partition, entry, 0))
        except Damaged as damage:
            if tell:
                place = (sink, partition, entry.number)
                _log.error("page was damaged sink=%d partition=%d number=%d cause=%s", *place, damage)
            return None

    def _header(self, sink: int, partition: int, entry: Entry, crc32: int, stage: int = 0) -> Header:
        place = (self.store_id, sink, partition, entry.number, entry.base)
        return Header(*place, entry.count, entry.encoding, crc32, stage)

    def bulk_of_sink(self, sink: int) -> list[Due]:
        """All bulk pages of a sink, named or not, as runs of their numbers."""
        runs: list[Due] = []
        first, end = keys.bulk(0), keys.bulk((1 << 64) - 1)
        try:
            while found := self.store.bulk_keys(first, end, SLICE):
                for number, owner, partition in map(keys.bulk_of, found):
                    if owner != sink:
                        continue
                    if runs and runs[-1].last + 1 == number:
                        runs[-1] = replace(runs[-1], last=number)
                    else:
                        runs.append(Due(sink, partition, bulk=True, first=number, last=number, size=0))
                first = found[-1] + b"\0"
        except StoreError as error:
            raise _refusal(error) from error
        return runs

    def entries(self, sink: int, partition: int, first: int, end: int, limit: int) -> list[Entry]:
        """Up to ``limit`` entries with bases in ``[first, end)``, by offset."""
        low, high = keys.places(sink, partition, first, end)
        return self._entries(self.scan(Family.INDEX, low, high, min(limit, SLICE)))

    def entry_before(self, sink: int, partition: int, first: int, end: int) -> Entry | None:
        """The entry with the highest base in ``[first, end)``."""
        low, high = keys.places(sink, partition, first, end)
        found = self._entries(self.scan(Family.INDEX, low, high, 1, reverse=True))
        return found[0] if found else None

    def _entries(self, found: list[tuple[bytes, bytes]]) -> list[Entry]:
        entries: list[Entry] = []
        for key, value in found:
            _, partition, base = keys.place_of(key)
            try:
                entries.append(codec.decode_entry(base, value))
            except codec.Undecodable as damage:
                _log.error("index entry was damaged partition=%d offset=%d cause=%s", partition, base, damage)
        return entries

    def slots(self, sink: int, writer_id: str, epoch: int) -> dict[int, list[Slot]]:
        """The window of a writer's epoch, per partition."""
        found: dict[int, list[Slot]] = {}
        try:
            stored = list(self.scan_all(Family.META, *keys.slots(sink, writer_id)))
        except StoreFenced as failure:
            if not isinstance(failure.__cause__, StoreCorrupt):
                raise
            _log.error("writer's window could not be read, it is dropped writer=%s cause=%s", writer_id, failure)
            return {}
        for key, value in stored:
            try:
                stored_epoch, slot = codec.decode_slot(value)
            except codec.Undecodable as damage:
                _log.error("writer's slot was damaged writer=%s cause=%s", writer_id, damage)
                continue
            if stored_epoch == epoch:
                found.setdefault(keys.slot_partition(key), []).append(slot)
        return found

    def epochs(self, sink: int, producer: str, first: int, limit: int) -> list[EpochRecord]:
        """Return up to ``limit`` epochs of a producer from number ``first`` on that may have live pages.

        A damaged one is left out, which is logged.
        """
        found: list[EpochRecord] = []
        for _, value in self.scan(Family.META, *keys.epochs(sink, producer, first), limit):
            try:
                found.append(codec.decode_epoch(value))
            except codec.Undecodable as damage:
                _log.error("epoch was damaged sink=%d producer=%s cause=%s", sink, producer, damage)
        return found

    def scan_all(self, family: Family, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys of a range, in slices."""
        while True:
            found = self.scan(family, first, end, SLICE)
            yield from found
            if len(found) < SLICE:
                return
            first = found[-1][0] + b"\0"

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """A bounded slice of a family; see ``Store.scan``."""
        try:
            return self.store.scan(family, first, end, limit, reverse=reverse)
        except StoreCorrupt as error:
            raise (IndexDamaged if family is Family.INDEX else StoreFenced)(str(error)) from error
        except StoreError as error:
            raise _refusal(error) from error

    def live_bytes(self) -> int:
        """Bytes that the store takes up on its device. Raises ``ReadFailed``."""
        try:
            return self.store.live_bytes()
        except StoreError as error:
            raise _refusal(error) from error

    def free_bytes(self) -> int:
        """Bytes that its device has left. Raises ``ReadFailed``."""
        try:
            return self.store.free_bytes()
        except StoreError as error:
            raise _refusal(error) from error

    def close(self) -> None:
        """Give the store up."""
        self.store.close()


def _refusal(error: StoreError) -> BrokerError:
    """Return the error of the core for a failed read."""
    return ReadFailed(str(error)) if isinstance(error, StoreUnreadable) else StoreFenced(str(error))


def _due_span(due: Due) -> keys.Span:
    if due.bulk:
        return keys.bulk(due.first), keys.bulk(due.last + 1)
    if due.partition == WHOLE_SINK:
        return keys.of_sink(due.sink)
    return keys.places(due.sink, due.partition, due.first, due.last + 1)


def _operations(write: Write) -> list[Operation]:
    put, meta = _put, Family.META
    match write:
        case PutEntry(sink, partition, entry):
            return [Put(Family.INDEX, keys.place(sink, partition, entry.base), codec.encode_entry(entry))]
        case PutPlaced(sink, partition, before, accepted_at_us, age_us, pages):
            places: list[bytes] = []
            entries: list[bytes] = []
            for base, value in codec.encode_placed(before, accepted_at_us, age_us, pages):
                places.append(keys.place(sink, partition, base))
                entries.append(value)
            return [PutAll(Family.INDEX, places, entries)]
        case DropEntriesFrom(sink, partition, first):
            return [DeleteRange(Family.INDEX, *keys.places(sink, partition, first, (1 << 64) - 1))]
        case PutPlacing(sink, epochs):
            return put(keys.placing(sink), codec.encode_placing(epochs))
        case DropPlacing(sink):
            return [Delete(meta, keys.placing(sink))]
        case DropEntry(sink, partition, base):
            return [Delete(Family.INDEX, keys.place(sink, partition, base))]
        case PutTail(sink, partition, tail):
            return put(keys.partition(keys.TAIL, sink, partition), codec.encode_tail(tail))
        case PutHead(sink, partition, head):
            return put(keys.partition(keys.HEAD, sink, partition), codec.encode_head(head))
        case PutCounting(start_count):
            return put(keys.COUNTING, codec.encode_number(start_count))
        case PutReserve(sink, partition, reserve):
            return put(keys.partition(keys.RESERVE, sink, partition), codec.encode_reserve(reserve))
        case DropReserve(sink, partition):
            return [Delete(meta, keys.partition(keys.RESERVE, sink, partition))]
        case PutHeld(sink, partition, held):
            place = keys.partition(keys.HELD, sink, partition)
            return put(place, codec.encode_held(held)) if held else [Delete(meta, place)]
        case PutCursor(sink, subscription, partition, cursor):
            return put(keys.cursor(sink, subscription, partition), codec.encode_cursor(cursor))
        case PutSubscription(sink, subscribed):
            return put(keys.subscription(sink, subscribed.name), codec.encode_subscription(subscribed))
        case PutTotals(sink, subscription, partition, totals):
            return put(keys.totals(sink, subscription, partition), codec.encode_totals(totals))
        case PutSchema(sink, schema):
            return put(keys.schema(sink, schema.version), codec.encode_schema(schema))
        case DropSubscription(sink, name, partitions):
            gone = [key(sink, name, p) for p in range(partitions) for key in (keys.cursor, keys.totals)]
            return [Delete(meta, key) for key in (keys.subscription(sink, name), *gone)]
        case PutMarks(sink, partition, marks):
            place = keys.partition(keys.MARKS, sink, partition)
            return put(place, codec.encode_marks(marks)) if marks else [Delete(meta, place)]
        case PutSlot(sink, writer_id, epoch, partition, slot):
            return put(keys.slot(sink, writer_id, partition, slot.sequence), codec.encode_slot(epoch, slot))
        case PutWriter(sink, writer_id, epoch):
            return [
                DeleteRange(meta, *keys.slots(sink, writer_id)),
                *put(keys.writer(sink, writer_id), codec.encode_number(epoch)),
            ]
        case DropWriter(sink, writer_id):
            return [
                DeleteRange(meta, *keys.slots(sink, writer_id)),
                Delete(meta, keys.writer(sink, writer_id)),
            ]
        case PutGap(sink, partition, gap):
            return put(keys.gap(sink, partition, gap.first, gap.subscription), codec.encode_gap(gap))
        case DropGap(sink, partition, first, subscription):
            return [Delete(meta, keys.gap(sink, partition, first, subscription))]
        case PutDue(due):
            key = keys.due(due.sink, due.partition, bulk=due.bulk, first=due.first)
            return put(key, codec.encode_due(due.last, due.size))
        case Reclaim(due):
            return _reclaim(due)
        case Reclaimed(due):
            return [Delete(meta, keys.due(due.sink, due.partition, bulk=due.bulk, first=due.first))]
        case PutAge():
            return put(keys.AGE, codec.encode_age(write))
        case PutStopped(start_count):
            return put(keys.STOPPED, codec.encode_number(start_count))
        case PutQuarantine(sink, partition, entry):
            return put(keys.quarantine(sink, partition, entry.number), codec.encode_quarantined(entry))
        case DropQuarantine(sink, partition, number):
            return [Delete(meta, keys.quarantine(sink, partition, number))]
        case PutStage(sink, stage):
            return put(keys.stage(sink, stage.number), codec.encode_stage(stage))
        case PutStaged(sink, stage_number, partition, sequence, page):
            return put(keys.staged(sink, stage_number, partition, sequence), codec.encode_staged(page))
        case DropStages(sink, first, last):
            spans = keys.stages(sink, first, last)
            if first == last:  # what is deleted by range slows reads that cross it
                return [Delete(meta, spans[0][0]), DeleteRange(meta, *spans[1])]
            return [DeleteRange(meta, *span) for span in spans]
        case PutProducer(sink, producer):
            return put(keys.producer(sink, producer.producer), codec.encode_producer(producer))
        case DropProducer(sink, name):
            gone_with_it = (keys.epochs(sink, name), keys.all_epoch_stages(sink, name))
            return [*(DeleteRange(meta, *span) for span in gone_with_it), Delete(meta, keys.producer(sink, name))]
        case PutEpoch(sink, epoch):
            return put(keys.epoch(sink, epoch.producer, epoch.epoch), codec.encode_epoch(epoch))
        case PutEpochStages(sink, name, number, partition, stages):
            return put(keys.epoch_stages(sink, name, number, partition), codec.encode_epoch_stages(stages))
        case DropEpochStages(sink, name, number):
            return [DeleteRange(meta, *keys.all_epoch_stages(sink, name, number))]
        case DropEpoch(sink, name, number, partitions):
            gone = [keys.epoch_stages(sink, name, number, partition) for partition in partitions]
            return [Delete(meta, key) for key in (keys.epoch(sink, name, number), *gone)]
        case PutSink(record, fresh):
            counted = put(keys.NEXT_SINK, codec.encode_number(record.id + 1)) if fresh else []
            value = codec.encode_sink(record)
            return [*counted, *put(keys.sink(record.id), value), Put(Family.INDEX, keys.sink_copy(record.id), value)]
        case DropSink(sink):
            return [
                DeleteRange(Family.INDEX, *keys.of_sink(sink)),
                Delete(Family.INDEX, keys.sink_copy(sink)),
                *(DeleteRange(meta, *keys.of_sink(sink, kind)) for kind in (*keys.OF_SINKS, keys.DUE, keys.QUARANTINE)),
                *_operations(PutDue(Due(sink, WHOLE_SINK, bulk=True, first=0, last=0, size=0))),
                *_operations(PutDue(Due(sink, WHOLE_SINK, bulk=False, first=0, last=0, size=0))),
            ]


def _put(key: bytes, value: bytes) -> list[Operation]:
    return [Put(Family.META, key, value)]


def _reclaim(due: Due) -> list[Operation]:
    first, end = _due_span(due)
    if due.bulk or due.partition == WHOLE_SINK:
        return [DeleteRange(Family.BULK if due.bulk else Family.SMALL, first, end)]
    return [
        Delete(Family.SMALL, keys.place(due.sink, due.partition, number)) for number in range(due.first, due.last + 1)
    ]
