"""One partition as a log: offsets given out, what is stored, what was removed, and the gaps.

Three numbers tell records apart: ``next_offset`` counts what was given an offset, ``confirmed`` what is durable,
and the difference waits for its batch. Only confirmed pages are read, dropped or trimmed. Two stored values have one
owner each: appends move the ``Tail``, removals move the ``Head``; so their batches may be written in either order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from typing import Final

from forebay.broker.core.partition.gaps import Rejections, merged
from forebay.broker.core.partition.pages import DropReason, Durability, Entry, Gap
from forebay.broker.core.partition.ranges import Range

RECENT_MAX: Final = 256
"""Entries kept in memory at the tail of each partition, at least; twice as many at most."""
GAPS_MAX: Final = 1_000
"""Gaps kept apart per partition; above it those with nothing left between them merge."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What appends change. Stored with every batch that appends to the partition."""

    next_offset: int = 0
    """Offset that the next record will get."""

    appended_bytes: int = 0
    """Bytes of all bodies ever appended."""

    appended_pages: int = 0
    """Pages ever appended."""

    accepted_at_us: int = 0
    """Wall clock of the last append; never goes back."""

    age_us: int = 0
    """The same on the broker's own clock."""


@dataclass(frozen=True, slots=True)
class Head:
    """What trims and drops change. Stored with every batch that removes pages."""

    earliest: int = 0
    """Lowest offset that may still be stored: nothing below it is."""

    removed_records: int = 0
    """Records ever trimmed or dropped."""

    removed_bytes: int = 0
    """Bytes of their bodies."""

    removed_pages: int = 0
    """Pages ever trimmed or dropped."""

    dropped: tuple[tuple[int, int], ...] = ()
    """(reason, records) dropped in the sink's life."""


def in_order(*found: list[Entry]) -> list[Entry]:
    """Entries from several places by offset, each once; of two the first counts."""
    if not any(found[1:]):
        return found[0]
    by_base = {entry.base: entry for entries in reversed(found) for entry in entries}
    return [by_base[base] for base in sorted(by_base)]


