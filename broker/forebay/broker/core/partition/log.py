"""Log of one partition: assigned offsets, stored and removed pages, and gaps.

``next_offset`` is the end of the assigned offsets, and ``tail.next_offset`` the end of the confirmed ones; the records
between them wait for their batch. Only confirmed pages are read, dropped or trimmed. Two stored values have one owner
each: appends move the ``Tail``, removals move the ``Head``; so their batches may be written in either order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, islice, takewhile
from typing import Final

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.gaps import Rejections, merged
from forebay.broker.core.partition.pages import DropReason, Durability, Entry, Gap
from forebay.broker.core.partition.ranges import Range, RangeSet

RECENT_MAX: Final = 256
"""Entries kept in memory at the tail of each partition; at most twice as many."""
RECENT_PARTS_MAX: Final = 4_096
"""Parts of these entries, about 600 kB, above which fewer are kept.

At most twice as many, or those of one entry.
"""
GAPS_MAX: Final = 1_000
"""Gaps kept separately per partition; above it, gaps without a record between them are merged."""


@dataclass(frozen=True, slots=True)
class Tail:
    """State that appends change. Stored with every batch that appends to the partition."""

    next_offset: int = 0
    """Offset that the next record will get."""

    appended_bytes: int = 0
    """Bytes of all bodies ever appended."""

    appended_pages: int = 0
    """Pages ever appended."""

    accepted_at_us: int = 0
    """Wall clock time of the last append; never decreases."""

    age_us: int = 0
    """The same on the broker's own clock."""


@dataclass(frozen=True, slots=True)
class Head:
    """State that trims and drops change. Stored with every batch that removes pages."""

    earliest: int = 0
    """Lowest offset that may still be stored: no record is stored below it."""

    removed_records: int = 0
    """Records ever trimmed or dropped."""

    removed_bytes: int = 0
    """Bytes of their bodies."""

    removed_pages: int = 0
    """Pages ever trimmed or dropped."""

    dropped: tuple[tuple[int, int], ...] = ()
    """(reason, records) dropped since the sink was created."""


def in_order(*found: list[Entry]) -> list[Entry]:
    """Return entries from several sources by offset, each once; of two the first counts."""
    if not any(found[1:]):
        return found[0]
    by_base = {entry.base: entry for entries in reversed(found) for entry in entries}
    return [by_base[base] for base in sorted(by_base)]


@dataclass(slots=True)
class LiveUsage:
    """Records and bytes of a sink's logs, including queued ones.

    A running sum: no append adds up the logs of all partitions.
    """

    records: int = 0
    size: int = 0


