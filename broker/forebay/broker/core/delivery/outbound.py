"""Sending half of a lane: which pages of a partition go to its owner, and in which order.

It has two sources: the log from the position on and, in RELAXED order, the retry queue (see `retry_lane`). An unsettled
record below the position is either in flight, in the retry queue, leased, or being moved to another sink. Times are
seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from forebay.broker.core.dead_letters.transfer import Moving
from forebay.broker.core.delivery.answers import History
from forebay.broker.core.delivery.gap_notices import Told
from forebay.broker.core.delivery.in_flight import Flight, Flights, InFlight
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.redelivery import Resend
from forebay.broker.core.delivery.retry_lane import Kind, Sidelane
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings

HOLES_MAX: Final = 4096
"""Ranges settled beyond the watermark, queued for retry or leased; at the bound no new page is sent.

It is exceeded at most by the ranges that were in flight when it was reached.
"""
MOVING_MAX: Final = 65_536
"""Records being moved to another sink; at the bound nothing is sent until some have arrived."""


class Outbound:
    """Sending half of a lane."""

    def __init__(self, cursor: Cursor, settings: SinkSettings) -> None:
        self.cursor = cursor
        self.settings = settings
        self.resend = Resend(settings)
        self.owner: str | None = None
        self.owner_epoch = 0
        self.revision = 0
        self.position = min(cursor.watermark, cursor.told)
        """Offset of the next page or gap notice to send."""
        self._told = Told()
        self._failed_from = 0
        """In STRICT order, the offset of the last failure: flights from here on were sent after it."""
        self.redelivered = 0
        """Records redelivered since this process started."""
        self._history = History()
        self._flights = Flights()
        self.side = Sidelane(self.resend, self._flights)
        self.leases = Leases()
        """Ranges of the retry queue that are leased as sets."""
        self._deadline_base = 0.0
        self.deadline_not_before = 0.0
        """No deadline passes before this time: until then the broker cannot know that the owner is alive."""
        self.held = False
        """True during a purge: nothing is sent."""
        self.moving = Moving()
        """Records that are being moved to another sink."""

    @property
    def view(self) -> Cursor:
        """Cursor for deliveries: records that are being moved to another sink count as settled."""
        return self.moving.over(self.cursor) if self.moving else self.cursor

    @property
    def stored(self) -> Cursor:
        """Cursor as it is written to the store now."""
        return self.moving.stored(self.cursor) if self.moving else self.cursor

    # -- ownership

    def take(self, owner: str, owner_epoch: int, usage: InFlight) -> None:
        """Assign the lane to a consumer. Requires that nothing is in flight."""
        self.owner, self.owner_epoch = owner, owner_epoch
        self._flights.count_in(usage)
        self.revision = 0
        self._history.forget()
        self.position = min(self.cursor.watermark, self.cursor.told)
        self._told, self._failed_from = Told(), 0
        self.deadline_not_before = 0.0

    def release(self, *, failed: bool) -> None:
        """Remove the owner. ``failed``: it left with records in flight, which fails the head once.

        The retry queue stays for the next owner; in RELAXED order the head's page joins it.
        """
        head = self._flights.lowest_unsettled(self.view)
        if failed and head is not None:
            self.cursor = self.cursor.failed(head)
            if self.relaxed:
                page = Range(head, next(iter(self._flights)).end)
                self._flights.void_part(page, self.view)
                self.side.parked.park(page, not_before=0.0)
        self._void(0)
        self.owner = None
        self.position, self._told = min(self.cursor.watermark, self.cursor.told), Told()

    # -- sending

    @property
    def relaxed(self) -> bool:
        """True in RELAXED order: a failed range goes to the retry queue, and new records continue."""
        return self.settings.ordering == Ordering.RELAXED

    @property
    def place(self) -> tuple[int, int, int]:
        """State that must not change while a page is read for the live lane."""
        return self.owner_epoch, 0 if self.relaxed else self.revision, self.position

    @property
    def records_in_flight(self) -> int:
        """Unsettled records in flight, plus the records being moved to another sink."""
        return self._flights.records + self.moving.records

    @property
    def idle(self) -> bool:
        """True if nothing is in flight."""
        return not self._flights

    def pages_in_flight(self) -> set[int]:
        """Base offsets of the pages in flight or leased, or with records being moved to another sink."""
        return self._flights.bases() | self.leases.bases() | self.moving.bases

    @property
    def holes(self) -> int:
        """Number of ranges settled beyond the watermark, queued for retry or leased: bounded by ``HOLES_MAX``."""
        return len(self.view.beyond) + len(self.side.parked) + len(self.leases)

    @property
    def waits_for_holes(self) -> bool:
        """True if the bound of holes is reached: nothing new is sent until some are closed."""
        return self.holes >= HOLES_MAX and bool(self._flights or self.side.parked or self.leases or self.moving)

    @property
    def waits_for_moving(self) -> bool:
        """True if too many records are being moved to another sink: nothing is sent until some have arrived."""
        return bool(self.moving) and self.moving.records >= MOVING_MAX

    def order(self, now: float) -> tuple[Kind, ...]:
        """Return the lanes in the order in which they may send."""
        return () if self.held or self.waits_for_moving else self.side.order(now, self.position)

    def pages_allowed(self, now: float) -> int | None:
        """Return the number of pages that the live lane may send now; None is unlimited but for the credit.

        A probe does not wait for answers to deliveries that were sent before the failure, nor do these decide it.
        """
        if self.held or self.waits_for_holes or self.waits_for_moving:
            return 0
        if self.relaxed:
            return self.side.live_allowed(now)
        return self.resend.pages_allowed(now, self.sent_since_failure)

    @property
    def sent_since_failure(self) -> int:
        """Pages in flight that were sent after the last failure; in RELAXED order, the redelivered ones."""
        return self._flights.resent_since(0) if self.relaxed else self._flights.pages_from(self._failed_from)

    def flight_at(self, offset: int) -> Flight | None:
        """Return the flight that holds an unsettled offset."""
        return self._flights.at(offset)

    def wanted(self, within: Range) -> Iterator[Range]:
        """Yield the parts of a range that the live lane has to send.

        These are not settled, queued for retry, leased, in flight or being moved.
        """
        for part in self.view.unsettled(within):
            away = self.side.parked.within(part) + [found for found, flight in self._flights.within(part) if flight]
            if self.leases:
                away += [found for found, lease in self.leases.within(part) if lease]
            yield from sets.missing(tuple(sorted(away)), part)

    def send(
        self,
        base: int,
        end: int,
        size: int,
        now: float,
        *,
        records_max: int | None = None,
        age_us: int = 0,
        more: bool = False,
    ) -> list[Range]:
        """Put a page in flight and return its ranges to process, if any.

        ``age_us`` is the page's age stamp, which ``take_settled_ages`` returns later. ``more``: the page belongs to the
        same delivery as the page before.
        """
        ranges = list(self.wanted(Range(max(base, self.position), end)))
        if records_max is not None:
            ranges, end = first_of(ranges, records_max, end)
        self.position = max(self.position, end)
        return self._fly(Flight(base, 0, 0, size, 0, age_us, resent=self.side.live_stopped), ranges, now, more=more)

    def send_parked(
        self,
        base: int,
        end: int,
        size: int,
        now: float,
        *,
        records_max: int | None = None,
        age_us: int = 0,
        more: bool = False,
    ) -> list[Range]:
        """Put the due ranges of a page from the retry queue in flight, as ``send`` does."""
        due = self.side.parked.due_within(Range(base, end), now)
        ranges = [found for part in due for found in self.view.unsettled(part)]
        if records_max is not None:
            ranges, end = first_of(ranges, records_max, end)
        for part in due:
            self.side.parked.remove(Range(part.first, min(part.end, end)))
        return self._fly(Flight(base, 0, 0, size, 0, age_us, resent=True), ranges, now, more=more)

    def _fly(self, page: Flight, ranges: list[Range], now: float, *, more: bool) -> list[Range]:
        if not ranges:
            return []
        if not self._flights:
            self._deadline_base = now
        if not more:
            self._flights.sent += 1
        page.sent_at = now
        page.since, page.revision, page.number = now if self.relaxed else None, self.revision, self._flights.sent
        for flight in _runs(page, ranges, self.view):
            self._flights.add(flight)
        sent = self.cursor.sent
        self.redelivered += sum(min(r.end, sent) - r.first for r in ranges if r.first < sent)
        if ranges[-1].end > sent:
            self.cursor = replace(self.cursor, sent=ranges[-1].end)
        return ranges

    def tell(self, end: int) -> None:
        """Record that the notice of a gap up to ``end`` was sent to the consumer."""
        if end > self.position:
            self._told.tell(self.position, self._flights.sent)
            self.position = end

    def _void(self, first: int) -> int:
        """Void everything in flight from ``first`` on; returns the offset from which the live lane continues.

        Redelivered ranges return to the retry queue; the live lane sends the others again.
        """
        begin = self.position
        for flight in self._flights:
            if flight.end > first:
                if flight.resent:
                    self.side.parked.put_back(Range(max(first, flight.first), flight.end))
                else:
                    begin = min(begin, max(first, flight.first))
        self._flights.void(first, self.view)
        return begin


def first_of(ranges: list[Range], records: int, end: int) -> tuple[list[Range], int]:
    """Return the first ``records`` offsets of ``ranges``, and the offset at which the page then ends."""
    taken: list[Range] = []
    for found in ranges:
        if records <= 0:
            return taken, taken[-1].end
        taken.append(Range(found.first, min(found.end, found.first + records)))
        records -= taken[-1].size
    return taken, taken[-1].end if taken and taken[-1].end < ranges[-1].end else end


def _runs(page: Flight, ranges: list[Range], cursor: Cursor) -> Iterator[Flight]:
    """Yield the flights of a page: one for each run of ranges with only settled records between them."""
    runs: list[list[Range]] = []
    for found in ranges:
        if runs and next(cursor.unsettled(Range(runs[-1][-1].end, found.first)), None) is None:
            runs[-1].append(found)
        else:
            runs.append([found])
    records, size = sum(found.size for found in ranges), page.size
    for run in runs:
        count = sum(found.size for found in run)
        share = size * count // records
        size, records = size - share, records - count
        yield replace(page, first=run[0].first, end=run[-1].end, size=share, unsettled=count)
