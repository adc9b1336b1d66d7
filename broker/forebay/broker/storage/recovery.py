"""State that a start reads: sinks, counters, cursors, gaps, writers and the reclaim ledger.

It reads no page and no index entry. A start count is written and synced before anything else, so page numbers and owner
epochs of two starts never meet. It is above that of every page in a file too: a damaged log resets the count, but not
the files.

Pages that no key names (a crash came between their ingest and their batch) go into the reclaim ledger.

Damage is repaired, by the rules in ``repair.partitions``, before anything is served, and reported. Only then is more
read.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.repair import IndexDamaged, Mended
from forebay.broker.core.writes import (
    NUMBER_BITS,
    DropEntriesFrom,
    DropEpochStages,
    DropPlacing,
    Due,
    PutAge,
    PutDue,
    PutQuarantine,
    Write,
)
from forebay.broker.storage.errors import REMEDY, StoreCorrupt, StoreError, StoreUnreadable
from forebay.broker.storage.records import codec, keys
from forebay.broker.storage.repair.partitions import Mending
from forebay.broker.storage.repair.survey import SurveyingJournal
from forebay.broker.storage.state import OF_SINKS, State, StoredSink, decoded
from forebay.broker.storage.store.contract import Family, Put, Store
from forebay.broker.storage.store.read_retries import START_READ_DELAYS_S, patiently

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state of a store at its start."""

    journal: SurveyingJournal
    start_count: int
    counting: int
    """The start whose counts of what memory accepted are those of the last process that accepted anything."""

    stopped: bool
    """True if that process stopped in order: its cursors are up to date."""

    next_sink: int
    age: PutAge
    """The broker's own clock, and the machine's, when it was last stored."""

    sinks: tuple[StoredSink, ...]
    due: tuple[Due, ...]
    quarantined: tuple[PutQuarantine, ...] = ()
    """Quarantined pages."""

    mended: tuple[Mended, ...] = ()
    """Damage and its repair."""


def recover(store: Store) -> Recovered:
    """Begin a start on ``store``: count it, read its state, repair damage, add orphans to the ledger.

    Raises ``StoreError``: ``StoreCorrupt`` where the state is damaged beyond repair, ``StoreUnreadable`` where reads
    fail for another reason, also when they are tried again. Blocks.
    """

    def begin() -> Recovered:
        with errors_of_a_start():
            return _recover(store)

    # What was written before a read failed is what a start that was killed there leaves behind.
    return patiently(begin, START_READ_DELAYS_S, passing=StoreUnreadable)


@contextmanager
def errors_of_a_start() -> Iterator[None]:
    """Convert errors during a start: a fenced state is reported as the store's own error."""
    try:
        try:
            yield
        except (StoreFenced, ReadFailed, IndexDamaged) as failure:
            if isinstance(failure.__cause__, StoreError):
                raise failure.__cause__ from None
            raise
    except StoreCorrupt as damage:
        raise StoreCorrupt(damage.family, f"{damage.reason}; {REMEDY}", key=damage.key) from damage


def _recover(store: Store) -> Recovered:
    state = State(store)
    mending = Mending(state)
    if not mending.journal.store_id:
        mending.journal.store_id = secrets.token_bytes(16)
        store.write([Put(Family.META, keys.STORE, codec.encode_text(mending.journal.store_id.hex()))])
    journal = mending.journal
    in_files = max((keys.bulk_of(key)[0] for key in store.highest_keys()), default=0)
    highest, stored_records = mending.highest(in_files)
    counted_records, counted_starts = store.marked()
    start_count = max(mending.start(), in_files >> NUMBER_BITS, highest >> NUMBER_BITS, counted_starts) + 1
    missing = max(0, counted_records - stored_records)
    journal.start_count, journal.records = start_count, max(counted_records, stored_records)
    store.mark((journal.records, start_count))
    journal.put_number(keys.START, start_count)
    sinks = {sink.record.id: sink for sink in _sinks(state, mending)}
    writes: list[Write] = mending.mend(sinks, missing=missing, numbers_max=in_files if missing else highest)
    thrown_away = [write.due for write in writes if isinstance(write, PutDue)]
    due = [*_due(state, mending, writes), *thrown_away]
    if in_files > highest and not missing:
        _log.warning("orphaned pages of a crash were found")
        orphans = Due(0, 0, bulk=True, first=highest + 1, last=in_files, size=0)
        writes.append(PutDue(orphans))
        due = [orphans, *(one for one in due if keys_of(one) != keys_of(orphans))]
    writes += _cut_off(state, sinks)
    next_sink = mending.next_sink([*sinks, *(one.sink for one in due)])
    age = mending.age(sinks.values())
    counting = mending.counting(start_count - 1)
    stopped = mending.stopped() == counting
    quarantined = tuple(_quarantined(state, mending))
    mending.finish(writes, highest=max(highest, in_files) if missing else None)
    for mended in mending.told:
        _log.warning("damage was repaired %s", mended)
    return Recovered(
        journal=journal,
        start_count=start_count,
        counting=counting,
        stopped=stopped,
        next_sink=next_sink,
        age=age,
        sinks=tuple(sinks[number] for number in sorted(sinks)),
        due=tuple(due),
        quarantined=quarantined,
        mended=tuple(mending.told),
    )


