"""Records of one partition that are in flight to its consumer, by page and in the order of offsets.

The cursor knows which records of a page are settled; a flight only counts the unsettled ones. In RELAXED order several
flights may hold different parts of one page: a failed part is redelivered separately.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range

_FIRST, _END = attrgetter("first"), attrgetter("end")


@dataclass(slots=True)
class InFlight:
    """Unsettled records and bytes of one consumer, over all its lanes."""

    records: int = 0
    size: int = 0


@dataclass(slots=True)
class Flight:
    """Page in flight, or the part of it that is to be processed."""

    base: int
    """Offset at which its page begins."""

    first: int
    end: int
    size: int
    """Bytes of the whole page, counted until its last record is settled. Parts of one flight share them."""

    unsettled: int
    age_us: int
    """The page's age stamp."""

    sent_at: float = 0.0
    """Monotonic seconds when it was sent."""

    revision: int = 0
    """Revision under which it was sent: an answer under an older one refers to an earlier delivery."""

    resent: bool = False
    """True for a redelivery from the retry queue and for a probe: the resend state machine counts these."""

    since: float | None = None
    """Start of its own ack deadline, in RELAXED order."""

    number: int = 0
    """Number of its delivery, rising; assigned when the flight is added."""

    traceparent: str = ""
    """Trace context of the page's first publisher."""


class SettledPage(NamedTuple):
    """Page that was completely answered."""

    age_us: int
    """Its age stamp."""

    sent_at: float
    """Monotonic seconds when it was sent."""

    traceparent: str = ""
    """Trace context of its first publisher."""


