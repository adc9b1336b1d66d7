"""Offset reservations of a partition with pages in memory only, and its restart after a crash.

An offset is assigned once, so a partition that may lose accepted records reserves offsets before it assigns them. After
a crash it continues where no reader can have been: after the last accepted record if that is known, else at the end of
the reservation. The missing offsets up to there become a gap, and count as dropped for every subscription that had not
settled them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Entry, Gap
from forebay.broker.core.partition.ranges import Range, RangeSet

BLOCK: Final = 65_536
"""Offsets per reservation: a crash of the machine skips at most this many, and one page."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Offsets that a partition may have assigned. Stored before the first of them is assigned."""

    end: int
    """Offset below which offsets may have been assigned."""

    slot: int | None = None
    """Slot of the partition's accepted count, if it has one."""


@dataclass(frozen=True, slots=True)
class Held:
    """Consecutive records that are only in memory: pages of the stored tail without an index entry."""

    first: int
    end: int
    size: int
    """Bytes of their bodies."""

    pages: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """State of a partition after a restart."""

    tail: Tail
    head: Head
    gaps: tuple[Gap, ...]
    """New gaps."""

    cursors: Mapping[str, Cursor]
    lost: int
    """Number of records that a subscription had not settled; an upper bound where a gap says so."""


@dataclass(slots=True)
class _Run:
    first: int
    end: int
    bytes_before: int
    bytes_end: int
    pages_before: int
    pages_end: int


class HeldRuns:
    """Pages of a partition that are only in memory, as runs of consecutive records.

    A change costs as much as there are runs, not pages: memory may hold millions of pages.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, entry: Entry) -> None:
        """Add a page after all others."""
        bytes_end, pages_end = entry.bytes_before + entry.size, entry.pages_before + 1
        last = self._runs[-1] if self._runs else None
        if last is not None and last.end == entry.base:
            last.end, last.bytes_end, last.pages_end = entry.end, bytes_end, pages_end
        else:
            run = _Run(entry.base, entry.end, entry.bytes_before, bytes_end, entry.pages_before, pages_end)
            self._runs.append(run)

    def remove(self, entry: Entry) -> None:
        """Remove a page; without effect for one that is not among them."""
        at = bisect_right(self._runs, entry.base, key=lambda run: run.first) - 1
        if at < 0 or self._runs[at].end < entry.end:
            return
        run, bytes_end, pages_end = self._runs[at], entry.bytes_before + entry.size, entry.pages_before + 1
        below = _Run(run.first, entry.base, run.bytes_before, entry.bytes_before, run.pages_before, entry.pages_before)
        above = _Run(entry.end, run.end, bytes_end, run.bytes_end, pages_end, run.pages_end)
        self._runs[at : at + 1] = [part for part in (below, above) if part.first < part.end]

    def held(self) -> tuple[Held, ...]:
        """Return the runs by rising offset."""
        return tuple(
            Held(run.first, run.end, run.bytes_end - run.bytes_before, run.pages_end - run.pages_before)
            for run in self._runs
        )


def highest(cursors: Iterable[Cursor]) -> int:
    """Return the offset below which one of the cursors may have settled a record."""
    return max((c.beyond[-1].end if c.beyond else c.watermark for c in cursors), default=0)


def restart(
    tail: Tail,
    head: Head,
    gaps: Sequence[Gap],
    cursors: Mapping[str, Cursor],
    *,
    reserve: Reserve,
    held: Sequence[Held],
    accepted: int | None,
    wiped: bool,
    at_us: int,
    cause: DropReason = DropReason.LOST_IN_CRASH,
) -> Restarted:
    """Return the state of a partition whose memory is lost.

    ``accepted`` is the offset after the last accepted record, None if unknown. ``wiped``: the stored pages are removed
    too. ``cause`` is the reason of records that are not wiped.
    """
    exact = max(tail.next_offset, accepted or 0, highest(cursors.values()))
    end = max(exact, reserve.end) if accepted is None else exact
    if wiped:
        size, pages = tail.appended_bytes - head.removed_bytes, tail.appended_pages - head.removed_pages
        missing = [Held(head.earliest, end, size, pages)] if head.earliest < end else []
    else:
        missing = _missing(tail.next_offset, held, end, join=accepted is not None)
    made: list[Gap] = []
    lost = 0
    moved = dict(cursors)
    known = sets_of(gaps)
    reason = DropReason.WIPED_AT_START if wiped else cause
    for run in missing:
        front = head.earliest >= run.first
        first = run.first
        size, pages = run.size, run.pages
        for piece in sets.missing(known, Range(run.first, run.end)):
            unsettled: RangeSet = ()
            for cursor in moved.values():
                for part in cursor.unsettled(piece):
                    unsettled = sets.add(unsettled, part)
            count = sets.count(unsettled)
            moved = {name: cursor.settle(piece, Settlement.DROPPED)[0] for name, cursor in moved.items()}
            if front and not unsettled:
                continue  # settled by all subscriptions, and nothing is stored below: this is a trim
            first = unsettled[0].first if front else piece.first
            counts = ((int(reason), count),) if count < piece.end - first else ()
            at_most = accepted is None and piece.end > tail.next_offset
            since = at_us if counts else None
            made.append(Gap(first, piece.end, reason, at_us, size, pages, since, counts, at_most=at_most))
            size = pages = 0
            front = False
            lost += count
        head = replace(
            head,
            removed_records=head.removed_records + run.end - run.first,
            removed_bytes=head.removed_bytes + run.size,
            removed_pages=head.removed_pages + run.pages,
            earliest=run.end if head.earliest >= run.first else head.earliest,
        )
    if lost:
        dropped = dict(head.dropped)
        dropped[int(reason)] = dropped.get(int(reason), 0) + lost
        head = replace(head, dropped=tuple(sorted(dropped.items())))
    if wiped:  # the offsets of gaps were removed when the gaps were made
        head = replace(head, removed_records=end)
    tail = replace(tail, next_offset=end)
    if head.removed_pages == tail.appended_pages:
        head = replace(head, earliest=end)
    return Restarted(tail, head, tuple(made), moved, lost)


def sets_of(gaps: Iterable[Gap]) -> RangeSet:
    """Return the offsets of all gaps except those of single subscriptions."""
    found: RangeSet = ()
    for gap in gaps:
        if not gap.subscription:
            found = sets.add(found, Range(gap.first, gap.end))
    return found


def _missing(stored_to: int, held: Sequence[Held], end: int, *, join: bool) -> list[Held]:
    """Return the records that were in memory: the named pages, and everything after the stored tail."""
    missing = list(held)
    if end > stored_to:
        last = missing[-1] if missing else None
        if join and last is not None and last.end == stored_to:
            missing[-1] = replace(last, end=end)
        else:
            missing.append(Held(stored_to, end, 0, 0))
    return missing
