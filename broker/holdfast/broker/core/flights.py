"""What of one partition is in flight to its consumer, page by page in the order of the offsets.

What is settled within a page is the cursor's to know; a flight only counts what of it is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.ranges import Range


@dataclass(slots=True)
class InFlight:
    """How much one consumer has unsettled, over all its lanes."""

    records: int = 0
    size: int = 0


@dataclass(slots=True)
class Flight:
    """A page that was sent, or what of it is to be processed."""

    base: int
    """Where its page begins."""

    first: int
    end: int
    size: int
    """Bytes of the whole page: it takes them up until its last record is settled."""

    unsettled: int
    age_us: int
    """The page's age stamp."""


class Flights:
    """The pages in flight, and their part of what the consumer has unsettled."""

    __slots__ = ("_flights", "_settled_ages", "_usage")

    def __init__(self) -> None:
        self._flights: deque[Flight] = deque()
        self._usage = InFlight()
        self._settled_ages: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._flights)

    def count_in(self, usage: InFlight) -> None:
        """Another consumer has them from now on. Nothing is in flight."""
        self._usage = usage

    @property
    def records(self) -> int:
        """Records unsettled."""
        return sum(flight.unsettled for flight in self._flights)

    @property
    def first(self) -> int:
        """Where the first one begins. There is one."""
        return self._flights[0].first

    def bases(self) -> set[int]:
        """Where their pages begin."""
        return {flight.base for flight in self._flights}

    def bases_in(self, within: Range) -> set[int]:
        """Where those begin that a range touches."""
        return {flight.base for flight in self._flights if flight.first < within.end and within.first < flight.end}

    def pages_from(self, first: int) -> int:
        """How many begin at an offset or above it."""
        return sum(flight.first >= first for flight in self._flights)

    def lowest_unsettled(self, cursor: Cursor) -> int | None:
        """The lowest offset that waits for its answer."""
        if not self._flights:
            return None
        flight = self._flights[0]
        return next(cursor.unsettled(Range(flight.first, flight.end))).first

    def add(self, flight: Flight) -> None:
        """Put one behind the others."""
        self._flights.append(flight)
        self._usage.records += flight.unsettled
        self._usage.size += flight.size

    def void(self, first: int, cursor: Cursor) -> None:
        """Take everything from ``first`` on out of flight."""
        while self._flights and self._flights[-1].end > first:
            flight = self._flights.pop()
            self._usage.records -= flight.unsettled
            self._usage.size -= flight.size
            if flight.first < first:
                kept = sum(r.size for r in cursor.unsettled(Range(flight.first, first)))
                if kept:
                    self.add(replace(flight, end=first, unsettled=kept))
                break

    def settle(self, settled: Range, cursor: Cursor, *, answered: bool) -> None:
        """Count out what a range is about to settle; ``cursor`` is as it was before."""
        for flight in self._flights:
            if flight.first < settled.end and settled.first < flight.end:
                within = Range(max(flight.first, settled.first), min(flight.end, settled.end))
                fresh = sum(r.size for r in cursor.unsettled(within))
                flight.unsettled -= fresh
                self._usage.records -= fresh
                if flight.unsettled == 0:
                    self._usage.size -= flight.size
                    if answered:
                        self._settled_ages.append(flight.age_us)
        self._flights = deque(flight for flight in self._flights if flight.unsettled)

    def within(self, part: Range) -> Iterator[tuple[Range, bool]]:
        """The parts of a range of unsettled offsets, each with whether it is in flight."""
        at = part.first
        for flight in self._flights:
            first, end = max(at, flight.first), min(part.end, flight.end)
            if first < end:
                if first > at:
                    yield Range(at, first), False
                yield Range(first, end), True
                at = end
        if at < part.end:
            yield Range(at, part.end), False

    def take_settled_ages(self) -> list[int]:
        """Age stamps of the flights whose last record was answered since this was asked last."""
        found, self._settled_ages = self._settled_ages, []
        return found
