"""Sender of a lane: the pages of a partition that go to its owner, and their order.

It has two sources: the log from the position on and, in RELAXED order, the retry queue (see `retry_scheduler`). An
unsettled record below the position is either in flight, in the retry queue, leased, or being moved to another sink.
Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from forebay.broker.core.delivery.gap_notices import GapNotices
from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.progress import Progress
from forebay.broker.core.delivery.redelivery import Resend
from forebay.broker.core.delivery.retry_scheduler import DeliverySource, RetryScheduler
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering

HOLES_MAX: Final = 4096
"""Ranges settled beyond the watermark, queued for retry or leased; at the bound no new page is sent.

It is exceeded at most by the ranges that were in flight when it was reached.
"""
TRANSFERS_MAX: Final = 65_536
"""Records being moved to another sink; at the bound nothing is sent until some have arrived."""


class Sender:
    """Position of a lane, and the records that it may send."""

    __slots__ = (
        "_flights",
        "_leases",
        "_progress",
        "_resend",
        "_retry",
        "deadline_base",
        "failed_from",
        "held",
        "notices",
        "position",
        "revision",
    )

    def __init__(
        self, progress: Progress, resend: Resend, flights: Flights, retry: RetryScheduler, leases: Leases
    ) -> None:
        self._progress = progress
        self._resend = resend
        self._flights = flights
        self._retry = retry
        self._leases = leases
        self.revision = 0
        self.deadline_base = 0.0
        """Start of the running deadline, in STRICT order."""
        self.held = False
        """True during a purge: nothing is sent."""
        self.failed_from = 0
        """In STRICT order, the offset of the last failure: flights from here on were sent after it."""
        self.position = progress.begin
        """Offset of the next page or gap notice to send."""
        self.notices = GapNotices()
        """Gap notices that are not confirmed."""

    def restart(self) -> None:
        """Continue at the start of the account without unconfirmed notices, for a new owner or after a seek."""
        self.position, self.notices = self._progress.begin, GapNotices()

    @property
    def relaxed(self) -> bool:
        """True in RELAXED order: a failed range goes to the retry queue, and new records continue."""
        return self._resend.settings.ordering == Ordering.RELAXED

    @property
    def holes(self) -> int:
        """Number of ranges settled beyond the watermark, queued for retry or leased: bounded by ``HOLES_MAX``."""
        return len(self._progress.view.beyond) + len(self._retry.queue) + len(self._leases)

    @property
    def waits_for_holes(self) -> bool:
        """True if the bound of holes is reached: nothing new is sent until some are closed."""
        return self.holes >= HOLES_MAX and bool(
            self._flights or self._retry.queue or self._leases or self._progress.transfers
        )

    @property
    def waits_for_transfers(self) -> bool:
        """True if too many records are being moved to another sink: nothing is sent until some have arrived."""
        transfers = self._progress.transfers
        return bool(transfers) and transfers.records >= TRANSFERS_MAX

    def order(self, now: float) -> tuple[DeliverySource, ...]:
        """Return the sources in the order in which they may send."""
        return () if self.held or self.waits_for_transfers else self._retry.order(now, self.position)

    def pages_allowed(self, now: float) -> int | None:
        """Return the number of pages of new records to send at most; None is unlimited but for the credit.

        A probe does not wait for answers to deliveries that were sent before the failure, nor do these decide it.
        """
        if self.held or self.waits_for_holes or self.waits_for_transfers:
            return 0
        if self.relaxed:
            return self._retry.live_allowed(now)
        return self._resend.pages_allowed(now, self.sent_since_failure)

    @property
    def sent_since_failure(self) -> int:
        """Pages in flight that were sent after the last failure; in RELAXED order, the redelivered ones."""
        return self._flights.resent_since(0) if self.relaxed else self._flights.pages_from(self.failed_from)

    def wanted(self, within: Range) -> Iterator[Range]:
        """Yield the parts of a range that are to be sent as new records.

        These are not settled, queued for retry, leased, in flight or being moved.
        """
        for part in self._progress.view.unsettled(within):
            away = self._retry.queue.within(part) + [found for found, flight in self._flights.within(part) if flight]
            if self._leases:
                away += [found for found, lease in self._leases.within(part) if lease]
            yield from sets.missing(tuple(sorted(away)), part)

    def idle_in(self, within: Range) -> list[Range]:
        """Return the unsettled ranges of ``within`` that are idle: not in flight, leased or being moved."""
        unsettled = self._progress.view.unsettled(within)
        idle = [each for part in unsettled for each, flight in self._flights.within(part) if not flight]
        if not self._leases:
            return idle
        return [each for part in idle for each, lease in self._leases.within(part) if not lease]

    def send(
        self,
        base: int,
        end: int,
        size: int,
        now: float,
        *,
        records_max: int | None = None,
        age_us: int = 0,
        traceparent: str = "",
        more: bool = False,
    ) -> list[Range]:
        """Put a page in flight and return its ranges to process, if any.

        ``age_us`` is the page's age stamp, and ``traceparent`` the trace context of its publisher, which
        ``pop_settled`` returns later. ``more``: the page belongs to the same delivery as the page before.
        """
        ranges = list(self.wanted(Range(max(base, self.position), end)))
        if records_max is not None:
            ranges, end = first_of(ranges, records_max, end)
        self.position = max(self.position, end)
        resent = self._retry.live_stopped
        page = Flight(base, 0, 0, size, 0, age_us, resent=resent, traceparent=traceparent)
        return self._put_in_flight(page, ranges, now, more=more)

    def send_retry(
        self,
        base: int,
        end: int,
        size: int,
        now: float,
        *,
        records_max: int | None = None,
        age_us: int = 0,
        traceparent: str = "",
        more: bool = False,
    ) -> list[Range]:
        """Put the due ranges of a page from the retry queue in flight, as ``send`` does."""
        queue, view = self._retry.queue, self._progress.view
        due = queue.due_within(Range(base, end), now)
        ranges = [found for part in due for found in view.unsettled(part)]
        if records_max is not None:
            ranges, end = first_of(ranges, records_max, end)
        for part in due:
            queue.remove(Range(part.first, min(part.end, end)))
        flight = Flight(base, 0, 0, size, 0, age_us, resent=True, traceparent=traceparent)
        return self._put_in_flight(flight, ranges, now, more=more)

    def _put_in_flight(self, page: Flight, ranges: list[Range], now: float, *, more: bool) -> list[Range]:
        if not ranges:
            return []
        if not self._flights:
            self.deadline_base = now
        if not more:
            self._flights.sent += 1
        page.sent_at = now
        page.since, page.revision, page.number = now if self.relaxed else None, self.revision, self._flights.sent
        for flight in _runs(page, ranges, self._progress.view):
            self._flights.add(flight)
        self._progress.sent(ranges)
        return ranges

    def note_gap_sent(self, end: int) -> None:
        """Record that the notice of a gap up to ``end`` was sent to the consumer."""
        if end > self.position:
            self.notices.add(self.position, self._flights.sent)
            self.position = end

    def void(self, first: int) -> None:
        """Void everything in flight from ``first`` on; sending continues at the lowest of it.

        Redelivered ranges return to the retry queue; the others are sent again from the position.
        """
        begin = self.position
        for flight in self._flights:
            if flight.end > first:
                if flight.resent:
                    self._retry.queue.put_back(Range(max(first, flight.first), flight.end))
                else:
                    begin = min(begin, max(first, flight.first))
        self._flights.void(first, self._progress.view)
        self.position = begin
        self.notices.rewind(begin)

    def rewind(self, offset: int) -> None:
        """Return to a gap to send its notice; the records above it are not sent again."""
        if offset < self.position:
            self.position = offset
            self.notices.rewind(offset)

    def update_notified(self) -> None:
        """Move the cursor's end of confirmed gap notices."""
        self._progress.note_notified(min(self._progress.cursor.watermark, self.position, self.notices.confirmed_end))


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
