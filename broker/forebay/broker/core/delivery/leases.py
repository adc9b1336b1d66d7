"""What of one partition is leased: ranges that a holder has taken from what had stepped aside, until a time.

A leased range is neither settled nor parked nor in flight to a consumer. A holder has no connection: it is known by its
name alone, so that whoever takes up its work goes on with its set. A lease lives as long as the process, as what is
parked does: after a restart nobody holds anything, and what is not settled is delivered anew.
Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range, joined


@dataclass(slots=True)
class Lease:
    """One holder's, on one partition."""

    holder: str
    until: float
    number: int
    """What its ranges are known by here."""


class Leases:
    """The leased ranges by offset. They never overlap; each is what failed together, and fails together again."""

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
        """Records unsettled."""
        return self._flights.records

    def take(self, holder: str, until: float, page: Flight, ranges: Iterable[Range]) -> None:
        """Unsettled ranges of a page are the holder's until a time, and so is what it has already."""
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
        """What a holder has is its own until then."""
        lease = self._by_holder.get(holder)
        if lease is not None:
            lease.until = until

    def holders(self) -> set[str]:
        """Who has something; who has nothing any more is forgotten."""
        held = {flight.number for flight in self._flights}
        for lease in [lease for lease in self._by_holder.values() if lease.number not in held]:
            self._forget(lease)
        return set(self._by_holder)

    def of(self, holder: str, cursor: Cursor) -> list[Range]:
        """What a holder has that is not settled; neighbours as one."""
        lease = self._by_holder.get(holder)
        if lease is None:
            return []
        mine = (flight for flight in self._flights if flight.number == lease.number)
        return joined(part for flight in mine for part in cursor.unsettled(Range(flight.first, flight.end)))

    def at(self, offset: int) -> tuple[Lease, Flight] | None:
        """Who has an unsettled offset, and as what."""
        flight = self._flights.at(offset)
        return None if flight is None else (self._by_number[flight.number], flight)

    def within(self, part: Range) -> Iterator[tuple[Range, Lease | None]]:
        """The parts of a range of unsettled offsets, each with the lease that it is in."""
        for each, flight in self._flights.within(part):
            yield each, None if flight is None else self._by_number[flight.number]

    def bases(self) -> set[int]:
        """Where the pages of what is leased begin."""
        return self._flights.bases()

    def settle(self, settled: Range, cursor: Cursor, *, answered: bool) -> None:
        """Count out what a range is about to settle; ``cursor`` is as it was before."""
        self._flights.settle(settled, cursor, answered=answered)

    def take_settled_ages(self) -> list[int]:
        """Age stamps of the ranges whose last record was answered since this was asked last."""
        return self._flights.take_settled_ages()

    def release(self, holder: str) -> list[Range]:
        """A holder has nothing any more; returns its ranges, of which parts may be settled."""
        lease = self._by_holder.get(holder)
        if lease is None:
            return []
        self._forget(lease)
        return self._flights.take_back(lease.number)

    @property
    def held(self) -> bool:
        """Somebody has a lease here, though perhaps nothing in it."""
        return bool(self._by_holder)

    def run_out(self, now: float) -> list[Range]:
        """End the leases whose time is over; returns their ranges, of which parts may be settled."""
        if not self._by_holder:
            return []
        late = [lease.holder for lease in self._by_holder.values() if now >= lease.until]
        return sorted(part for holder in late for part in self.release(holder))

    def next_timer(self) -> float | None:
        """When the first lease runs out, if there is one."""
        return min((lease.until for lease in self._by_holder.values()), default=None)

    def clear(self) -> None:
        """Nobody has anything any more."""
        for holder in list(self._by_holder):
            self.release(holder)

    def _forget(self, lease: Lease) -> None:
        del self._by_holder[lease.holder], self._by_number[lease.number]
