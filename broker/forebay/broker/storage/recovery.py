"""State that a start reads: sinks, counters, cursors, gaps, writers and the reclaim ledger.

It reads no page and no index entry. A start count is written and synced before anything else, so page numbers and owner
epochs of two starts never collide. It is also above the start count of every page in a file, because a damaged log
resets the stored count.

Orphaned pages (of a crash between their ingest and their batch) are added to the reclaim ledger.

Damage is repaired, by the rules in ``repair.partitions``, and reported before anything is served.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.log import Tail
from forebay.broker.core.partition.repair import IndexDamaged, RepairReport
from forebay.broker.core.writes import (
    NUMBER_BITS,
    DropEntriesFrom,
    DropEpochStages,
    DropLargeCommit,
    Due,
    PutAge,
    PutDue,
    PutQuarantine,
    Write,
)
from forebay.broker.storage.errors import REMEDY, StoreCorrupt, StoreError, StoreUnreadable
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.kind import place_of
from forebay.broker.storage.records.pages.due import DUE, due_of
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.records.registry import BY_PREFIX
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.records.store import HIGHEST, REALTIME, RESTORED, START, STORE_ID
from forebay.broker.storage.repair import store_values
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.repair.epochs import repair_epochs
from forebay.broker.storage.repair.partitions import PartitionRepair
from forebay.broker.storage.repair.sinks import adopt, all_sinks, repair_schemas
from forebay.broker.storage.repair.survey import SurveyingJournal
from forebay.broker.storage.state import State
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.read_retries import START_READ_DELAYS_S, patiently
from forebay.broker.storage.stored_sink import StoredSink
from forebay.state.numbers import plural

_log: Final = logging.getLogger(__name__)
_place: Final = attrgetter("sink", "partition", "bulk", "first")
"""Key of a ledger entry."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state of a store at its start."""

    journal: SurveyingJournal
    start_count: int
    counting: int
    """Last start that counted accepted records; ``accepted`` trusts only its counts."""

    stopped: bool
    """True if that start ended with an orderly stop: its cursors are up to date."""

    next_sink: int
    age: PutAge
    """Last stored readings of the broker's own clock and of the machine's clocks."""

    sinks: tuple[StoredSink, ...]
    due: tuple[Due, ...]
    positions: Mapping[str, bytes | None]
    """Saved positions by key; None for a damaged one."""

    quarantined: tuple[PutQuarantine, ...] = ()
    """Quarantined pages."""

    repairs: tuple[RepairReport, ...] = ()
    """Damage and its repair."""

    restored: Restored | None = None
    """Restore that the store comes from."""

    realtime: bool | None = None
    """Stored choice whether readers at the head are served from memory."""

    @property
    def store_id(self) -> str:
        """Identity of the store; that of its pages is ``journal.store_id``."""
        return self.restored.store_id if self.restored is not None else self.journal.store_id.hex()


def recover(store: Store) -> Recovered:
    """Begin a start on ``store``: count it, read its state, repair damage, add orphans to the ledger.

    Raises ``StoreError``: ``StoreCorrupt`` where the state is damaged beyond repair, ``StoreUnreadable`` where reads
    fail for another reason after all retries. Blocks.
    """

    def begin() -> Recovered:
        with errors_of_a_start():
            return _recover(store)

    # Writes before a failed read leave the same state as a start that was killed there.
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
    damage = Damage(state)
    journal = SurveyingJournal(store, store_values.store_id(damage))
    if state.lost:
        lost = len(state.lost)
        detail = f"could not be read; {plural(lost, 'its', 'their')} gaps, writers and ledger entries are lost"
        damage.report("state", None, None, f"{lost} {plural(lost, 'range')} of keys {detail}")
    if not journal.store_id:
        journal.store_id = secrets.token_bytes(16)
        store_values.put(store, STORE_ID, journal.store_id.hex())
    in_files = max((BULK_PAGE.parts(key)[0] for key in store.highest_keys()), default=0)
    highest, stored_records, highest_lost = store_values.highest(damage, in_files)
    counted_records, counted_starts = store.marked()
    damage.reports(START)
    start_count = max(state.one(START) or 0, in_files >> NUMBER_BITS, highest >> NUMBER_BITS, counted_starts) + 1
    missing = max(0, counted_records - stored_records)
    journal.start_count, journal.records = start_count, max(counted_records, stored_records)
    store.mark((journal.records, start_count))
    journal.put_number(START, start_count)
    sinks = {sink.record.id: sink for sink in _sinks(damage, journal)}
    writes = _repaired(damage, journal, sinks, missing=missing, numbers_max=in_files if missing else highest)
    discarded = [write.due for write in writes if isinstance(write, PutDue)]
    due = [*_due(damage, writes), *discarded]
    if in_files > highest and not missing:
        _log.warning("orphaned pages of a crash were added to the reclaim ledger")
        orphans = Due(0, 0, bulk=True, first=highest + 1, last=in_files, size=0)
        writes.append(PutDue(orphans))
        due = [
            orphans,
            *(one for one in due if _place(one) != _place(orphans)),
        ]
    writes += _cut_off(state, sinks)
    next_sink = store_values.next_sink(damage, [*sinks, *(one.sink for one in due)])
    age = store_values.age(damage, sinks.values())
    counting = store_values.counting(damage, start_count - 1)
    stopped = store_values.stopped(damage) == counting
    quarantined = tuple(_quarantined(damage, writes))
    positions = {POSITION.parts(key)[0]: POSITION.decoded(value) for key, value in state.all(POSITION)}
    for key in (key for key, document in positions.items() if document is None):
        damage.report(POSITION.name, None, None, f"{key}: {POSITION.damaged}")
    for kind in (RESTORED, REALTIME):
        if damage.reports(kind):
            store.commit([], [kind.delete(kind.key())], sync=False)
    realtime = state.one(REALTIME)
    if writes:
        journal.commit([], writes)
    if missing or highest_lost:
        store_values.put(store, HIGHEST, (max(highest, in_files), journal.records))
    if writes or damage.reported:
        store.sync()
    for repair in damage.reported:
        _log.warning("damage was repaired %s", repair)
    return Recovered(
        journal=journal,
        start_count=start_count,
        counting=counting,
        stopped=stopped,
        next_sink=next_sink,
        age=age,
        sinks=tuple(sinks[number] for number in sorted(sinks)),
        due=tuple(due),
        positions=positions,
        quarantined=quarantined,
        repairs=tuple(damage.reported),
        restored=state.one(RESTORED),
        realtime=None if realtime is None else realtime > 0,
    )


