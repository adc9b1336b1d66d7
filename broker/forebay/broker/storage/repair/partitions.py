"""Repair of damaged state at a start: one rule for each kind.

| damaged | repair |
|---|---|
| store id | that of any page |
| start count, highest page number, next sink | above all that files and keys speak of |
| age clock | the age of the youngest page |
| sink | its copy in the index family; without one a sink `recovered-N` with the settings that are the default |
| tail | counted again from the index; where that is not whole either, offsets are left out to be sure |
| head, gap | counted again from the index and the other gaps |
| cursor | begins at the earliest record that is stored: everything is redelivered, nothing is skipped |
| writer | dropped: it reopens with a new epoch |
| stage, staged page | the stage is discarded: its epoch is rejected as incomplete, and written again |
| producer | that of its last epoch |
| schema | its version stays assigned, and its content is lost: rows of it are reported as unreadable |
| ledger entry | reclaims its first page |
| reserve | offsets go on above all that can have been handed out |
| held runs | records that were only in memory become a gap, as damaged ones |
| quarantined page | it is not kept aside any more, and its bytes stay |
| the end of the log | pages in files are named again; offsets go on above all that was stored |

Nothing here changes an intact store. All writes go into one batch, before anything is served.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Encoding, Gap
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.repair import (
    HANDED_OUT_MAX,
    RESERVE,
    Mended,
    Survey,
    cursor_from,
    dropped_for,
    gaps_for,
    head_of,
    known_end,
    recounted,
    tail_of,
    uncovered,
)
from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import (
    DropEntry,
    DropGap,
    DropWriter,
    Due,
    PutAge,
    PutCursor,
    PutEntry,
    PutGap,
    PutHead,
    PutHeld,
    PutMarks,
    PutReserve,
    PutSchema,
    PutSink,
    PutSubscription,
    PutTail,
    PutTotals,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records import codec, keys
from forebay.broker.storage.records.header import Damaged, decode_header
from forebay.broker.storage.repair.epochs import mend_epochs
from forebay.broker.storage.repair.survey import OPEN_END, Place, SurveyingJournal, survey, walk
from forebay.broker.storage.state import State, StoredSink, decoded
from forebay.broker.storage.store.contract import Family, Put

DEFAULT: Final = "default"
SCHEMAS_LEFT_OUT: Final = 16
"""Schema versions skipped behind the last known one, where keys could not be read.