def _cut_off(state: State, sinks: Mapping[int, StoredSink]) -> Iterator[Write]:
    """Remove what a commit has written behind the ends of a sink's partitions, and a crash has cut off."""
    for key, value in state.all(keys.PLACING):
        sink = sinks.get(keys.sink_of(key))
        if sink is None:
            continue
        _log.info("a commit was interrupted, its pages are still staged sink=%s", sink.record.name)
        for partition in range(sink.partitions):
            yield DropEntriesFrom(sink.record.id, partition, sink.tails.get(partition, Tail()).next_offset)
        for producer, epoch in decoded(value, codec.decode_placing) or ():
            yield DropEpochStages(sink.record.id, producer, epoch)
        yield DropPlacing(sink.record.id)


def keys_of(due: Due) -> tuple[int, int, bool, int]:
    """Return the key of a ledger entry."""
    return due.sink, due.partition, due.bulk, due.first


def _due(state: State, mending: Mending, writes: list[Write]) -> list[Due]:
    due: list[Due] = []
    for key, value in state.all(keys.DUE):
        sink, partition, bulk, first = keys.due_of(key)
        found = decoded(value, codec.decode_due)
        if found is None:
            mending.tell("ledger entry", sink, partition, f"only page {first} of it is reclaimed")
            found = (first, 0)
            writes.append(PutDue(Due(sink, partition, bulk, first, *found)))
        due.append(Due(sink, partition, bulk, first, *found))
    return due


def _quarantined(state: State, mending: Mending) -> Iterator[PutQuarantine]:
    for key, value in state.all(keys.QUARANTINE):
        sink, partition, number = keys.place_of(key[1:])
        entry = decoded(value, codec.decode_quarantined)
        if entry is None:
            mending.tell("quarantined page", sink, partition, f"page {number} is no longer kept aside")
        else:
            yield PutQuarantine(sink, partition, entry)


def _sinks(state: State, mending: Mending) -> list[StoredSink]:
    sinks = {number: StoredSink(record) for number, record in mending.sinks().items()}
    for kind in OF_SINKS:
        for key, value in state.all(kind):
            sink = sinks.get(keys.sink_of(key))
            if sink is None:
                _log.warning("state without a sink was left unchanged kind=%d sink=%d", kind[0], keys.sink_of(key))
            elif not _take(sink, kind, key, value):
                mending.damaged(kind, key)
    return list(sinks.values())


def _take(sink: StoredSink, kind: bytes, key: bytes, value: bytes) -> bool:
    """Note a value; False where it does not check out."""
    if kind in keys.OF_EPOCHS:
        return _take_epochs(sink, kind, key, value)
    _, partition = keys.partition_of(key) if kind not in {keys.WRITER, keys.SUBSCRIPTION} else (0, 0)
    try:
        if kind == keys.TAIL:
            sink.tails[partition] = codec.decode_tail(value)
        elif kind == keys.HEAD:
            sink.heads[partition] = codec.decode_head(value)
        elif kind == keys.CURSOR:
            _, subscription, partition = keys.cursor_of(key)
            sink.cursors[subscription, partition] = codec.decode_cursor(value)
        elif kind == keys.WRITER:
            _, writer_id = keys.writer_of(key)
            sink.writers[writer_id] = codec.decode_number(value)
        elif kind == keys.SUBSCRIPTION:
            found = codec.decode_subscription(value)
            sink.subscriptions[found.name] = found
        elif kind == keys.TOTALS:
            _, subscription, partition = keys.cursor_of(key)
            sink.totals[subscription, partition] = codec.decode_totals(value)
        elif kind == keys.MARKS:
            sink.marks[partition] = codec.decode_marks(value)
        elif kind == keys.HELD:
            sink.held[partition] = codec.decode_held(value)
        elif kind == keys.RESERVE:
            sink.reserves[partition] = codec.decode_reserve(value)
        elif kind == keys.SCHEMA:
            _, version = keys.schema_of(key)
            sink.schemas[version] = codec.decode_schema(version, value)
        elif kind == keys.GAP:
            first, subscription = keys.gap_of(key)
            sink.gaps.setdefault(partition, []).append(codec.decode_gap(first, value, subscription))
    except codec.Undecodable:
        return False
    return True


def _take_epochs(sink: StoredSink, kind: bytes, key: bytes, value: bytes) -> bool:
    try:
        if kind == keys.STAGE:
            stage = codec.decode_stage(value)
            sink.stages[stage.number] = stage
        elif kind == keys.STAGED:
            number, partition, sequence = keys.staged_of(key)
            sink.staged.setdefault(number, {})[partition, sequence] = codec.decode_staged(value)
        elif kind == keys.PRODUCER:
            producer = codec.decode_producer(value)
            sink.producers[producer.producer] = producer
    except codec.Undecodable:
        return False
    return True
