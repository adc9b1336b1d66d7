"""What of one partition goes out to its owner, and when: the sending half of a lane.

Two sources feed it: the log from the position on, and in RELAXED order what has stepped aside (see `sidelane`). What
is not settled below the position is then in flight, parked, leased or on its way to another sink, never two of these.
Times are seconds on a monotonic clock and are passed in.
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
"""Ranges settled beyond the watermark, parked or leased; at the bound nothing new is sent until there are fewer.

It is passed by no more than what was in flight when it was reached.
"""
MOVING_MAX: Final = 65_536
"""Records on their way to another sink; at the bound nothing is sent until some have arrived."""


class Outbound:
    """The sending half of a lane."""

    def __init__(self, cursor: Cursor, settings: SinkSettings) -> None:
        self.cursor = cursor
        self.settings = settings
        self.resend = Resend(settings)
        self.owner: str | None = None
        self.owner_epoch = 0
        self.revision = 0
        self.position = min(cursor.watermark, cursor.told)
        """Next offset to look at: entries are sent from here, gaps told."""
        self._told = Told()
        self._failed_from = 0
        """In STRICT order, where the last failure was: what flies from here on was sent after it, the rest before."""
        self.redelivered = 0
        """Records sent again, in the life of this process."""
        self._history = History()
        self._flights = Flights()
        self.side = Sidelane(self.resend, self._flights)
        self.leases = Leases()
        """What of the parked ranges somebody has taken as a set."""
        self._deadline_base = 0.0
        self.deadline_not_before = 0.0
        """No deadline passes before: until then it is not known whether the owner is alive."""
        self.held = False
        """Nothing is sent: a purge is under way."""
        self.moving = Moving()
        """What is on its way to another sink."""

    @property
    def view(self) -> Cursor:
        """The cursor as deliveries see it: what is on its way to another sink is nobody's any more."""
        return self.moving.over(self.cursor) if self.moving else self.cursor

    @property
    def stored(self) -> Cursor:
        """The cursor as it is written now."""
        return self.moving.stored(self.cursor) if self.moving else self.cursor

    # -- ownership

    def take(self, owner: str, owner_epoch: int, usage: InFlight) -> None:
        """Give the lane to a consumer. Nothing is in flight."""
        self.owner, self.owner_epoch = owner, owner_epoch
        self._flights.count_in(usage)
        self.revision = 0
        self._history.forget()
        self.position = min(self.cursor.watermark, self.cursor.told)
        self._told, self._failed_from = Told(), 0
        self.deadline_not_before = 0.0

    def release(self, *, failed: bool) -> None:
        """The owner is gone. ``failed``: it left with something in flight, which counts as a failed try of the head.

        What has stepped aside stays aside for the next owner; in RELAXED order the head's page joins it.
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
        """A failed range steps aside, and the rest goes on."""
        return self.settings.ordering == Ordering.RELAXED

    @property
    def place(self) -> tuple[int, int, int]:
        """What must not have changed while a page was read for the live lane."""
        return self.owner_epoch, 0 if self.relaxed else self.revision, self.position

    @property
    def records_in_flight(self) -> int:
        """Records in flight that are not settled, and those on their way to another sink."""
        return self._flights.records + self.moving.records

    @property
    def idle(self) -> bool:
        """Nothing is in flight."""
        return not self._flights

    def pages_in_flight(self) -> set[int]:
        """Base offsets of the pages in flight or leased, or with records on their way to another sink."""
        return self._flights.bases() | self.leases.bases() | self.moving.bases

    @property
    def holes(self) -> int:
        """Ranges settled beyond the watermark, and ranges parked or leased: what ``HOLES_MAX`` bounds."""
        return len(self.view.beyond) + len(self.side.parked) + len(self.leases)

    @property
    def waits_for_holes(self) -> bool:
        """The budget of holes is used up: nothing new is sent until some are closed."""
        return self.holes >= HOLES_MAX and bool(self._flights or self.side.parked or self.leases or self.moving)

    @property
    def waits_for_moving(self) -> bool:
        """Too many records are on their way to another sink: nothing is sent until some have arrived."""
        return bool(self.moving) and self.moving.records >= MOVING_MAX

    def order(self, now: float) -> tuple[Kind, ...]:
        """Which lane is to be asked first for something to send, and which then."""
        return () if self.held or self.waits_for_moving else self.side.order(now, self.position)

    def pages_allowed(self, now: float) -> int | None:
        """How many pages of the live lane may be sent now; None is no bound but the credit.

        A probe need not wait for answers to what was sent before the failure, nor do these say anything about it.
        """
        if self.held or self.waits_for_holes or self.waits_for_moving:
            return 0
        if self.relaxed:
            return self.side.live_allowed(now)
        return self.resend.pages_allowed(now, self.sent_since_failure)

    @property
    def sent_since_failure(self) -> int:
        """Pages in flight that were sent after the last failure; in RELAXED order, those sent again."""
        return self._flights.resent_since(0) if self.relaxed else self._flights.pages_from(self._failed_from)

    def flight_at(self, offset: int) -> Flight | None:
        """The page in flight that an unsettled offset is in."""
        return self._flights.at(offset)

    def wanted(self, within: Range) -> Iterator[Range]:
        """The parts of a range that the live lane has to send: not settled, parked, leased, in flight or under way."""
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
        """Put a page in flight and return its ranges to process; none when there are none.

        ``age_us`` is the page's age stamp; ``take_settled_ages`` hands it out again. ``more``: it goes out in one
        delivery with the page before.
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
        """Put what of a page is parked and due in flight again; as ``send``."""
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
        """A gap up to ``end`` has been shown to the consumer."""
        if end > self.position:
            self._told.tell(self.position, self._flights.sent)
            self.position = end

    def _void(self, first: int) -> int:
        """Nothing from ``first`` on is in flight: what had stepped aside is aside again, the rest is the live lane's.

        Returns where the live lane has to begin.
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
    """The first ``records`` offsets of ``ranges``, and where the page ends then."""
    taken: list[Range] = []
    for found in ranges:
        if records <= 0:
            return taken, taken[-1].end
        taken.append(Range(found.first, min(found.end, found.first + records)))
        records -= taken[-1].size
    return taken, taken[-1].end if taken and taken[-1].end < ranges[-1].end else end


def _runs(page: Flight, ranges: list[Range], cursor: Cursor) -> Iterator[Flight]:
    """The flights of a page: one for each run of ranges between which there is nothing but what is settled."""
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
