"""Retention of settled pages: `retain_acked` by time and by bytes.

A page that every subscription has settled is kept for replay until the time has passed or newer pages need the bytes.
The time at which a page was settled is not stored with it. Instead a mark is taken now and then: the lowest offset that
is still needed, and the time on the broker's own clock. Pages below a mark were settled by then. A page is kept at
least for the configured time, and at most one mark spacing longer. Nothing here examines more pages than it removes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.settings import SECOND_US, SinkSettings

MARKS: Final = 64
"""Marks within the retention time."""
MARKS_MAX: Final = 2 * MARKS + 2
"""Marks per partition. If a shorter time left more, the oldest are dropped.

Their pages wait for the next mark.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """Offset below which every record was settled at a time."""

    until: int
    at_us: int
    """Time on the broker's own clock."""


Marks = tuple[Mark, ...]
"""Marks by time, and by offset."""


def keeps(settings: SinkSettings) -> bool:
    """Return whether settled pages are kept at all."""
    return settings.retain_acked_time_us > 0 or settings.retain_acked_bytes > 0


def noted(marks: Marks, settled: int, now_us: int, retain_us: int) -> Marks:
    """Return the marks after an observation: exactly the records below ``settled`` are settled by all."""
    cut: list[Mark] = []
    for mark in marks:  # a seek to a lower offset made some records unsettled again
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
    """Return the offset below which the retention time has passed for every page."""
    return max((mark.until for mark in marks if mark.at_us <= now_us - retain_us), default=0)


def settled_front(entries: Iterable[Entry], settled: int) -> list[Entry]:
    """Return those of the first entries of a partition that every subscription has settled completely."""
    front: list[Entry] = []
    for entry in entries:
        if entry.end > settled:
            break
        front.append(entry)
    return front


def oldest_first(fronts: Mapping[int, Sequence[Entry]], records: int, size: int) -> dict[int, list[Entry]]:
    """Return the oldest settled pages of all partitions that free ``records`` and ``size``, or all pages.

    ``fronts`` are those of ``settled_front`` by partition. The chosen pages of a partition are a prefix of its front.
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