class PartitionLog:
    """The state of one partition. Changed only by the owner of the sink's state."""

    __slots__ = (
        "__weakref__",
        "_accepted_at_us",
        "_gaps",
        "_loaded_to",
        "decided",
        "head",
        "held",
        "mended",
        "next_offset",
        "number",
        "oldest",
        "queued_bytes",
        "recent",
        "rejections",
        "synced",
        "tail",
    )

    def __init__(
        self, number: int, tail: Tail | None = None, head: Head | None = None, gaps: tuple[Gap, ...] = ()
    ) -> None:
        self.number = number
        self.tail = tail or Tail()
        """As confirmed."""
        self.head = head or Head()
        self.decided = self.tail
        """As it will be when what is on its way to the store is confirmed."""
        self.synced = self.tail.next_offset
        """Offset below which what is stored survives a power loss."""
        self.held: dict[int, Entry] = {}
        """Entries of pages that only memory holds, by base and in its order: no index names them."""
        self.next_offset = self.tail.next_offset
        """Offset that the next append will get; those from ``tail.next_offset`` on wait for their batch."""
        self.queued_bytes = 0
        self.recent: list[Entry] = []
        """The last entries: everything from ``recent[0].base`` on."""
        self.oldest: deque[Entry] = deque()
        """The first entries, as far as they were loaded; used when ``recent`` does not reach down to them."""
        self.mended = 0
        """How often the index was mended under its readers: what they have loaded is to be loaded again."""
        self._loaded_to = 0
        """Offset below which ``oldest`` leaves nothing out."""
        self._gaps = [gap for gap in gaps if not gap.subscription]
        self.rejections = Rejections(gap for gap in gaps if gap.subscription)
        """What single subscriptions dropped: their own gaps, between which others may still read."""
        self._accepted_at_us = self.tail.accepted_at_us

    # -- sizes

    @property
    def records(self) -> int:
        """Records stored."""
        return self.tail.next_offset - self.head.removed_records

    @property
    def size(self) -> int:
        """Bytes of bodies stored."""
        return self.tail.appended_bytes - self.head.removed_bytes

    @property
    def pages(self) -> int:
        """Pages stored."""
        return self.tail.appended_pages - self.head.removed_pages

    @property
    def earliest(self) -> int:
        """Lowest offset stored, or the next one when nothing is."""
        first = self.first_entry()
        if first is not None:
            return first.base
        return self.tail.next_offset if self.pages == 0 else self.head.earliest

    @property
    def reachable(self) -> int:
        """Lowest offset from which on all is stored, or known to be dropped: below it something was trimmed."""
        lowest = self.earliest
        index = bisect_right(self._gaps, lowest, key=lambda gap: gap.first)
        for gap in reversed(self._gaps[:index]):
            if gap.end < lowest:
                break
            lowest = min(lowest, gap.first)
        return lowest

    @property
    def whole(self) -> bool:
        """``recent`` holds every entry of the partition."""
        return len(self.recent) == self.pages

    # -- appends

    def reserve(self, records: int, size: int) -> int:
        """Give out offsets for an append; returns the first."""
        first = self.next_offset
        self.next_offset += records
        self.queued_bytes += size
        return first

    def accept_time(self, wall_us: int) -> int:
        """The time that an append gets: the wall clock's, but never before the last one's."""
        self._accepted_at_us = max(self._accepted_at_us, wall_us)
        return self._accepted_at_us

    def confirm(self, tail: Tail, entries: list[Entry], size: int, *, left_out: int = 0) -> None:
        """A batch with ``entries`` is durable, or memory holds them; ``size`` is what ``reserve`` was told for them.

        Of a very large batch so many entries before them are ``left_out``: they stand in the index only.
        """
        self.tail = tail
        if left_out:
            self.recent.clear()
        self.queued_bytes -= size
        self.recent.extend(entries)
        if len(self.recent) > 2 * RECENT_MAX and len(self.held) < self.pages:  # what is held is in memory anyway
            del self.recent[:-RECENT_MAX]

    def level(self, first: int, end: int) -> Durability:
        """How safe the records of a page in ``[first, end)`` are; a page is held as a whole or not at all."""
        if first in self.held:
            return Durability.MEMORY
        return Durability.DISK if end <= self.synced else Durability.PROCESS

    def held_in(self, first: int, end: int) -> list[Entry]:
        """The first entries that only memory holds and that lie in ``[first, end)``, in part perhaps."""
        if not self.held:
            return []
        found = (entry for entry in self.held.values() if entry.base < end and entry.end > first)
        return list(islice(found, RECENT_MAX))

    # -- the first entries

    def first_entry(self) -> Entry | None:
        """The oldest entry, or None when there is none or it is not in memory (see ``needs_oldest``)."""
        if self.pages == 0:
            return None
        if self.whole:
            return self.recent[0]
        if self.oldest:
            return self.oldest[0]
        return self.recent[0] if self.recent and self.complete else None

    @property
    def complete(self) -> bool:
        """``first_entries`` holds every entry."""
        return self.whole or self._loaded_to >= (self.recent[0].base if self.recent else self.tail.next_offset)

    @property
    def needs_oldest(self) -> bool:
        """Entries exist and the first of them are not in memory."""
        return self.pages > 0 and not self.oldest and not self.complete

    def first_entries(self) -> list[Entry]:
        """The oldest entries that are in memory, in order."""
        if self.whole:
            return list(self.recent)
        if not self.recent or not self.complete:
            return list(self.oldest)
        return [*(entry for entry in self.oldest if entry.base < self.recent[0].base), *self.recent]

    def recent_from(self, offset: int) -> list[Entry] | None:
        """The first entries that end above ``offset``, or None when ``recent`` does not reach down to it."""
        if not self.whole and (not self.recent or self.recent[0].base > offset):
            return None
        first = bisect_right(self.recent, offset, key=lambda entry: entry.end)
        return self.recent[first : first + 2 * RECENT_MAX]  # of what memory holds there may be many more

    @property
    def loaded_to(self) -> int:
        """Offset from which on ``offer_more`` wants entries."""
        return self._loaded_to

    def offer_oldest(self, entries: list[Entry], end: int) -> None:
        """Take in the first entries below ``end`` as the store has them; what was removed meanwhile is left out."""
        if self.needs_oldest:
            self.oldest = deque(self._live(entries))
            self._loaded_to = end

    def offer_more(self, entries: list[Entry], first: int, end: int) -> None:
        """Take in the entries in ``[first, end)``, which follow those that were loaded before."""
        if first == self._loaded_to:
            self.oldest.extend(self._live(entries))
            self._loaded_to = end

    def _live(self, entries: list[Entry]) -> list[Entry]:
        live = [e for e in entries if e.base >= self.head.earliest and self.gap_at(e.base) is None]
        return [e for e in live if e.end <= self.tail.next_offset]

    # -- removals

    def remove(self, entries: list[Entry], *, reason: DropReason | None, at_us: int) -> list[Gap]:
        """Take confirmed entries, in order, out; with a reason they were dropped and leave gaps, which are returned.

        Entries that begin at the front are consecutive.
        """
        gone = {entry.base for entry in entries}
        front = self.first_entry()
        at_front = front is not None and front.base == entries[0].base
        records = sum(entry.count for entry in entries)
        dropped = dict(self.head.dropped)
        if reason is not None:
            dropped[int(reason)] = dropped.get(int(reason), 0) + records
        for base in gone & self.held.keys():
            del self.held[base]
        self.oldest = deque(entry for entry in self.oldest if entry.base not in gone)
        if len(entries) <= len(self.recent) and self.recent[: len(entries)] == entries:
            del self.recent[: len(entries)]
        elif self.recent and entries[-1].base >= self.recent[0].base:
            self.recent = [entry for entry in self.recent if entry.base not in gone]
        self.head = replace(
            self.head,
            removed_records=self.head.removed_records + records,
            removed_bytes=self.head.removed_bytes + sum(entry.size for entry in entries),
            removed_pages=self.head.removed_pages + len(entries),
            dropped=tuple(sorted(dropped.items())),
        )
        first = self.first_entry()
        earliest = self.head.earliest
        if first is not None:
            earliest = first.base
        elif at_front:
            earliest = entries[-1].end
        self.head = replace(self.head, earliest=self.tail.next_offset if self.pages == 0 else earliest)
        return self._mark(entries, reason, at_us) if reason is not None else []

    def _mark(self, entries: list[Entry], reason: DropReason, at_us: int) -> list[Gap]:
        made: list[Gap] = []
        for entry in entries:
            last = made[-1] if made else None
            if last is not None and last.end == entry.base:
                made[-1] = replace(last, end=entry.end, size=last.size + entry.size, pages=last.pages + 1)
            else:
                made.append(Gap(entry.base, entry.end, reason, at_us, entry.size, 1))
        before = self.gap_at(made[0].first - 1) if reason is DropReason.PURGED and made[0].first else None
        if before is not None and not before.merged and (before.reason, before.at_us) == (reason, at_us):
            # A purge comes in several batches, and leaves one gap.
            self._gaps.remove(before)
            size, pages = before.size + made[0].size, before.pages + made[0].pages
            made[0] = replace(before, end=made[0].end, size=size, pages=pages)
        self._gaps = sorted([*self._gaps, *made], key=lambda gap: gap.first)
        return made

    def hole_at(self, position: int, entries: list[Entry]) -> bool:
        """Neither a page nor a gap stands for ``position``, which was not trimmed; ``entries`` are those from it on."""
        at = max(position, self.head.earliest)
        gap = self.next_gap(at)
        begins = min(entries[0].base if entries else self.tail.next_offset, self.tail.next_offset)
        return at < min(begins, gap.first if gap is not None else begins)

    def take_mended(self, head: Head, made: list[Gap]) -> None:
        """The stored entries were counted again, and gaps were made where none stands."""
        self.head = head
        self._gaps = sorted([*self._gaps, *made], key=lambda gap: gap.first)
        self.oldest.clear()
        self._loaded_to = 0

    # -- gaps

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """All gaps that are known, by offset."""
        return tuple(self._gaps)

    def gaps_from(self, offset: int) -> list[Gap]:
        """Those that end above an offset, in order."""
        return self._gaps[bisect_right(self._gaps, offset, key=lambda gap: gap.end) :]

    def all_gaps_from(self, offset: int, most: int) -> list[Gap]:
        """The first ``most`` gaps that begin at an offset or above it, those of subscriptions too."""
        own = self._gaps[bisect_left(self._gaps, offset, key=lambda gap: gap.first) :]
        return list(
            islice(merge(own, *self.rejections.from_(offset), key=lambda gap: (gap.first, gap.subscription)), most)
        )

    def gap_at(self, offset: int) -> Gap | None:
        """The gap that ``offset`` lies in."""
        gap = self.next_gap(offset)
        return gap if gap is not None and gap.first <= offset else None

    def next_gap(self, offset: int) -> Gap | None:
        """The first gap that ends above ``offset``."""
        index = bisect_right(self._gaps, offset, key=lambda gap: gap.end)
        return self._gaps[index] if index < len(self._gaps) else None

    def merge_gaps(self) -> tuple[list[Gap], list[Gap]]:
        """Bring the number of gaps down to its bound; returns those that vanish and those that take their place."""
        self._gaps, gone, made = merged(self._gaps, most=GAPS_MAX, settled_to=self.earliest)
        return gone, made

    def reject(
        self, subscription: str, ranges: Sequence[Range], *, settled_to: int, at_us: int, detail: str
    ) -> tuple[list[Gap], list[Gap]]:
        """A subscription has dropped records that its target rejected: counted here, its own gaps.

        Their pages stay for everybody else. Below ``settled_to`` the subscription has settled all. Returns the gaps
        that vanish and those to be written.
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
