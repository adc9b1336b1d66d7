"""Leased ranges of one partition: a holder has taken them from the retry queue for a limited time.

A leased range is neither settled, nor in the retry queue, nor in flight to a consumer. A holder has no connection: its
name alone identifies it, so a process that takes over its work continues with its set. Leases live in memory, as the
retry queue does: after a restart there are none, and every unsettled record is redelivered. Times are seconds on a
monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from forebay.broker.core.delivery.in_flight import Flight, Flights, SettledPage
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range, joined


@dataclass(slots=True)
class Lease:
    """Lease of one holder on one partition."""

    holder: str
    until: float
    number: int
    """Number that identifies its ranges here."""


class Leases:
    """Leased ranges by offset, disjoint. Records that failed together stay one range."""

    __slots__ = ("_by_holder", "_by_number", "_flights", "_numbers")

    def __init__(self) -> None:
        self._flights = Flights()
        self._by_holder: dict[str, Lease] = {}
        self._by_number: dict[int, Lease] = {}
        self._numbers = 0

    def __bool__(self) -> bool:
        return bool(self._flights)

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def records(self) -> int:
        """Number of unsettled records."""
        return self._flights.records

    def lease(self, holder: str, until: float, page: Flight, ranges: Iterable[Range]) -> None:
        """Lease unsettled ranges of a page to the holder, and extend its lease to ``until``."""
        lease = self._by_holder.get(holder)
        if lease is None:
            self._numbers += 1
            lease = self._by_holder[holder] = self._by_number[self._numbers] = Lease(holder, until, self._numbers)
        lease.until = until
        for part in ranges:
            self._flights.add(
                replace(page, first=part.first, end=part.end, size=0, unsettled=part.size, number=lease.number)
            )

    def extend(self, holder: str, until: float) -> None:
        """Extend the lease of a holder to ``until``."""
        lease = self._by_holder.get(holder)
        if lease is not None:
            lease.until = until

    def holders(self) -> set[str]:
        """Return the holders with a leased range; leases without one are removed."""
        held = {flight.number for flight in self._flights}
        for lease in [lease for lease in self._by_holder.values() if lease.number not in held]:
            self._remove(lease)
        return set(self._by_holder)

    def of(self, holder: str, cursor: Cursor) -> list[Range]:
        """Return the unsettled ranges of a holder, neighbours joined."""
        lease = self._by_holder.get(holder)
        if lease is None:
            return []
        mine = (flight for flight in self._flights if flight.number == lease.number)
        return joined(part for flight in mine for part in cursor.unsettled(Range(flight.first, flight.end)))

    def at(self, offset: int) -> tuple[Lease, Flight] | None:
        """Return the lease and the flight that hold an unsettled offset."""
        flight = self._flights.at(offset)
        return None if flight is None else (self._by_number[flight.number], flight)

    def within(self, part: Range) -> Iterator[tuple[Range, Lease | None]]:
        """Yield the parts of a range of unsettled offsets, each with the lease that holds it."""
        for each, flight in self._flights.within(part):
            yield each, None if flight is None else self._by_number[flight.number]

    def bases(self) -> set[int]:
        """Base offsets of the leased pages."""
        return self._flights.bases()

    def settle(self, settled: Range, cursor: Cursor, *, answered: bool) -> None:
        """Subtract the records that a range is about to settle. ``cursor`` is the cursor before that."""
        self._flights.settle(settled, cursor, answered=answered)

    def pop_settled(self) -> list[SettledPage]:
        """Return the ranges that were completely answered since the last call."""
        return self._flights.pop_settled()

    def release(self, holder: str) -> list[Range]:
        """Release all ranges of a holder and return them; parts of them may be settled."""
        lease = self._by_holder.get(holder)
        if lease is None:
            return []
        self._remove(lease)
        return self._flights.revoke(lease.number)

    @property
    def held(self) -> bool:
        """True if there is a lease, even an empty one."""
        return bool(self._by_holder)

    def expire(self, now: float) -> list[Range]:
        """End the expired leases and return their ranges, parts of which may be settled."""
        if not self._by_holder:
            return []
        late = [lease.holder for lease in self._by_holder.values() if now >= lease.until]
        return sorted(part for holder in late for part in self.release(holder))

    def next_timer(self) -> float | None:
        """Return the time at which the first lease expires, if there is one."""
        return min((lease.until for lease in self._by_holder.values()), default=None)

    def clear(self) -> None:
        """Release all leases."""
        for holder in list(self._by_holder):
            self.release(holder)

    def _remove(self, lease: Lease) -> None:
        del self._by_holder[lease.holder], self._by_number[lease.number]
