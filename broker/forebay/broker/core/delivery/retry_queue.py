"""What of one partition has stepped aside: ranges that failed in RELAXED order and wait to be sent again.

A parked range is neither settled nor in flight. It lives as long as the process: after a restart everything that is
not settled is delivered anew, so only the attempts, which the cursor keeps, have to survive.
Times are seconds on a monotonic clock and are passed in.
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
"""The turn of what was taken back without having failed: before all that failed."""


@dataclass(frozen=True, slots=True)
class Aside:
    """One parked range; what of it is settled meanwhile is the cursor's to know."""

    first: int
    end: int
    not_before: float
    """It may be sent again from then on, if the resend machine lets it."""

    turn: int
    """Rises with each failure: who failed longest ago is tried first."""


class Parked:
    """The parked ranges by offset. They never overlap."""

    __slots__ = ("_asides", "_none_before", "_times", "_turns")

    def __init__(self) -> None:
        self._asides: list[Aside] = []
        self._turns = PUT_BACK
        self._times: list[float] = []
        """A heap of when ranges become due; some may be gone by then."""
        self._none_before = 0.0
        """Nothing is due before."""

    def __len__(self) -> int:
        return len(self._asides)

    def __bool__(self) -> bool:
        return bool(self._asides)

    def __iter__(self) -> Iterator[Aside]:
        return iter(self._asides)

    def records(self, cursor: Cursor) -> int:
        """How many records wait."""
        return sum(r.size for aside in self._asides for r in cursor.unsettled(Range(aside.first, aside.end)))

    def park(self, failed: Range, not_before: float) -> None:
        """A range has failed."""
        self._turns += 1
        self._add(Aside(failed.first, failed.end, not_before, self._turns))

    def put_back(self, voided: Range) -> None:
        """A range that was sent again is taken back, without having failed: it is due at once."""
        self._add(Aside(voided.first, voided.end, 0.0, PUT_BACK))

    def _add(self, aside: Aside) -> None:
        insort(self._asides, aside, key=_FIRST)
        heapq.heappush(self._times, aside.not_before)
        self._none_before = min(self._none_before, aside.not_before)

    def remove(self, gone: Range) -> list[Range]:
        """Take out what ``gone`` covers; returns the parts that were parked."""
        low, high = self._touched(gone)
        found, kept = [], []
        for aside in self._asides[low:high]:
            found.append(Range(max(aside.first, gone.first), min(aside.end, gone.end)))
            if aside.first < gone.first:
                kept.append(Aside(aside.first, gone.first, aside.not_before, aside.turn))
            if gone.end < aside.end:
                kept.append(Aside(gone.end, aside.end, aside.not_before, aside.turn))
        self._asides[low:high] = kept
        return found

    def clear(self) -> None:
        """Nothing waits any more."""
        self._asides, self._times, self._none_before = [], [], 0.0

    def within(self, part: Range) -> list[Range]:
        """What of a range is parked."""
        low, high = self._touched(part)
        return [Range(max(one.first, part.first), min(one.end, part.end)) for one in self._asides[low:high]]

    def at(self, offset: int) -> Aside | None:
        """The range that an offset is in."""
        low, high = self._touched(Range(offset, offset + 1))
        return self._asides[low] if low < high else None

    def _touched(self, part: Range) -> tuple[int, int]:
        low = bisect_right(self._asides, part.first, key=_END)
        return low, max(low, bisect_left(self._asides, part.end, key=_FIRST))

    def due_within(self, part: Range, now: float) -> list[Range]:
        """What of a range is parked and due."""
        low, high = self._touched(part)
        return [
            Range(max(one.first, part.first), min(one.end, part.end))
            for one in self._asides[low:high]
            if one.not_before <= now
        ]

    def next_from(self, offset: int, now: float | None) -> int | None:
        """Where the first range lies that ends above an offset and is due; without ``now``, due or not."""
        low, _ = self._touched(Range(offset, offset + 1))
        found = (one for one in self._asides[low:] if now is None or one.not_before <= now)
        first = next(found, None)
        return None if first is None else max(first.first, offset)

    def next_due(self, now: float, *, singly: bool) -> Aside | None:
        """What to send next: the lowest that is due or, ``singly``, the one that failed longest ago."""
        if now < self._none_before:
            return None
        due = (aside for aside in self._asides if aside.not_before <= now)
        found = min(due, key=lambda one: (one.turn, one.first), default=None) if singly else next(due, None)
        if found is None:
            self._none_before = min((aside.not_before for aside in self._asides), default=0.0)
        return found

    def next_timer(self, now: float) -> float | None:
        """When, after ``now``, something becomes due, if ever."""
        while self._times and self._times[0] <= now:
            heapq.heappop(self._times)
        return self._times[0] if self._times else None
