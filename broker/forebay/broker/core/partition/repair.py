"""What becomes of a partition whose stored state was damaged.

A survey says what is still there; from it everything that was counted is counted again. What cannot be found is a gap,
settled as dropped for everybody, so that every account balances. An offset that may have been handed out is never
handed out again.
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
"""Offsets left out where nobody knows how many were handed out: as many as one page has at most."""

HANDED_OUT_MAX: Final = 1 << 24
"""Offsets left out where a reservation is lost, beside what memory may hold: above what a broker hands out before its
next sync, a tenth of a second at most."""


class IndexDamaged(Exception):
    """A part of the index cannot be read. Have it written anew, then survey the partitions that it was of."""


@dataclass(frozen=True, slots=True)
class Mended:
    """Something stored that was damaged, and what was done about it."""

    what: str
    """What it was: `cursor`, `tail`, `index`, ..."""

    sink: str
    """Name of the sink, or empty for what belongs to the whole store."""

    partition: int | None
    detail: str
    """What was done."""

    def __str__(self) -> str:
        place = f" of {self.sink}" if self.sink else ""
        place += f"/{self.partition}" if self.partition is not None else ""
        return f"{self.what}{place}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Survey:
    """What stands in a partition, found by reading all of its index."""

    entries: int = 0
    """Pages, those of ``rebuilt`` included."""

    records: int = 0
    size: int = 0
    first: Entry | None = None
    last: Entry | None = None
    rebuilt: tuple[Entry, ...] = ()
    """Entries that were missing or damaged, made again from the pages."""

    broken: tuple[int, ...] = ()
    """Base offsets of entries that are damaged and could not be made again."""

    lost: tuple[Range, ...] = ()
    """Offsets that neither a page nor a gap stands for."""

    @property
    def sound(self) -> bool:
        """Nothing is missing."""
        return not (self.rebuilt or self.broken or self.lost)

    @property
    def end(self) -> int:
        """Where the last page ends."""
        return self.last.end if self.last is not None else 0


def gaps_for(lost: Sequence[Range], at_us: int) -> list[Gap]:
    """Gaps in the place of what was lost. How many bytes and pages that were is not known."""
    return [Gap(part.first, part.end, DropReason.CORRUPT, at_us, 0, 0) for part in lost]


def recounted(head: Head, tail: Tail, found: Survey) -> Head:
    """The head of a partition that holds what was found, and nothing else."""
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
    """The tail of a partition whose own was lost: offsets go on at ``end``."""
    last = found.last
    if last is None:
        return Tail(end, head.removed_bytes, head.removed_pages)
    accepted_at_us = last.parts[-1].accepted_at_us if last.parts else last.accepted_at_us
    return Tail(end, last.bytes_before + last.size, last.pages_before + 1, accepted_at_us, last.age_us)


def head_of(found: Survey, gaps: Iterable[Gap]) -> Head:
    """What is known of a partition's drops when its own account of them was lost: they are in its gaps."""
    dropped: dict[int, int] = {}
    for gap in gaps:
        dropped[int(gap.reason)] = dropped.get(int(gap.reason), 0) + gap.end - gap.first
    return Head(earliest=found.first.base if found.first is not None else 0, dropped=tuple(sorted(dropped.items())))


def cursor_from(earliest: int, gaps: Iterable[Gap], sent: int) -> Cursor:
    """A cursor in the place of one that was lost: everything that is stored is delivered again, nothing is skipped."""
    cursor = Cursor(start=earliest, watermark=earliest, told=earliest, sent=sent)
    return dropped_for(cursor, [Range(max(gap.first, earliest), gap.end) for gap in gaps if gap.end > earliest])


def dropped_for(cursor: Cursor, lost: Iterable[Range]) -> Cursor:
    """The cursor once records are gone that it had not settled."""
    for part in lost:
        if part.size > 0 and part.end > cursor.start:
            cursor, _ = cursor.settle(Range(max(part.first, cursor.start), part.end), Settlement.DROPPED)
    return cursor


def known_end(cursors: Iterable[Cursor], gaps: Iterable[Gap], head: Head | None, found: Survey) -> int:
    """Above every offset that anything stored speaks of."""
    ends = [found.end, *(gap.end for gap in gaps), head.earliest if head is not None else 0]
    for cursor in cursors:
        ends += [cursor.watermark, cursor.sent, cursor.beyond[-1].end if cursor.beyond else 0]
    return max(ends)


def uncovered(within: Range, gaps: Iterable[Gap]) -> list[Range]:
    """The parts of ``within`` that no gap stands for."""
    known: sets.RangeSet = ()
    for gap in gaps:
        if gap.first < gap.end:
            known = sets.add(known, Range(gap.first, gap.end))
    return list(sets.missing(known, within)) if within.size > 0 else []
