"""Which settled pages may go: `retain_acked` by time and by bytes.

A page that every subscription has settled is kept for replay until the time has passed or the bytes are taken up by
newer ones. When a page was settled is not stored with it. Instead the lowest offset that somebody still needs is noted
now and then with the time, on the broker's own clock: pages below a mark were settled by then. So a page is kept for
at least the time that was asked for, and at most one spacing of marks longer. Nothing here looks at more pages than
those that go.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.settings import SECOND_US, SinkSettings

MARKS: Final = 64
"""Marks in the time that pages are kept."""
MARKS_MAX: Final = 2 * MARKS + 2
"""Marks of a partition. When a shorter time left more of them, the oldest go: their pages wait for the next one."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything below an offset had been settled by then."""

    until: int
    at_us: int
    """On the broker's own clock."""


Marks = tuple[Mark, ...]
"""By time, and by offset."""


def keeps(settings: SinkSettings) -> bool:
    """Whether settled pages are kept at all."""
    return settings.retain_acked_time_us > 0 or settings.retain_acked_bytes > 0


def noted(marks: Marks, settled: int, now_us: int, retain_us: int) -> Marks:
    """The marks once it is seen that everything below ``settled``, and nothing above, is settled by all."""
    cut: list[Mark] = []
    for mark in marks:  # a seek back made some of it unsettled again
        until = min(mark.until, settled)
        if until > (cut[-1].until if cut else 0):
            cut.append(Mark(until, mark.at_us))
    passed = [mark for mark in cut if mark.at_us <= now_us - retain_us]
    kept = cut[max(0, len(passed) - 1) :]
    spacing_us = max(SECOND_US, retain_us // MARKS)
    if settled > (kept[-1].until if kept else 0) and (not kept or now_us - kept[-1].at_us >= spacing_us):
        kept.append(Mark(settled, now_us))
    return tuple(kept[-MARKS_MAX:])


def passed_until(marks: Marks, now_us: int, retain_us: int) -> int:
    """Offset below which the time has passed for every page."""
    return max((mark.until for mark in marks if mark.at_us <= now_us - retain_us), default=0)


def settled_front(entries: Sequence[Entry], settled: int) -> list[Entry]:
    """Of the first entries of a partition those that everybody has settled, whole."""
    front: list[Entry] = []
    for entry in entries:
        if entry.end > settled:
            break
        front.append(entry)
    return front


def oldest_first(fronts: Mapping[int, Sequence[Entry]], records: int, size: int) -> dict[int, list[Entry]]:
    """The oldest settled pages over all partitions that together free ``records`` and ``size``, or all there are.

    ``fronts`` are those of ``settled_front`` by partition. What goes of a partition is a prefix of its front.
    """
    heap = [(entries[0].age_us, partition, 0) for partition, entries in fronts.items() if entries]
    heapq.heapify(heap)
    chosen: dict[int, list[Entry]] = {}
    while heap and (records > 0 or size > 0):
        _, partition, index = heapq.heappop(heap)
        entries = fronts[partition]
        entry = entries[index]
        chosen.setdefault(partition, []).append(entry)
        records -= entry.count
        size -= entry.size
        if index + 1 < len(entries):
            heapq.heappush(heap, (entries[index + 1].age_us, partition, index + 1))
    return chosen