class Flights:
    """Pages in flight, and their share of the consumer's usage."""

    __slots__ = ("_deadlines", "_flights", "_pushes", "_settled", "_usage", "sent")

    def __init__(self) -> None:
        self._flights: list[Flight] = []
        """Sorted by offset, disjoint."""
        self._usage = InFlight()
        self._settled: list[SettledPage] = []
        self.sent = 0
        """Number of the last delivery."""
        self._deadlines: list[tuple[float, int, Flight]] = []
        """Heap of deadline starts; an entry is valid while it equals the ``since`` of its flight."""
        self._pushes = 0

    def __bool__(self) -> bool:
        return bool(self._flights)

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights)

    def count_for(self, usage: InFlight) -> None:
        """Count the flights in the usage of another consumer. Requires that nothing is in flight."""
        self._usage = usage

    @property
    def records(self) -> int:
        """Number of unsettled records."""
        return sum(flight.unsettled for flight in self._flights)

    @property
    def first(self) -> int:
        """Offset at which the first flight begins. Requires a flight."""
        return self._flights[0].first

    def bases(self) -> set[int]:
        """Base offsets of the pages in flight."""
        return {flight.base for flight in self._flights}

    def bases_in(self, within: Range) -> set[int]:
        """Base offsets of the flights that overlap a range."""
        return {flight.base for flight in self._flights[self._touched(within)]}

    def pages_from(self, first: int) -> int:
        """Return the number of flights that begin at ``first`` or above it."""
        return len(self._flights) - bisect_left(self._flights, first, key=_FIRST)

    def at(self, offset: int) -> Flight | None:
        """Return the flight that holds an unsettled offset."""
        return next(iter(self._flights[self._touched(Range(offset, offset + 1))]), None)

    def any_resent(self) -> bool:
        """Return whether the resend state machine counts any flight."""
        return any(flight.resent for flight in self._flights)

    def resent_since(self, number: int) -> int:
        """Return the number of resent pages that were sent after delivery ``number``."""
        return len({flight.base for flight in self._flights if flight.resent and flight.number > number})

    def lowest_unsettled(self, cursor: Cursor) -> int | None:
        """Return the lowest offset that waits for its answer."""
        if not self._flights:
            return None
        flight = self._flights[0]
        return next(cursor.unsettled(Range(flight.first, flight.end))).first

    def add(self, flight: Flight) -> None:
        """Insert a flight in the order of offsets."""
        if not flight.number:
            self.sent += 1
            flight.number = self.sent
        insort(self._flights, flight, key=_FIRST)
        self._usage.records += flight.unsettled
        self._usage.size += flight.size
        self._begin_deadline(flight)

    def _begin_deadline(self, flight: Flight) -> None:
        if flight.since is not None:
            self._pushes += 1
            heapq.heappush(self._deadlines, (flight.since, self._pushes, flight))

    def _remove(self, flight: Flight) -> Flight:
        """Stop counting a flight; returns a copy of it as it was before."""
        was = replace(flight)
        self._usage.records -= flight.unsettled
        self._usage.size -= flight.size
        flight.unsettled, flight.since = 0, None
        return was

    def void(self, first: int, cursor: Cursor) -> None:
        """Remove everything from ``first`` on from flight."""
        while self._flights and self._flights[-1].end > first:
            was = self._remove(self._flights.pop())
            if was.first < first:
                kept = sum(r.size for r in cursor.unsettled(Range(was.first, first)))
                if kept:
                    self.add(replace(was, end=first, unsettled=kept))
                break

    def void_part(self, part: Range, cursor: Cursor) -> list[Flight]:
        """Remove a range from flight; returns the flights that held it.

        The rest of each flight stays in flight.
        """
        touched = self._touched(part)
        found = self._flights[touched]
        left: list[Flight] = []
        for flight in found:
            lower, upper = Range(flight.first, part.first), Range(part.end, flight.end)
            below = sum(r.size for r in cursor.unsettled(lower)) if lower.size > 0 else 0
            above = sum(r.size for r in cursor.unsettled(upper)) if upper.size > 0 else 0
            sizes = flight.size * below // flight.unsettled, flight.size * above // flight.unsettled
            self._usage.records -= flight.unsettled - below - above
            self._usage.size -= flight.size - sum(sizes)
            if above:
                rest = replace(flight, first=upper.first, unsettled=above, size=sizes[1])
                self._begin_deadline(rest)
                left.append(rest)
            flight.end, flight.unsettled, flight.size = max(lower.end, flight.first), below, sizes[0]
            if below:
                left.insert(len(left) - bool(above), flight)
            else:
                flight.since = None
        self._flights[touched] = left
        return found

    def revoke(self, number: int) -> list[Range]:
        """Remove all flights of one delivery; returns their ranges, parts of which may be settled."""
        found = [Range(flight.first, flight.end) for flight in self._flights if flight.number == number]
        for flight in self._flights:
            if flight.number == number:
                self._remove(flight)
        self._flights = [flight for flight in self._flights if flight.number != number]
        return found

    def settle(self, settled: Range, cursor: Cursor, *, answered: bool) -> list[Flight]:
        """Subtract the records that a range is about to settle; returns the flights that hold them.

        ``cursor`` is the cursor before the settlement.
        """
        touched = self._touched(settled)
        found = self._flights[touched]
        for flight in found:
            within = Range(max(flight.first, settled.first), min(flight.end, settled.end))
            fresh = sum(r.size for r in cursor.unsettled(within))
            flight.unsettled -= fresh
            self._usage.records -= fresh
            if flight.unsettled == 0:
                self._usage.size -= flight.size
                flight.since = None
                if answered:
                    self._settled.append(SettledPage(flight.age_us, flight.sent_at, flight.traceparent))
        self._flights[touched] = [flight for flight in found if flight.unsettled]
        return found

    def _touched(self, part: Range) -> slice:
        low = bisect_right(self._flights, part.first, key=_END)
        return slice(low, max(low, bisect_left(self._flights, part.end, key=_FIRST)))

    def within(self, part: Range) -> Iterator[tuple[Range, Flight | None]]:
        """Yield the parts of a range of unsettled offsets, each with the flight that holds it."""
        at = part.first
        for flight in self._flights[self._touched(part)]:
            first, end = max(at, flight.first), min(part.end, flight.end)
            if first > at:
                yield Range(at, first), None
            yield Range(first, end), flight
            at = end
        if at < part.end:
            yield Range(at, part.end), None

    # -- deadlines of their own, in RELAXED order

    def restart(self, flight: Flight, now: float) -> None:
        """Restart the deadline of one flight."""
        if flight.since is not None and flight.since < now:
            flight.since = now
            self._begin_deadline(flight)

    def restart_within(self, part: Range, now: float) -> None:
        """Restart the deadlines of all flights that overlap a range."""
        for flight in self._flights[self._touched(part)]:
            self.restart(flight, now)

    def longest_waiting(self) -> Flight | None:
        """Return the flight whose deadline began first."""
        while self._deadlines:
            since, _, flight = self._deadlines[0]
            if flight.since == since:
                return flight
            heapq.heappop(self._deadlines)
        return None

    def pop_settled(self) -> list[SettledPage]:
        """Return the flights that were completely answered since the last call."""
        found, self._settled = self._settled, []
        return found
