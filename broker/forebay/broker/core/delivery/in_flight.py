"""What of one partition is in flight to its consumer, page by page in the order of the offsets.

What is settled within a page is the cursor's to know; a flight only counts what of it is left. In RELAXED order a page
may be in several flights, of different parts: what of it steps aside flies again by itself.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range

_FIRST, _END = attrgetter("first"), attrgetter("end")


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
    """Bytes of the whole page: it takes them up until its last record is settled. Parts of one flight share them."""

    unsettled: int
    age_us: int
    """The page's age stamp."""

    sent_at: float = 0.0
    """Monotonic seconds when it was sent."""

    revision: int = 0
    """Under which it was sent: an older answer speaks of an earlier delivery."""

    resent: bool = False
    """It was parked before, or is a probe: the resend machine counts it."""

    since: float | None = None
    """When its own deadline began, in RELAXED order."""

    number: int = 0
    """Of its sending; rises. Given when it is added."""


class Flights:
    """The pages in flight, and their part of what the consumer has unsettled."""

    __slots__ = ("_deadlines", "_flights", "_pushes", "_settled_ages", "_usage", "sent")

    def __init__(self) -> None:
        self._flights: list[Flight] = []
        """By offset; they never overlap."""
        self._usage = InFlight()
        self._settled_ages: list[int] = []
        self.sent = 0
        """The number of the last one."""
        self._deadlines: list[tuple[float, int, Flight]] = []
        """A heap of when deadlines began; an entry counts while it is its flight's."""
        self._pushes = 0

    def __bool__(self) -> bool:
        return bool(self._flights)

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights)

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
        return {flight.base for flight in self._flights[self._touched(within)]}

    def pages_from(self, first: int) -> int:
        """How many begin at an offset or above it."""
        return len(self._flights) - bisect_left(self._flights, first, key=_FIRST)

    def at(self, offset: int) -> Flight | None:
        """The one that an unsettled offset is in."""
        return next(iter(self._flights[self._touched(Range(offset, offset + 1))]), None)

    def any_resent(self) -> bool:
        """Whether the resend machine counts any."""
        return any(flight.resent for flight in self._flights)

    def resent_since(self, number: int) -> int:
        """How many pages the resend machine counts that were sent after that number."""
        return len({flight.base for flight in self._flights if flight.resent and flight.number > number})

    def lowest_unsettled(self, cursor: Cursor) -> int | None:
        """The lowest offset that waits for its answer."""
        if not self._flights:
            return None
        flight = self._flights[0]
        return next(cursor.unsettled(Range(flight.first, flight.end))).first

    def add(self, flight: Flight) -> None:
        """Put one at its place."""
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

    def _take_out(self, flight: Flight) -> Flight:
        """What the flight was, now that it counts no more."""
        was = replace(flight)
        self._usage.records -= flight.unsettled
        self._usage.size -= flight.size
        flight.unsettled, flight.since = 0, None
        return was

    def void(self, first: int, cursor: Cursor) -> None:
        """Take everything from ``first`` on out of flight."""
        while self._flights and self._flights[-1].end > first:
            was = self._take_out(self._flights.pop())
            if was.first < first:
                kept = sum(r.size for r in cursor.unsettled(Range(was.first, first)))
                if kept:
                    self.add(replace(was, end=first, unsettled=kept))
                break

    def void_part(self, part: Range, cursor: Cursor) -> list[Flight]:
        """Take a range out of flight; returns the flights that it was in. What is left of each flies on by itself."""
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

    def take_back(self, number: int) -> list[Range]:
        """Take all of one sending out of flight; returns where it was, of which parts may be settled."""
        found = [Range(flight.first, flight.end) for flight in self._flights if flight.number == number]
        for flight in self._flights:
            if flight.number == number:
                self._take_out(flight)
        self._flights = [flight for flight in self._flights if flight.number != number]
        return found

    def settle(self, settled: Range, cursor: Cursor, *, answered: bool) -> list[Flight]:
        """Count out what a range is about to settle; ``cursor`` is as it was before. Returns the flights it is in."""
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
                    self._settled_ages.append(flight.age_us)
        self._flights[touched] = [flight for flight in found if flight.unsettled]
        return found

    def _touched(self, part: Range) -> slice:
        low = bisect_right(self._flights, part.first, key=_END)
        return slice(low, max(low, bisect_left(self._flights, part.end, key=_FIRST)))

    def within(self, part: Range) -> Iterator[tuple[Range, Flight | None]]:
        """The parts of a range of unsettled offsets, each with the flight that it is in."""
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
        """Begin the deadline of one anew."""
        if flight.since is not None and flight.since < now:
            flight.since = now
            self._begin_deadline(flight)

    def restart_within(self, part: Range, now: float) -> None:
        """Begin the deadlines anew of all that hold something of a range."""
        for flight in self._flights[self._touched(part)]:
            self.restart(flight, now)

    def longest_waiting(self) -> Flight | None:
        """The one whose deadline began first."""
        while self._deadlines:
            since, _, flight = self._deadlines[0]
            if flight.since == since:
                return flight
            heapq.heappop(self._deadlines)
        return None

    def take_settled_ages(self) -> list[int]:
        """Age stamps of the flights whose last record was answered since this was asked last."""
        found, self._settled_ages = self._settled_ages, []
        return found
