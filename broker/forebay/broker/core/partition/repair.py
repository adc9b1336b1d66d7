"""Repair of a partition whose stored state was damaged.

A survey finds the stored pages, and all counters are recounted from it. Missing records become a gap, settled as
dropped for all subscriptions, so that every account balances. An offset that may have been
assigned is never assigned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Entry, Gap
from forebay.broker.core.partition.ranges import Range

RESERVE: Final = 65_536
"""Offsets skipped where it is unknown how many were assigned: as many as one page has at most."""

ASSIGNED_MAX: Final = 1 << 24
"""Offsets skipped where a reservation is lost, beside the capacity of the memory tier.

The number is above what a broker assigns before its next sync, a tenth of a second at most.
"""


class IndexDamaged(Exception):
    """Part of the index that cannot be read. Rebuild it, then survey its partitions."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Damage found in the store, and its repair."""

    what: str
    """Damaged value: `cursor`, `tail`, `index`, ..."""

    sink: str
    """Name of the sink, or empty for a value of the whole store."""

    partition: int | None
    detail: str
    """Description of the repair."""

    def __str__(self) -> str:
        place = f" of {self.sink}" if self.sink else ""
        place += f"/{self.partition}" if self.partition is not None else ""
        return f"{self.what}{place}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Survey:
    """Content of a partition, found by reading all of its index."""

    entries: int = 0
    """Number of pages, including those of ``rebuilt``."""

    records: int = 0
    size: int = 0
    first: Entry | None = None
    last: Entry | None = None
    rebuilt: tuple[Entry, ...] = ()
    """Entries that were missing or damaged, rebuilt from the pages."""

    broken: tuple[int, ...] = ()
    """Base offsets of entries that are damaged and could not be rebuilt."""

    lost: tuple[Range, ...] = ()
    """Offsets that are neither in a page nor in a gap."""

    @property
    def is_intact(self) -> bool:
        """True if nothing is missing."""
        return not (self.rebuilt or self.broken or self.lost)

    @property
    def end(self) -> int:
        """Offset at which the last page ends."""
        return self.last.end if self.last is not None else 0


def gaps_for(lost: Sequence[Range], at_us: int) -> list[Gap]:
    """Return gaps in place of lost records. Their bytes and pages are unknown."""
    return [Gap(part.first, part.end, DropReason.CORRUPT, at_us, 0, 0) for part in lost]


def recounted(head: Head, tail: Tail, found: Survey) -> Head:
    """Return the head of a partition that holds exactly the surveyed pages."""
    removed = tail.next_offset - found.records
    dropped = dict(head.dropped)
    fresh = removed - head.removed_records
    if fresh > 0 and found.lost:
        corrupt = min(fresh, sum(part.size for part in found.lost))
        dropped[int(DropReason.CORRUPT)] = dropped.get(int(DropReason.CORRUPT), 0) + corrupt
    return replace(
        head,
        earliest=found.first.base if found.first is not None else tail.next_offset,
        removed_records=removed,
        removed_bytes=max(0, tail.appended_bytes - found.size),
        removed_pages=tail.appended_pages - found.entries,
        dropped=tuple(sorted(dropped.items())),
    )


def tail_of(found: Survey, head: Head, end: int) -> Tail:
    """Return the tail of a partition whose own was lost: offsets continue at ``end``."""
    last = found.last
    if last is None:
        return Tail(end, head.removed_bytes, head.removed_pages)
    accepted_at_us = last.parts[-1].accepted_at_us if last.parts else last.accepted_at_us
    return Tail(end, last.bytes_before + last.size, last.pages_before + 1, accepted_at_us, last.age_us)


def head_of(found: Survey, gaps: Iterable[Gap]) -> Head:
    """Return the head of a partition whose own was lost; its drop counts come from its gaps."""
    dropped: dict[int, int] = {}
    for gap in gaps:
        for reason, records in gap.counts:
            if records:
                dropped[reason] = dropped.get(reason, 0) + records
    return Head(earliest=found.first.base if found.first is not None else 0, dropped=tuple(sorted(dropped.items())))


def cursor_from(earliest: int, gaps: Iterable[Gap], sent: int) -> Cursor:
    """Return a cursor in place of a lost one: every stored record is redelivered, none is skipped."""
    cursor = Cursor(start=earliest, watermark=earliest, notified=earliest, sent=sent)
    return dropped_for(cursor, [Range(max(gap.first, earliest), gap.end) for gap in gaps if gap.end > earliest])


def dropped_for(cursor: Cursor, lost: Iterable[Range]) -> Cursor:
    """Return the cursor after lost records that it had not settled are dropped."""
    for part in lost:
        if part.size > 0 and part.end > cursor.start:
            cursor, _ = cursor.settle(Range(max(part.first, cursor.start), part.end), Settlement.DROPPED)
    return cursor


def known_end(cursors: Iterable[Cursor], gaps: Iterable[Gap], head: Head | None, found: Survey) -> int:
    """Return an offset above every offset that any stored value names."""
    ends = [found.end, *(gap.end for gap in gaps), head.earliest if head is not None else 0]
    for cursor in cursors:
        ends += [cursor.watermark, cursor.sent, cursor.beyond[-1].end if cursor.beyond else 0]
    return max(ends)


def uncovered(within: Range, gaps: Iterable[Gap]) -> list[Range]:
    """Return the parts of ``within`` that are in no gap."""
    if within.size <= 0:
        return []
    known = sets.union([Range(gap.first, gap.end) for gap in gaps if gap.first < gap.end])
    return list(sets.missing(known, within))
