"""Survey of a partition: reads its whole index, and finds pages without an entry.

The header of a page has its place, so a lost entry is rebuilt from its page. The numbers of the
pages that were appended to a partition rise with its offsets: only those between the neighbours of a hole are examined.
The times of acceptance are not in the header: a rebuilt entry gets those of the page after it, so that no record
expires too early. Staged pages are found through their epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from forebay.broker.core.partition.pages import Entry, Gap, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.repair import Survey, uncovered
from forebay.broker.core.writes import Due
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.pages_between import pages_between
from forebay.broker.storage.records.epoch_pages import EpochPages
from forebay.broker.storage.records.header import HEADER_BYTES, Damaged, body_of, decode_header
from forebay.broker.storage.records.pages.entry import ENTRY, OPEN_END, base_of, decode_entry
from forebay.broker.storage.records.sealed import Undecodable
from forebay.broker.storage.store.contract import Family


@dataclass(frozen=True, slots=True)
class SurveyedPartition:
    """Partition to survey, with its known bounds."""

    sink: int
    partition: int
    earliest: int
    """Lowest stored offset."""

    end: int | None
    """Next offset; None if the survey is to find it."""

    gaps: Sequence[Gap] = ()
    numbers_max: int = OPEN_END
    """Pages with higher numbers are orphans: they were never reported as stored."""

    known: Sequence[Entry] = ()
    """Entries in memory."""

    due: Sequence[Due] = ()
    """Trimmed or dropped pages whose bytes are not reclaimed yet."""

    staged: Collection[int] = ()
    """Numbers of pages that are staged for a commit that was interrupted: their entries are dropped."""


class SurveyingJournal(Journal):
    """Journal with the survey of a partition, as a running broker uses it."""

    def survey(
        self, sink: int, partition: int, earliest: int, end: int, gaps: Sequence[Gap], known: Sequence[Entry]
    ) -> Survey:
        """Survey a partition; see ``survey``."""
        return survey(self, SurveyedPartition(sink, partition, earliest=earliest, end=end, gaps=gaps, known=known))


def walk(journal: Journal, sink: int, partition: int) -> Iterator[tuple[int, Entry | None]]:
    """Yield all entries of a partition by base offset, None for a damaged one."""
    for key, value in journal.scan_all(Family.INDEX, *ENTRY.between(sink, partition, first=0, end=OPEN_END)):
        base = base_of(key)
        try:
            yield base, decode_entry(value, base)
        except Undecodable:
            yield base, None


def survey(journal: Journal, place: SurveyedPartition, *, look: Callable[[Entry], None] = lambda _: None) -> Survey:
    """Survey a partition; ``look`` is called with every entry. Blocks while it reads.

    Raises ``IndexDamaged`` where the index has to be rewritten first.
    """
    counting = _Counting(journal, place, EpochPages(journal, place.sink, place.partition), at=place.earliest)
    broken: list[int] = []
    dead = uncovered_by(place.gaps)
    for base, entry in walk(journal, place.sink, place.partition):
        if entry is None or entry.number in place.staged:
            broken.append(base)
        elif base >= counting.at and not dead(base) and (place.end is None or entry.end <= place.end):
            counting.reach(base, entry)
            look(entry)
            counting.take(entry)
    counting.reach(place.end, None)
    made = {entry.base for entry in counting.rebuilt}
    return Survey(
        entries=counting.entries,
        records=counting.records,
        size=counting.size,
        first=counting.first,
        last=counting.last,
        rebuilt=tuple(counting.rebuilt),
        broken=tuple(base for base in broken if base not in made),
        lost=tuple(counting.lost),
    )


def uncovered_by(gaps: Sequence[Gap]) -> Callable[[int], bool]:
    """Return a test for offsets, in rising order, that are in a gap."""
    rest = sorted(((gap.first, gap.end) for gap in gaps), reverse=True)

    def lies(offset: int) -> bool:
        while rest and rest[-1][1] <= offset:
            rest.pop()
        return bool(rest) and rest[-1][0] <= offset

    return lies


@dataclass(slots=True)
class _Counting:
    journal: Journal
    place: SurveyedPartition
    epochs: EpochPages
    at: int
    entries: int = 0
    records: int = 0
    size: int = 0
    first: Entry | None = None
    last: Entry | None = None
    rebuilt: list[Entry] = field(default_factory=list)
    lost: list[Range] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        self.first = self.first or entry
        self.last = entry
        self.at = entry.end
        self.entries += 1
        self.records += entry.count
        self.size += entry.size

    def reach(self, end: int | None, after: Entry | None) -> None:
        """Advance to ``end``: holes up to it are lost or dropped. An open end is searched for more pages."""
        holes = uncovered(Range(self.at, end if end is not None else OPEN_END), self.place.gaps)
        if not holes or (self.at == 0 and end is None and self.place.numbers_max == 0):
            self.at = max(self.at, end or 0)
            return
        low = self.last.number if self.last is not None else 0
        high = min(OPEN_END, self.place.numbers_max + 1)
        if after is not None and not self.epochs.holds(after.base):  # else it is older than those before it
            high = after.number
        found = [*self._known(holes), *self._found(low, high, holes, after)]
        found += self.epochs.entries_in(holes, after or self.last)
        for entry in sorted(found, key=lambda each: each.base):
            if entry.base < self.at:
                continue
            self._lose(entry.base)
            before = self.last
            self.take(
                replace(
                    entry,
                    bytes_before=before.bytes_before + before.size if before is not None else entry.bytes_before,
                    pages_before=before.pages_before + 1 if before is not None else entry.pages_before,
                )
            )
            assert self.last is not None
            self.rebuilt.append(self.last)
        if end is not None:
            self._lose(end)
            self.at = end

    def _lose(self, end: int) -> None:
        self.lost += uncovered(Range(self.at, end), self.place.gaps)

    def _known(self, holes: Sequence[Range]) -> list[Entry]:
        return [entry for entry in self.place.known if _within(entry.base, entry.end, holes)]

    def _found(self, low: int, high: int, holes: Sequence[Range], after: Entry | None) -> Iterator[Entry]:
        known = {entry.base for entry in self._known(holes)}
        sample = after or self.last
        times = (sample.accepted_at_us, sample.age_us) if sample is not None else (0, 0)
        before = (after.bytes_before, after.pages_before) if after is not None else (0, 0)
        for number, bulk, value in pages_between(self.journal, self.place.sink, self.place.partition, low, high):
            try:
                header = decode_header(value)
                expected = replace(
                    header,
                    store=self.journal.store_id,
                    sink=self.place.sink,
                    partition=self.place.partition,
                    number=number,
                )
                body_of(value, expected)
            except Damaged:
                continue
            if header.stage:  # a staged page has no offset of its own; see the epochs
                continue
            base, end = header.base, header.base + header.count
            due = any(one.bulk == bulk and one.first <= number <= one.last for one in self.place.due)
            if base not in known and not due and _within(base, end, holes):
                yield Entry(
                    base,
                    header.count,
                    number,
                    bulk,
                    len(value) - HEADER_BYTES,
                    header.encoding,
                    *times,
                    max(0, before[0] - len(value) + HEADER_BYTES),
                    max(0, before[1] - 1),
                    (PagePart(base, times[0]),),
                )


def _within(first: int, end: int, holes: Sequence[Range]) -> bool:
    return any(hole.first <= first and end <= hole.end for hole in holes)
