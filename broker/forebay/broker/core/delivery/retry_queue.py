"""Retry queue of one partition: ranges that failed in RELAXED order and wait for redelivery.

A queued range is neither settled nor in flight. The queue lives in memory: after a restart every unsettled record is
redelivered, so only the attempts, which the cursor stores, have to survive. Times are seconds on a monotonic clock and
are passed in.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range

_FIRST, _END = attrgetter("first"), attrgetter("end")
PUT_BACK: Final = 0
"""Turn of ranges that were revoked without a failure: before all failed ranges."""


@dataclass(frozen=True, slots=True)
class QueuedRange:
    """One queued range; the cursor knows which records of it have been settled since."""

    first: int
    end: int
    not_before: float
    """Earliest time of the redelivery, if the resend state machine allows it."""

    turn: int
    """Rises with each failure: the range that failed longest ago is retried first."""


class RetryQueue:
    """Queued ranges by offset, disjoint."""

    __slots__ = ("_none_before", "_ranges", "_times", "_turns")

    def __init__(self) -> None:
        self._ranges: list[QueuedRange] = []
        self._turns = PUT_BACK
        self._times: list[float] = []
        """Heap of due times; some ranges may have been removed."""
        self._none_before = 0.0
        """No range is due before this time."""

    def __len__(self) -> int:
        return len(self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[QueuedRange]:
        return iter(self._ranges)

    def records(self, cursor: Cursor) -> int:
        """Return the number of unsettled records in the queue."""
        return sum(r.size for queued in self._ranges for r in cursor.unsettled(Range(queued.first, queued.end)))

    def add(self, failed: Range, not_before: float) -> None:
        """Add a range that has failed."""
        self._turns += 1
        self._insert(QueuedRange(failed.first, failed.end, not_before, self._turns))

    def put_back(self, voided: Range) -> None:
        """Add a redelivered range that was revoked without a failure: it is due at once."""
        self._insert(QueuedRange(voided.first, voided.end, 0.0, PUT_BACK))

    def _insert(self, queued: QueuedRange) -> None:
        insort(self._ranges, queued, key=_FIRST)
        heapq.heappush(self._times, queued.not_before)
        self._none_before = min(self._none_before, queued.not_before)

    def remove(self, gone: Range) -> list[Range]:
        """Remove the range ``gone``; returns the parts that were queued."""
        low, high = self._touched(gone)
        found, kept = [], []
        for queued in self._ranges[low:high]:
            found.append(Range(max(queued.first, gone.first), min(queued.end, gone.end)))
            if queued.first < gone.first:
                kept.append(QueuedRange(queued.first, gone.first, queued.not_before, queued.turn))
            if gone.end < queued.end:
                kept.append(QueuedRange(gone.end, queued.end, queued.not_before, queued.turn))
        self._ranges[low:high] = kept
        return found

    def clear(self) -> None:
        """Remove all ranges."""
        self._ranges, self._times, self._none_before = [], [], 0.0

    def within(self, part: Range) -> list[Range]:
        """Return the queued parts of a range."""
        low, high = self._touched(part)
        return [Range(max(one.first, part.first), min(one.end, part.end)) for one in self._ranges[low:high]]

    def at(self, offset: int) -> QueuedRange | None:
        """Return the queued range that holds an offset."""
        low, high = self._touched(Range(offset, offset + 1))
        return self._ranges[low] if low < high else None

    def _touched(self, part: Range) -> tuple[int, int]:
        low = bisect_right(self._ranges, part.first, key=_END)
        return low, max(low, bisect_left(self._ranges, part.end, key=_FIRST))

    def due_within(self, part: Range, now: float) -> list[Range]:
        """Return the parts of a range that are queued and due."""
        low, high = self._touched(part)
        return [
            Range(max(one.first, part.first), min(one.end, part.end))
            for one in self._ranges[low:high]
            if one.not_before <= now
        ]

    def next_from(self, offset: int, now: float | None) -> int | None:
        """Return the first queued offset at or above ``offset`` that is due; without ``now``, due or not."""
        low, _ = self._touched(Range(offset, offset + 1))
        found = (one for one in self._ranges[low:] if now is None or one.not_before <= now)
        first = next(found, None)
        return None if first is None else max(first.first, offset)

    def next_due(self, now: float, *, singly: bool) -> QueuedRange | None:
        """Return the next range to redeliver: the lowest that is due or, ``singly``, the first to have failed."""
        if now < self._none_before:
            return None
        due = (queued for queued in self._ranges if queued.not_before <= now)
        found = min(due, key=lambda one: (one.turn, one.first), default=None) if singly else next(due, None)
        if found is None:
            self._none_before = min((queued.not_before for queued in self._ranges), default=0.0)
        return found

    def next_timer(self, now: float) -> float | None:
        """Return the next time after ``now`` at which a range becomes due, if any."""
        while self._times and self._times[0] <= now:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None