class PartitionLog:
    """State of one partition. Only the owner of the sink's state changes it."""

    __slots__ = (
        "__weakref__",
        "_accepted_at_us",
        "_counted",
        "_gaps",
        "_loaded_to",
        "_recent_parts",
        "decided",
        "head",
        "held",
        "next_offset",
        "number",
        "oldest",
        "queued_bytes",
        "recent",
        "rejections",
        "repairs",
        "replicated",
        "synced",
        "tail",
        "usage",
    )

    def __init__(
        self,
        number: int,
        tail: Tail | None = None,
        head: Head | None = None,
        gaps: tuple[Gap, ...] = (),
        *,
        replicated: bool = False,
    ) -> None:
        self.number = number
        self.tail = tail or Tail()
        """Confirmed tail."""
        self.head = head or Head()
        self.decided = self.tail
        """Tail after the pending batches are confirmed."""
        self.synced = self.tail.next_offset
        """Offset below which the stored records survive a power loss."""
        self.replicated = replicated
        """True if everything that is confirmed, and not only in memory, is in the journal of a shard."""
        self.held: dict[int, Entry] = {}
        """Entries of pages that are only in memory, by base and in that order: they have no index entry."""
        self.next_offset = self.tail.next_offset
        """Offset of the next append; offsets from ``tail.next_offset`` on wait for their batch."""
        self.queued_bytes = 0
        self.recent: list[Entry] = []
        """Last entries: everything from ``recent[0].base`` on."""
        self._recent_parts = 0
        """Number of their parts."""
        self.oldest: deque[Entry] = deque()
        """First entries, as far as loaded; used when ``recent`` does not reach down to them."""
        self.repairs = 0
        """Number of index repairs while it was read: readers reload their entries after each."""
        self._loaded_to = 0
        """Offset below which ``oldest`` is complete."""
        self._gaps = [gap for gap in gaps if not gap.subscription]
        self.rejections = Rejections(gap for gap in gaps if gap.subscription)
        """Own gaps of single subscriptions, whose records others may still read."""
        self._accepted_at_us = self.tail.accepted_at_us
        self.usage = LiveUsage()
        """Sum that this log is part of."""
        self._counted = (0, 0)
        """Records and bytes of this log in the sum."""
        self._count()

    def count_for(self, usage: LiveUsage) -> None:
        """Become part of the sum of a sink."""
        self.usage, self._counted = usage, (0, 0)
        self._count()

    def _count(self) -> None:
        records = self.next_offset - self.head.removed_records
        size = self.tail.appended_bytes - self.head.removed_bytes + self.queued_bytes
        self.usage.records += records - self._counted[0]
        self.usage.size += size - self._counted[1]
        self._counted = records, size

    # -- sizes

    @property
    def records(self) -> int:
        """Number of stored records."""
        return self.tail.next_offset - self.head.removed_records

    @property
    def size(self) -> int:
        """Bytes of stored bodies."""
        return self.tail.appended_bytes - self.head.removed_bytes

    @property
    def pages(self) -> int:
        """Number of stored pages."""
        return self.tail.appended_pages - self.head.removed_pages

    @property
    def earliest(self) -> int:
        """Lowest stored offset, or the next offset if nothing is stored."""
        first = self.first_entry()
        if first is not None:
            return first.base
        return self.tail.next_offset if self.pages == 0 else self.head.earliest

    @property
    def reachable(self) -> int:
        """Lowest offset from which on every record is stored or in a gap; below it something was trimmed."""
        lowest = self.earliest
        index = bisect_right(self._gaps, lowest, key=lambda gap: gap.first)
        for gap in reversed(self._gaps[:index]):
            if gap.end < lowest:
                break
            lowest = min(lowest, gap.first)
        return lowest

    @property
    def whole(self) -> bool:
        """True if ``recent`` holds every entry of the partition."""
        return len(self.recent) == self.pages

    # -- appends

    def reserve(self, records: int, size: int) -> int:
        """Assign offsets to an append; returns the first."""
        first = self.next_offset
        self.next_offset += records
        self.queued_bytes += size
        self._count()
        return first

    def accept_time(self, wall_us: int) -> int:
        """Return the time of an append: that of the wall clock, but never before the last append."""
        self._accepted_at_us = max(self._accepted_at_us, wall_us)
        return self._accepted_at_us

    def confirm(self, tail: Tail, entries: list[Entry], size: int, *, left_out: int = 0) -> None:
        """Confirm a batch: its ``entries`` are durable, or held in memory. ``size`` is their reserved size.

        A very large batch passes only its last entries; the ``left_out`` ones before them are in the index only.
        """
        self.tail = tail
        if left_out:
            self.recent.clear()
            self._recent_parts = 0
        self.queued_bytes -= size
        self._count()
        self.recent.extend(entries)
        self._recent_parts += sum(len(entry.parts) for entry in entries)
        is_long = len(self.recent) > 2 * RECENT_MAX or self._recent_parts > 2 * RECENT_PARTS_MAX
        if is_long and len(self.held) < self.pages:  # held entries are in memory anyway
            self._shorten()

    def _shorten(self) -> None:
        """Keep the newest of the recent entries."""
        kept = parts = 0
        for entry in reversed(self.recent[-RECENT_MAX:]):
            if kept and parts + len(entry.parts) > RECENT_PARTS_MAX:
                break
            kept += 1
            parts += len(entry.parts)
        del self.recent[:-kept]
        self._recent_parts = parts

    def level(self, first: int, end: int) -> Durability:
        """Return the durability of the records of a page in ``[first, end)``; a page is held as a whole."""
        if first in self.held:
            return Durability.MEMORY
        return self._stored_to(end)

    @property
    def least(self) -> Durability:
        """Durability of the least safe record; of an empty partition, that of a record on the disk."""
        if self.held:
            return Durability.MEMORY
        return self._stored_to(self.tail.next_offset if self.pages else 0)

    def _stored_to(self, end: int) -> Durability:
        if self.replicated:
            return Durability.REPLICATED
        return Durability.DISK if end <= self.synced else Durability.PROCESS

    def held_in(self, first: int, end: int) -> list[Entry]:
        """Return the first entries that are only in memory and overlap ``[first, end)``."""
        if not self.held:
            return []
        found = (entry for entry in self.held.values() if entry.base < end and entry.end > first)
        return list(islice(found, RECENT_MAX))

    # -- the first entries

    def first_entry(self) -> Entry | None:
        """Return the oldest entry; None if there is none or it is not in memory (see ``needs_oldest``)."""
        if self.pages == 0:
            return None
        if self.whole:
            return self.recent[0]
        if self.oldest:
            return self.oldest[0]
        return self.recent[0] if self.recent and self.complete else None

    @property
    def complete(self) -> bool:
        """True if ``first_entries`` holds every entry."""
        return self.whole or self._loaded_to >= (self.recent[0].base if self.recent else self.tail.next_offset)

    @property
    def needs_oldest(self) -> bool:
        """True if entries exist and the first of them are not in memory."""
        return self.pages > 0 and not self.oldest and not self.complete

    def first_entries(self) -> list[Entry]:
        """Return the oldest entries that are in memory, in order."""
        return list(self.iter_first())

    def iter_first(self) -> Iterator[Entry]:
        """Yield the oldest entries that are in memory, in order; the log must not change during the iteration."""
        if self.whole:
            return iter(self.recent)
        if not self.recent or not self.complete:
            return iter(self.oldest)
        begins = self.recent[0].base
        return chain(takewhile(lambda entry: entry.base < begins, self.oldest), self.recent)

    def recent_from(self, offset: int) -> list[Entry] | None:
        """Return the first entries that end above ``offset``; None if ``recent`` does not reach down to it."""
        if not self.whole and (not self.recent or self.recent[0].base > offset):
            return None
        first = bisect_right(self.recent, offset, key=lambda entry: entry.end)
        return self.recent[first : first + 2 * RECENT_MAX]  # many more may be held in memory

    @property
    def loaded_to(self) -> int:
        """Offset from which ``offer_more`` expects entries."""
        return self._loaded_to

    def offer_oldest(self, entries: list[Entry], end: int) -> None:
        """Add the first entries below ``end`` as the store has them; entries removed since are skipped."""
        if self.needs_oldest:
            self.oldest = deque(self._live(entries))
            self._loaded_to = end

    def offer_more(self, entries: list[Entry], first: int, end: int) -> None:
        """Add the entries in ``[first, end)``, which follow those that were loaded before."""
        if first == self._loaded_to:
            self.oldest.extend(self._live(entries))
            self._loaded_to = end

    def _live(self, entries: list[Entry]) -> list[Entry]:
        live = [e for e in entries if e.base >= self.head.earliest and self.gap_at(e.base) is None]
        return [e for e in live if e.end <= self.tail.next_offset]

    # -- removals

    def remove(
        self, entries: list[Entry], *, reason: DropReason | None, at_us: int, lost: RangeSet | None = None
    ) -> list[Gap]:
        """Remove confirmed entries, given in order. With a reason they are dropped; returns the new gaps.

        Entries that begin at the front are consecutive. ``lost`` has those of their records that count as dropped, None
        for all.
        """
        gone = {entry.base for entry in entries}
        front = self.first_entry()
        at_front = front is not None and front.base == entries[0].base
        records = sum(entry.count for entry in entries)
        dropped = dict(self.head.dropped)
        if reason is not None and (more := records if lost is None else sets.count(lost)):
            dropped[int(reason)] = dropped.get(int(reason), 0) + more
        for base in gone & self.held.keys():
            del self.held[base]
        self.oldest = deque(entry for entry in self.oldest if entry.base not in gone)
        low = bisect_left(self.recent, entries[0].base, key=lambda entry: entry.base)
        high = bisect_left(self.recent, entries[-1].end, lo=low, key=lambda entry: entry.base)
        self._recent_parts -= sum(len(entry.parts) for entry in self.recent[low:high] if entry.base in gone)
        self.recent[low:high] = [entry for entry in self.recent[low:high] if entry.base not in gone]
        self.head = replace(
            self.head,
            removed_records=self.head.removed_records + records,
            removed_bytes=self.head.removed_bytes + sum(entry.size for entry in entries),
            removed_pages=self.head.removed_pages + len(entries),
            dropped=tuple(sorted(dropped.items())),
        )
        self._count()
        first = self.first_entry()
        earliest = self.head.earliest
        if first is not None:
            earliest = first.base
        elif at_front:
            earliest = entries[-1].end
        self.head = replace(self.head, earliest=self.tail.next_offset if self.pages == 0 else earliest)
        return self._mark(entries, reason, at_us, lost) if reason is not None else []

    def _mark(self, entries: list[Entry], reason: DropReason, at_us: int, lost: RangeSet | None) -> list[Gap]:
        made: list[Gap] = []
        for entry in entries:
            last = made[-1] if made else None
            if last is not None and last.end == entry.base:
                made[-1] = replace(last, end=entry.end, size=last.size + entry.size, pages=last.pages + 1)
            else:
                made.append(Gap(entry.base, entry.end, reason, at_us, entry.size, 1))
        before = self.gap_at(made[0].first - 1) if reason is DropReason.PURGED and made[0].first else None
        if before is not None and not before.merged and (before.reason, before.at_us) == (reason, at_us):
            # A purge consists of several batches and leaves one gap.
            self._gaps.remove(before)
            size, pages = before.size + made[0].size, before.pages + made[0].pages
            made[0] = replace(before, end=made[0].end, size=size, pages=pages)
        if lost is not None:
            made = [gap.counting(sets.count(tuple(sets.common(lost, Range(gap.first, gap.end))))) for gap in made]
        self._gaps = sorted([*self._gaps, *made], key=lambda gap: gap.first)
        return made

    def hole_at(self, position: int, first: Entry | None) -> bool:
        """Return whether ``position``, which was not trimmed, is neither in a page nor in a gap.

        ``first`` is the first entry from it on, None if there is none.
        """
        at = max(position, self.head.earliest)
        gap = self.next_gap(at)
        begins = min(first.base if first is not None else self.tail.next_offset, self.tail.next_offset)
        return at < min(begins, gap.first if gap is not None else begins)

    def apply_repair(self, head: Head, made: list[Gap]) -> None:
        """Apply a repair: a recounted head, and gaps for the missing records."""
        self.head = head
        self._count()
        self._gaps = sorted([*self._gaps, *made], key=lambda gap: gap.first)
        self.oldest.clear()
        self._loaded_to = 0

    # -- gaps

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """All known gaps, by offset."""
        return tuple(self._gaps)

    def gaps_from(self, offset: int) -> list[Gap]:
        """Return the gaps that end above an offset, in order."""
        return self._gaps[bisect_right(self._gaps, offset, key=lambda gap: gap.end) :]

    def all_gaps_from(self, offset: int, most: int) -> list[Gap]:
        """Return the first ``most`` gaps that begin at ``offset`` or above, including those of subscriptions."""
        own = self._gaps[bisect_left(self._gaps, offset, key=lambda gap: gap.first) :]
        return list(
            islice(merge(own, *self.rejections.from_(offset), key=lambda gap: (gap.first, gap.subscription)), most)
        )

    def gap_at(self, offset: int) -> Gap | None:
        """Return the gap that holds ``offset``."""
        gap = self.next_gap(offset)
        return gap if gap is not None and gap.first <= offset else None

    def next_gap(self, offset: int) -> Gap | None:
        """Return the first gap that ends above ``offset``."""
        index = bisect_right(self._gaps, offset, key=lambda gap: gap.end)
        return self._gaps[index] if index < len(self._gaps) else None

    def merge_gaps(self) -> tuple[list[Gap], list[Gap]]:
        """Merge gaps down to their bound; returns the removed gaps and their replacements."""
        self._gaps, gone, made = merged(self._gaps, most=GAPS_MAX, settled_to=self.earliest)
        return gone, made

    def reject(
        self, subscription: str, ranges: Sequence[Range], *, settled_to: int, at_us: int, detail: str
    ) -> tuple[list[Gap], list[Gap]]:
        """Record the own gaps of a subscription whose target rejected records; they count as dropped.

        Their pages stay for all other subscriptions. Below ``settled_to`` the subscription has settled every record.
        Returns the gaps to delete and those to write.
        """
        reason = int(DropReason.REJECTED_BY_TARGET)
        dropped = dict(self.head.dropped)
        dropped[reason] = dropped.get(reason, 0) + sum(part.size for part in ranges)
        self.head = replace(self.head, dropped=tuple(sorted(dropped.items())))
        made = [
            Gap(
                part.first,
                part.end,
                DropReason.REJECTED_BY_TARGET,
                at_us,
                0,
                0,
                subscription=subscription,
                detail=detail,
            )
            for part in ranges
        ]
        return self.rejections.add(subscription, made, settled_to=settled_to)
