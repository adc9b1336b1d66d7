"""Repair of damaged partitions at a start.

The rule of each kind of stored value is in its file (``Kind.damaged``). The values of a partition are repaired
together: its index is surveyed, and offsets that are neither in a page nor in a gap become a gap. Where the end of the
log is lost, pages in files get new index entries, and offsets continue above all that was stored.

Nothing here changes an intact store. All writes go into one batch, before anything is served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition import repair as rules
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Encoding, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.repair import Survey, known_end
from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.writes import (
    DropEntry,
    DropGap,
    Due,
    PutCursor,
    PutEntry,
    PutGap,
    PutHead,
    PutReserve,
    PutTail,
    Write,
)
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.kind import place_of
from forebay.broker.storage.records.pages.due import DUE, due_of, first_due
from forebay.broker.storage.records.pages.entry import ENTRY, OPEN_END
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.partitions.head import HEAD
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.records.registry import BY_PREFIX
from forebay.broker.storage.records.sinks.writer import SLOT
from forebay.broker.storage.repair.damage import Damage
from forebay.broker.storage.repair.survey import SurveyedPartition, SurveyingJournal, survey, walk
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.stored_sink import StoredSink
from forebay.state.numbers import counted, plural

DEFAULT: Final = "default"


class PartitionRepair:
    """Repair of the partitions of a store that starts."""

    def __init__(self, damage: Damage, journal: SurveyingJournal, *, missing: int, numbers_max: int) -> None:
        """``missing`` records were stored and then lost with the end of the log.

        Pages up to ``numbers_max`` had a name.
        """
        self._damage = damage
        self._state = damage.state
        self._journal = journal
        self._missing = missing
        self._numbers_max = numbers_max
        self.with_rows: set[int] = set()
        """Sinks with pages of rows that were named again."""

    def repair(self, sinks: Mapping[int, StoredSink]) -> list[Write]:
        """Repair the damaged partitions of all sinks; returns the writes."""
        writes: list[Write] = []
        places = self._places(sinks)
        found = {place[0] for place in places}
        cursors = {sink_id: sinks[sink_id].cursors_by_partition() for sink_id in found}
        staged = {sink_id: self._interrupted(sinks[sink_id]) for sink_id in found}
        for sink_id, partition in sorted(places):
            writes += self._repair(sinks[sink_id], partition, cursors[sink_id].get(partition, {}), staged[sink_id])
        return writes

    def repair_reserves(self, sinks: Mapping[int, StoredSink]) -> list[Write]:
        """Repair reservations: a partition continues above every offset that it may have assigned.

        Assigned offsets that no stored value has were in memory, or in a log that was not synced.
        """
        bad = {RESERVE.parts(key) for key in self._damage.keys(RESERVE)}
        for number, sink in sinks.items():
            if sink.record.settings.corrected()[0].may_lose:
                places = [(number, partition) for partition in range(sink.partitions) if partition not in sink.reserves]
                bad |= {place for place in places if self._state.is_lost(RESERVE.key(*place))}
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
            end = known + in_memory + rules.ASSIGNED_MAX
            sink.reserves[partition] = Reserve(end)
            writes.append(PutReserve(number, partition, sink.reserves[partition]))
            self._damage.report(
                RESERVE.name, number, partition, f"offsets continue at {end} or below: none is assigned twice"
            )
        return writes

    def _places(self, sinks: Mapping[int, StoredSink]) -> set[tuple[int, int]]:
        """Return the partitions that have to be surveyed."""
        surveyed = [kind for kind in BY_PREFIX.values() if kind.surveyed]
        places = {place_of(key) for kind in surveyed for key in self._damage.keys(kind)}
        for number, sink in sinks.items():
            by_partition = sink.cursors_by_partition()
            for partition in range(sink.partitions):
                cursors = by_partition.get(partition, {})
                tail = sink.tails.get(partition)
                # What only memory held is in no tail, and may have been acked: that is a kill and no damage.
                highest = max((cursor.watermark for cursor in cursors.values()), default=0)
                ahead = highest > sink.assigned_end(partition)
                own = (TAIL.key(number, partition), HEAD.key(number, partition))
                lost = any(map(self._state.is_lost, (*own, CURSOR.key(number, partition, DEFAULT))))
                spoken_of = partition in sink.heads or bool(cursors)
                orphaned = tail is None and spoken_of and partition not in sink.reserves
                if self._missing or ahead or lost or orphaned:
                    places.add((number, partition))
        return {place for place in places if place[0] in sinks}

    def _repair(
        self, sink: StoredSink, partition: int, cursors: Mapping[str, Cursor], staged: Collection[int]
    ) -> list[Write]:
        number, missing = sink.record.id, self._missing
        tail, head = sink.tails.get(partition), sink.heads.get(partition)
        own = [gap for gap in sink.gaps.get(partition, []) if gap.subscription]
        gaps = [gap for gap in sink.gaps.get(partition, []) if not gap.subscription]
        ends = known_end(cursors.values(), gaps, head, Survey())
        head_lost = head is None and self._damage.has(HEAD.key(number, partition))
        earliest = head.earliest if head is not None else 0
        if head_lost:
            earliest = self._first_base(number, partition, tail.next_offset if tail is not None else ends)
        end = tail.next_offset if tail is not None and not missing else None
        most, due = self._numbers_max, self._due(number, partition)
        place = SurveyedPartition(
            number,
            partition,
            earliest=earliest,
            end=end,
            gaps=gaps,
            numbers_max=most,
            due=due,
            staged=staged,
        )
        found = self._state.index(lambda: survey(self._journal, place))
        bad_cursors = self._bad_cursors(sink, partition, head)
        above = max(found.end, ends, tail.next_offset + missing if tail is not None else missing)
        if tail is None:
            above = max(above, self._slots_end(number, partition))
            if head_lost or bad_cursors or self._index_lost(number, partition):
                above += rules.RESERVE
        if not above:
            return []
        rest = Range(end if end is not None else max(found.end, earliest), above)
        found = replace(found, lost=_apart([*found.lost, *rules.uncovered(rest, gaps)]))
        now = replace(tail, next_offset=above) if tail is not None and found.end <= tail.next_offset else None
        now = now or rules.tail_of(found, head or Head(), above)
        made = rules.gaps_for(found.lost, now.accepted_at_us)
        bad_gaps = self._bad_gaps(number, partition)
        made += _below([first for first, name in bad_gaps if not name], gaps, earliest, now.accepted_at_us)
        counted_head = head or (rules.head_of(found, gaps) if head_lost else Head())
        head_now = rules.recounted(counted_head, now, found)
        gaps = sorted([*gaps, *made], key=lambda gap: gap.first)
        writes: list[Write] = [DropGap(number, partition, *each) for each in bad_gaps]
        writes += [PutEntry(number, partition, entry) for entry in found.rebuilt]
        writes += [DropEntry(number, partition, base) for base in found.broken]
        writes += [PutGap(number, partition, gap) for gap in made]
        for name in sorted({DEFAULT, *cursors, *bad_cursors}):
            if name in bad_cursors:
                cursor = rules.cursor_from(head_now.earliest, gaps, now.next_offset)
                self._damage.report(
                    CURSOR.name, number, partition, f"`{name}` begins again at {cursor.start}, nothing is skipped"
                )
            else:
                cursor = rules.dropped_for(cursors.get(name, Cursor()), found.lost)
            sink.cursors[name, partition] = cursor
            writes.append(PutCursor(number, name, partition, cursor))
        if now != tail:
            self._damage.report(TAIL.name, number, partition, f"offsets continue at {now.next_offset}")
        if head_lost or (head_now != head and head is not None):
            self._damage.report(
                HEAD.name,
                number,
                partition,
                f"recounted: {counted(found.records, 'record')} from {head_now.earliest} on",
            )
        if any(entry.encoding == Encoding.ARROW for entry in found.rebuilt):
            self.with_rows.add(number)
        if found.rebuilt:
            self._damage.report(
                "index",
                number,
                partition,
                f"{counted(len(found.rebuilt), 'page')} {plural(len(found.rebuilt), 'was', 'were')} named again",
            )
        for gap in made:
            self._damage.report(GAP.name, number, partition, f"offsets {gap.first} to {gap.end - 1} were in no page")
        sink.tails[partition], sink.heads[partition], sink.gaps[partition] = now, head_now, [*gaps, *own]
        return [*writes, PutTail(number, partition, now), PutHead(number, partition, head_now)]

    def _interrupted(self, sink: StoredSink) -> frozenset[int]:
        """Return the numbers of the staged pages, if a large commit of the sink was interrupted.

        It may have written entries for them beyond the end of the partition. The pages will be committed again.
        """
        note = LARGE_COMMIT.key(sink.record.id)
        if all(key != note for key, _ in self._state.all(LARGE_COMMIT)):
            return frozenset()
        return frozenset(page.number for pages in sink.staged.values() for page in pages.values())

    def _due(self, sink: int, partition: int) -> list[Due]:
        found: list[Due] = []
        for key, value in self._state.all(DUE):
            if place_of(key) == (sink, partition):
                found.append(due_of(key, value) or first_due(*DUE.parts(key)))
        return found

    def _bad_gaps(self, sink: int, partition: int) -> list[tuple[int, str]]:
        found = map(GAP.parts, self._damage.keys(GAP))
        return [(first, name) for owner, at, first, name in found if (owner, at) == (sink, partition)]

    def _first_base(self, sink: int, partition: int, otherwise: int) -> int:
        def read() -> int:
            return next((base for base, _ in walk(self._journal, sink, partition)), otherwise)

        return self._state.index(read)

    def _index_lost(self, sink: int, partition: int) -> bool:
        low, high = ENTRY.between(sink, partition, first=0, end=OPEN_END)
        return any(first < high and low < end for first, end in self._state.index_lost)

    def _bad_cursors(self, sink: StoredSink, partition: int, head: Head | None) -> set[str]:
        """Subscriptions whose cursor is damaged, or is not there although something was settled."""
        number = sink.record.id
        found = map(CURSOR.parts, self._damage.keys(CURSOR))
        bad = {name for owner, at, name in found if (owner, at) == (number, partition)}
        if (DEFAULT, partition) not in sink.cursors:
            removed = head is not None and head.removed_records > 0
            if removed or self._state.is_lost(CURSOR.key(number, partition, DEFAULT)):
                bad.add(DEFAULT)
        return bad

    def _slots_end(self, sink: int, partition: int) -> int:
        """Return the offset above all that the windows of writers contain."""
        ends = [0]
        try:
            for key, value in self._journal.scan_all(Family.META, *SLOT.under(sink)):
                slot = SLOT.decoded(value)
                if slot is not None and SLOT.parts(key)[2] == partition:
                    ends.append(slot[1].first + slot[1].count)
        except StoreFenced as failure:
            if not isinstance(failure.__cause__, StoreCorrupt):
                raise
            return rules.RESERVE
        return max(ends)


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