Rows of one of them may be stored.
"""


class Mending:
    """Damage in a store that starts, and the writes that repair it."""

    def __init__(self, state: State) -> None:
        self.told: list[Mended] = []
        """Repairs so far."""
        self._state = state
        self._names: dict[int, str] = {}
        self._damaged: dict[bytes, list[bytes]] = {}
        self._highest_lost = False
        self._numbers_max = 0
        self._with_rows: set[int] = set()
        """Sinks with orphaned pages of rows."""
        self.journal = SurveyingJournal(state.store, self._store_id())
        if state.lost:
            detail = "could not be read; gaps, writers and ledger entries that were in them are gone"
            self.tell("state", None, None, f"{len(state.lost)} ranges of keys {detail}")

    def tell(self, what: str, sink: int | None, partition: int | None, detail: str) -> None:
        """Note a repair."""
        name = "" if sink is None else self._names.get(sink, str(sink))
        self.told.append(Mended(what, name, partition, detail))

    def damaged(self, kind: bytes, key: bytes) -> None:
        """A value of a sink's does not check out."""
        self._damaged.setdefault(kind, []).append(key)

    # -- the store's own

    def _store_id(self) -> bytes:
        text, damaged = self._state.one(keys.STORE, codec.decode_text)
        if text is not None:
            return bytes.fromhex(text)
        found = self._id_of_pages()
        if self._state.empty and not damaged and found is None:
            return b""
        store_id = found or secrets.token_bytes(16)
        self._write(keys.STORE, codec.encode_text(store_id.hex()))
        self.tell("store id", None, None, "taken from a page" if found else "made anew: there is no page")
        return store_id

    def _id_of_pages(self) -> bytes | None:
        store = self._state.store
        first, end = keys.bulk(0), keys.bulk(OPEN_END)
        values = [value for _, value in store.scan(Family.SMALL, b"", b"\xff" * 17, 10)]
        values += [
            value for key in store.bulk_keys(first, end, 10) for value in store.get_many(Family.BULK, [key]) if value
        ]
        for value in values:
            try:
                return decode_header(value).store
            except Damaged:
                continue
        return None

    def _write(self, key: bytes, value: bytes) -> None:
        self._state.store.write([Put(Family.META, key, value)])

    def start(self) -> int:
        """The start count before this one, 0 where it is not known."""
        found, damaged = self._state.one(keys.START, codec.decode_number)
        if damaged:
            self.tell("start count", None, None, "goes on above that of every page")
        return found or 0

    def counting(self, last: int) -> int:
        """Return the last start that counted its accepted records; ``last``, the one before, if it is lost."""
        found, damaged = self._state.one(keys.COUNTING, codec.decode_number)
        if damaged:
            self.tell("counting start", None, None, "taken for the last start")
            self._write(keys.COUNTING, codec.encode_number(last))
        return last if found is None else found

    def stopped(self) -> int:
        """The last start that stopped in order, 0 where it is not known."""
        found, damaged = self._state.one(keys.STOPPED, codec.decode_number)
        if damaged:
            self.tell("stopped start", None, None, "taken for a start that was killed")
            self._write(keys.STOPPED, codec.encode_number(0))
        return found or 0

    def highest(self, in_files: int) -> tuple[int, int]:
        """The highest page number that has a name, and the records stored by then."""
        found, damaged = self._state.one(keys.HIGHEST, codec.decode_highest)
        if damaged:
            self._highest_lost = True
            self.tell("highest page number", None, None, "taken from the files: pages of a crash may stay in them")
            return in_files, self._state.store.marked()[0]
        return found or (0, 0)

    def next_sink(self, known: Iterable[int]) -> int:
        """The number of the next sink."""
        found, damaged = self._state.one(keys.NEXT_SINK, codec.decode_number)
        above = max([0, *known]) + 1
        if damaged or above > (found or 1):
            if not self._state.empty:
                self.tell("next sink", None, None, f"goes on at {above}")
            self._write(keys.NEXT_SINK, codec.encode_number(max(above, found or 0)))
        return max(1, above, found or 0)

    def age(self, sinks: Iterable[StoredSink]) -> PutAge:
        """The broker's own clock, and the machine's, when they were last known."""
        found, damaged = self._state.one(keys.AGE, codec.decode_age)
        if not damaged:
            return found or PutAge()
        tails = [tail for sink in sinks for tail in sink.tails.values()]
        youngest = max(tails, key=lambda tail: tail.age_us, default=Tail())
        self.tell("age clock", None, None, "goes on at the age of the youngest page")
        age = PutAge(youngest.age_us, youngest.accepted_at_us)
        self._write(keys.AGE, codec.encode_age(age))
        return age

    # -- sinks

    def sinks(self) -> dict[int, SinkRecord]:
        """Return all sinks, from their records or from other stored values."""
        sinks: dict[int, SinkRecord] = {}
        missing: list[int] = []
        for key, value in self._state.all(keys.SINK):
            record = decoded(value, codec.decode_sink)
            if record is not None:
                sinks[record.id] = record
                self._names[record.id] = record.name
            else:
                missing.append(keys.sink_of(key))
        if missing or self._state.lost:
            copies = self._state.copies()
            of_others = {
                keys.sink_of(key) for kind in (keys.TAIL, keys.HEAD, keys.CURSOR) for key, _ in self._state.all(kind)
            }
            missing += [n for n in {*copies, *of_others} if n not in sinks and self._state.is_lost(keys.sink(n))]
            for number in sorted(set(missing)):
                self._restore(number, copies.get(number), sinks)
        return sinks

    def _restore(self, number: int, copy: SinkRecord | None, sinks: dict[int, SinkRecord]) -> None:
        record = copy or self._recovered(number, {sink.name for sink in sinks.values()})
        sinks[number] = record
        self._names[number] = record.name
        told = (
            "its settings were taken from their copy"
            if copy
            else "its name and settings are lost; they are the default"
        )
        self.tell("sink", number, None, told)
        self.journal.commit([], [PutSink(record)])

    def _recovered(self, number: int, taken: set[str]) -> SinkRecord:
        partitions = 1
        for kind in (keys.TAIL, keys.HEAD):
            found = [keys.partition_of(key)[1] for key, _ in self._state.all(kind) if keys.sink_of(key) == number]
            partitions = max(partitions, *(partition + 1 for partition in found), 1)
        name = f"recovered-{number}"
        while name in taken:
            name += "-"
            name += secrets.token_hex(2)
        return SinkRecord(number, name, secrets.token_hex(8), SinkSettings(partitions=partitions), 0)

    # -- partitions

    def mend(self, sinks: dict[int, StoredSink], *, missing: int, numbers_max: int) -> list[Write]:
        """Repair the damage of each sink; returns the writes.

        ``missing`` records were stored and then lost with the end of the log; pages up to ``numbers_max`` had a name.
        """
        writes: list[Write] = []
        self._numbers_max = numbers_max
        for key in self._damaged.pop(keys.WRITER, ()):
            sink_id, writer_id = keys.writer_of(key)
            writes.append(DropWriter(sink_id, writer_id))
            self.tell("writer", sink_id, None, "forgotten: it opens again under a new epoch")
        writes += self._subscriptions(sinks)
        writes += self._reserves(sinks)
        writes += mend_epochs(self, sinks, self._damaged)
        if missing:
            self._adopt(sinks)
            self.tell("log", None, None, f"its end is gone: {missing} records, but for those that stand in files")
        places = self._places(sinks, all_of_them=missing > 0)
        cursors = {sink_id: sinks[sink_id].cursors_by_partition() for sink_id in {place[0] for place in places}}
        for sink_id, partition in sorted(places):
            writes += self._mend(sinks[sink_id], partition, missing, cursors[sink_id].get(partition, {}))
        return writes + self._schemas(sinks, log_cut=missing > 0)

    def _subscriptions(self, sinks: Mapping[int, StoredSink]) -> list[Write]:
        """Repair subscriptions, cursors and totals, which are not in a partition's log."""
        writes: list[Write] = []
        for key in self._damaged.pop(keys.SUBSCRIPTION, ()):
            number, name = keys.writer_of(key)
            record = sinks[number].subscriptions[name] = SubscriptionRecord(name, 0, EARLIEST, "0" * 16)
            writes.append(PutSubscription(number, record))
            self.tell("subscription", number, None, f"`{name}` stays, when it was made is not known any more")
        for key in self._damaged.pop(keys.TOTALS, ()):
            number, name, partition = keys.cursor_of(key)
            writes.append(PutTotals(number, name, partition, Totals()))
            self.tell("totals", number, partition, f"those of `{name}` begin at zero")
        for key in self._damaged.get(keys.HELD, ()):
            number, partition = keys.partition_of(key)
            writes.append(PutHeld(number, partition, ()))
            self.tell("held runs", number, partition, "which records only memory held is found out from the index")
        for key in self._damaged.pop(keys.MARKS, ()):
            number, partition = keys.partition_of(key)
            writes.append(PutMarks(number, partition, ()))
            self.tell("marks", number, partition, "acked records are retained from now on only")
        return writes

    def _reserves(self, sinks: Mapping[int, StoredSink]) -> list[Write]:
        """Repair reservations: a partition continues above every offset that it may have assigned.

        Assigned offsets that no stored value has were in memory, or in a log that was not synced.
        """
        bad = {keys.partition_of(key) for key in self._damaged.pop(keys.RESERVE, ())}
        for number, sink in sinks.items():
            if sink.record.settings.corrected()[0].forgets:
                places = [(number, partition) for partition in range(sink.partitions) if partition not in sink.reserves]
                bad |= {place for place in places if self._state.is_lost(keys.partition(keys.RESERVE, *place))}
        writes: list[Write] = []
        for number, partition in sorted(bad):
            sink = sinks[number]
            cursors = [cursor for (_, at), cursor in sink.cursors.items() if at == partition]
            head, gaps = sink.heads.get(partition), sink.gaps.get(partition, ())
            held = max((run.end for run in sink.held.get(partition, ())), default=0)
            known = max(
                sink.tails.get(partition, Tail()).next_offset,
                known_end(cursors, gaps, head, Survey()),
                held,
                self._slots_end(number, partition),
            )
            in_memory = sink.record.settings.corrected()[0].memory_cache_threshold
            end = known + in_memory + HANDED_OUT_MAX
            sink.reserves[partition] = Reserve(end)
            writes.append(PutReserve(number, partition, sink.reserves[partition]))
            self.tell("reserve", number, partition, f"offsets go on at {end} at the latest: none is given twice")
        return writes

    def _schemas(self, sinks: Mapping[int, StoredSink], *, log_cut: bool) -> list[Write]:
        """Repair schemas: no version is reused, neither an unreadable one nor those that may follow the last.

        ``log_cut``: the end of the log is gone, and a version may have gone with it whose rows stand in files.
        """
        lost = [keys.schema_of(key) for key in self._damaged.pop(keys.SCHEMA, ())]
        for number, version in lost:
            self.tell("schema", number, None, f"version {version} is lost: its rows cannot be read")
        for number, sink in sinks.items():
            first = max([0, *sink.schemas, *(version for owner, version in lost if owner == number)]) + 1
            end = first + SCHEMAS_LEFT_OUT
            if self._state.is_lost(keys.schema(number, first)) or (log_cut and number in self._with_rows):
                lost += [(number, version) for version in range(first, end)]
                self.tell(
                    "schema", number, None, f"versions {first} to {end - 1} are left out: they may have been given"
                )
        for number, version in lost:
            sinks[number].schemas[version] = SchemaRecord(version, 0, b"", "")
        return [PutSchema(number, sinks[number].schemas[version]) for number, version in lost]

    def _adopt(self, sinks: dict[int, StoredSink]) -> None:
        """Add sinks whose own record was lost with the log, and whose pages are in files."""
        first, end = keys.bulk(0), keys.bulk(OPEN_END)
        while found := self._state.store.bulk_keys(first, end, 1_000):
            for _, sink_id, partition in map(keys.bulk_of, found):
                if sink_id not in sinks:
                    records = {number: sink.record for number, sink in sinks.items()}
                    self._restore(sink_id, None, records)
                    sinks[sink_id] = StoredSink(records[sink_id])
                known = sinks[sink_id]
                if partition >= known.partitions:
                    settings = replace(known.record.settings, partitions=partition + 1)
                    known.record = replace(known.record, settings=settings)
                    self.journal.commit([], [PutSink(known.record)])
            first = found[-1] + b"\0"

    def _places(self, sinks: Mapping[int, StoredSink], *, all_of_them: bool) -> set[tuple[int, int]]:
        """The partitions that have to be surveyed."""
        kinds = (keys.TAIL, keys.HEAD, keys.CURSOR, keys.GAP, keys.HELD)
        places = {keys.partition_of(key) for kind in kinds for key in self._damaged.get(kind, ())}
        for number, sink in sinks.items():
            by_partition = sink.cursors_by_partition()
            for partition in range(sink.partitions):
                cursors = by_partition.get(partition, {})
                tail = sink.tails.get(partition)
                # What only memory held is in no tail, and may have been acked: that is a kill and no damage.
                highest = max((cursor.watermark for cursor in cursors.values()), default=0)
                ahead = highest > sink.handed_out(partition)
                own = (keys.partition(keys.TAIL, number, partition), keys.partition(keys.HEAD, number, partition))
                lost = any(map(self._state.is_lost, (*own, keys.cursor(number, DEFAULT, partition))))
                spoken_of = partition in sink.heads or bool(cursors)
                orphaned = tail is None and spoken_of and partition not in sink.reserves
                if all_of_them or ahead or lost or orphaned:
                    places.add((number, partition))
        return {place for place in places if place[0] in sinks}

    def _mend(self, sink: StoredSink, partition: int, missing: int, cursors: Mapping[str, Cursor]) -> list[Write]:
        number = sink.record.id
        tail, head = sink.tails.get(partition), sink.heads.get(partition)
        own = [gap for gap in sink.gaps.get(partition, []) if gap.subscription]
        gaps = [gap for gap in sink.gaps.get(partition, []) if not gap.subscription]
        ends = known_end(cursors.values(), gaps, head, Survey())
        head_lost = head is None and self._is_bad(keys.partition(keys.HEAD, number, partition))
        earliest = head.earliest if head is not None else 0
        if head_lost:
            earliest = self._first_base(number, partition, tail.next_offset if tail is not None else ends)
        end = tail.next_offset if tail is not None and not missing else None
        most, due = self._numbers_max, self._due(number, partition)
        place = Place(number, partition, earliest=earliest, end=end, gaps=gaps, numbers_max=most, due=due)
        found = self._state.index(lambda: survey(self.journal, place))
        bad_cursors = self._bad_cursors(sink, partition, head)
        above = max(found.end, ends, tail.next_offset + missing if tail is not None else missing)
        if tail is None:
            above = max(above, self._slots_end(number, partition))
            if head_lost or bad_cursors or self._index_lost(number, partition):
                above += RESERVE
        if not above:
            return []
        behind = Range(end if end is not None else max(found.end, earliest), above)
        found = replace(found, lost=_apart([*found.lost, *uncovered(behind, gaps)]))
        now = replace(tail, next_offset=above) if tail is not None and found.end <= tail.next_offset else None
        now = now or tail_of(found, head or Head(), above)
        made = gaps_for(found.lost, now.accepted_at_us)
        bad_gaps = self._bad_gaps(number, partition)
        made += _below([first for first, name in bad_gaps if not name], gaps, earliest, now.accepted_at_us)
        counted = head or (head_of(found, gaps) if head_lost else Head())
        head_now = recounted(counted, now, found)
        gaps = sorted([*gaps, *made], key=lambda gap: gap.first)
        writes: list[Write] = [DropGap(number, partition, *each) for each in bad_gaps]
        writes += [PutEntry(number, partition, entry) for entry in found.rebuilt]
        writes += [DropEntry(number, partition, base) for base in found.broken]
        writes += [PutGap(number, partition, gap) for gap in made]
        for name in sorted({DEFAULT, *cursors, *bad_cursors}):
            if name in bad_cursors:
                cursor = cursor_from(head_now.earliest, gaps, now.next_offset)
                self.tell("cursor", number, partition, f"`{name}` begins again at {cursor.start}, nothing is skipped")
            else:
                cursor = dropped_for(cursors.get(name, Cursor()), found.lost)
            sink.cursors[name, partition] = cursor
            writes.append(PutCursor(number, name, partition, cursor))
        if now != tail:
            self.tell("tail", number, partition, f"offsets go on at {now.next_offset}")
        if head_lost or (head_now != head and head is not None):
            self.tell("head", number, partition, f"counted again: {found.records} records from {head_now.earliest} on")
        if any(entry.encoding == Encoding.ARROW for entry in found.rebuilt):
            self._with_rows.add(number)
        if found.rebuilt:
            self.tell("index", number, partition, f"{len(found.rebuilt)} pages were named again")
        for gap in made:
            self.tell("gap", number, partition, f"nothing stands for offsets {gap.first} to {gap.end - 1}")
        sink.tails[partition], sink.heads[partition], sink.gaps[partition] = now, head_now, [*gaps, *own]
        return [*writes, PutTail(number, partition, now), PutHead(number, partition, head_now)]

    def _due(self, sink: int, partition: int) -> list[Due]:
        found: list[Due] = []
        for key, value in self._state.all(keys.DUE):
            owner, at, bulk, first = keys.due_of(key)
            if (owner, at) == (sink, partition):
                last, size = decoded(value, codec.decode_due) or (first, 0)
                found.append(Due(sink, partition, bulk, first, last, size))
        return found

    def _bad_gaps(self, sink: int, partition: int) -> list[tuple[int, str]]:
        found = self._damaged.get(keys.GAP, ())
        return [keys.gap_of(key) for key in found if keys.partition_of(key) == (sink, partition)]

    def _is_bad(self, key: bytes) -> bool:
        return key in self._damaged.get(key[:1], ()) or self._state.is_lost(key)

    def _first_base(self, sink: int, partition: int, otherwise: int) -> int:
        def read() -> int:
            return next((base for base, _ in walk(self.journal, sink, partition)), otherwise)

        return self._state.index(read)

    def _index_lost(self, sink: int, partition: int) -> bool:
        low, high = keys.places(sink, partition, 0, OPEN_END)
        return any(first < high and low < end for first, end in self._state.index_lost)

    def _bad_cursors(self, sink: StoredSink, partition: int, head: Head | None) -> set[str]:
        """Subscriptions whose cursor is damaged, or is not there although something was settled."""
        number = sink.record.id
        found = [keys.cursor_of(key) for key in self._damaged.get(keys.CURSOR, ())]
        bad = {name for owner, name, at in found if (owner, at) == (number, partition)}
        if (DEFAULT, partition) not in sink.cursors:
            removed = head is not None and head.removed_records > 0
            if removed or self._state.is_lost(keys.cursor(number, DEFAULT, partition)):
                bad.add(DEFAULT)
        return bad

    def _slots_end(self, sink: int, partition: int) -> int:
        """Above the offsets that the windows of writers speak of."""
        ends = [0]
        try:
            for key, value in self.journal.scan_all(Family.META, *keys.of_sink(sink, keys.SLOT)):
                slot = decoded(value, codec.decode_slot)
                if slot is not None and keys.slot_partition(key) == partition:
                    ends.append(slot[1].first + slot[1].count)
        except StoreFenced as failure:
            if not isinstance(failure.__cause__, StoreCorrupt):
                raise
            return RESERVE
        return max(ends)

    def finish(self, writes: list[Write], *, highest: int | None) -> None:
        """Write it all, durably. ``highest``: the highest page number, where the stored one is not the truth."""
        if writes:
            self.journal.commit([], writes)
        if highest is None and self._highest_lost:
            highest = self._numbers_max
        if highest is not None:
            self._write(keys.HIGHEST, codec.encode_highest(highest, self.journal.records))
        if writes or self.told:
            self._state.store.sync()


def _below(firsts: Iterable[int], gaps: Iterable[Gap], earliest: int, at_us: int) -> list[Gap]:
    """Gaps in the place of damaged ones below all that is stored: only where they began is known."""
    begins = sorted([*firsts, *(gap.first for gap in gaps), earliest])
    found = [(first, next((later for later in begins if later > first), first)) for first in firsts]
    return [Gap(first, end, DropReason.CORRUPT, at_us, 0, 0) for first, end in found if first < end <= earliest]


def _apart(lost: Iterable[Range]) -> tuple[Range, ...]:
    """Ranges as a set: by offset, and apart."""
    found: sets.RangeSet = ()
    for part in lost:
        found = sets.add(found, part)
    return found