def _repaired(
    damage: Damage, journal: SurveyingJournal, sinks: dict[int, StoredSink], *, missing: int, numbers_max: int
) -> list[Write]:
    """Repair all state of the sinks; returns the writes.

    ``missing`` records were lost with the end of the log.
    """
    writes: list[Write] = []
    for kind in BY_PREFIX.values():
        if kind.into is not None and kind.replaced is not None:
            for key in damage.keys(kind):
                value = damage.replace(kind, key, writes)
                if value is not None:
                    kind.into(sinks[kind.sink_of(key)])[kind.index(kind.parts(key))] = value
    partitions = PartitionRepair(damage, journal, missing=missing, numbers_max=numbers_max)
    writes += partitions.repair_reserves(sinks)
    writes += repair_epochs(damage, journal, sinks)
    if missing:
        adopt(damage, journal, sinks)
        records = f"{missing} {plural(missing, 'record')}"
        detail = f"its end is lost: {records}, except for those in files"
        damage.report("log", None, None, detail)
    writes += partitions.repair(sinks)
    return writes + repair_schemas(damage, sinks, partitions.with_rows if missing else ())


def _cut_off(state: State, sinks: Mapping[int, StoredSink]) -> Iterator[Write]:
    """Remove the entries of a commit that a crash has interrupted, beyond the ends of a sink's partitions."""
    for key, value in state.all(LARGE_COMMIT):
        sink = sinks.get(LARGE_COMMIT.sink_of(key))
        if sink is None:
            continue
        _log.info("a commit was interrupted, its pages are still staged sink=%s", sink.record.name)
        for partition in range(sink.partitions):
            yield DropEntriesFrom(sink.record.id, partition, sink.tails.get(partition, Tail()).next_offset)
        for producer, epoch in LARGE_COMMIT.decoded(value) or ():
            yield DropEpochStages(sink.record.id, producer, epoch)
        yield DropLargeCommit(sink.record.id)


def _due(damage: Damage, writes: list[Write]) -> list[Due]:
    due: list[Due] = []
    for key, value in damage.state.all(DUE):
        found = due_of(key, value)
        if found is None:
            found = damage.replace(DUE, key, writes)
        due.append(found)
    return due


def _quarantined(damage: Damage, writes: list[Write]) -> Iterator[PutQuarantine]:
    for key, value in damage.state.all(QUARANTINE):
        entry = QUARANTINE.decoded(value)
        if entry is None:
            damage.replace(QUARANTINE, key, writes)
        else:
            yield PutQuarantine(*place_of(key), entry)


def _sinks(damage: Damage, journal: SurveyingJournal) -> list[StoredSink]:
    sinks = {number: StoredSink(record) for number, record in all_sinks(damage, journal).items()}
    for kind in BY_PREFIX.values():
        if kind.into is None:
            continue
        for key, value in damage.state.all(kind):
            sink = sinks.get(kind.sink_of(key))
            if sink is None:
                place = (kind.prefix[0], kind.sink_of(key))
                _log.warning("state without a sink was left unchanged kind=%d sink=%d", *place)
                continue
            try:
                kind.load(sink, key, value)
            except Undecodable:
                damage.add(kind, key)
    return list(sinks.values())
