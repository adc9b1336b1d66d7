"""Lease manager of the retry queue: leases its ranges to holders, as sets by name.

A holder takes ranges from the retry queue for a time, independent of the resend state: its failures and successes say
nothing about the consumer's target. An expired range has failed and returns to the retry queue; a released
range has not failed. After a restart a holder may take its set again by its ranges, as far as they are idle. Times are
seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from forebay.broker.core.delivery.answers import Results, SettleOutcome, joined
from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.progress import Progress
from forebay.broker.core.delivery.redelivery import Resend, State
from forebay.broker.core.delivery.retry_scheduler import RetryScheduler
from forebay.broker.core.delivery.sender import HOLES_MAX, Sender, first_of
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.ranges import Range


class LeaseManager:
    """Operations of lease holders on one lane."""

    __slots__ = ("_flights", "_leases", "_progress", "_resend", "_retry", "_sender")

    def __init__(
        self,
        progress: Progress,
        sender: Sender,
        resend: Resend,
        flights: Flights,
        retry: RetryScheduler,
        leases: Leases,
    ) -> None:
        self._progress = progress
        self._sender = sender
        self._resend = resend
        self._flights = flights
        self._retry = retry
        self._leases = leases

    @property
    def may_lease(self) -> bool:
        """Return whether a lease is allowed now: not in STRICT order, nor while the sink is paused or purged."""
        return self._sender.relaxed and not self._sender.held and self._resend.state is not State.PAUSED

    def lease_due(
        self,
        holder: str,
        until: float,
        page: Range,
        now: float,
        *,
        records_max: int,
        ranges_max: int = HOLES_MAX,
        before_due: bool = False,
        age_us: int = 0,
        traceparent: str = "",
    ) -> list[Range]:
        """Lease ranges of a page from the retry queue that are due, or all ``before_due``; returns them.

        At the bound of holes no range is cut: then more than ``records_max`` may be leased.
        """
        queue = self._retry.queue
        found = queue.within(page) if before_due else queue.due_within(page, now)
        ranges = [part for one in found for part in self._progress.view.unsettled(one)][:ranges_max]
        if self._sender.holes < HOLES_MAX:
            ranges, _ = first_of(ranges, records_max, page.end)
        flight = Flight(page.first, 0, 0, 0, 0, age_us, sent_at=now, traceparent=traceparent)
        return self._lease(holder, until, flight, ranges)

    def lease_again(
        self,
        holder: str,
        until: float,
        page: Range,
        requested: Range,
        now: float,
        *,
        age_us: int = 0,
        traceparent: str = "",
    ) -> list[Range]:
        """Lease those ranges of ``requested`` in a page that were delivered before and are idle; returns them."""
        within = Range(max(page.first, requested.first), min(page.end, requested.end, self._progress.cursor.sent))
        ranges = [
            piece
            for part in (self._sender.idle_in(within) if within.size > 0 else [])
            for piece in self._apart(part)
            if self._sender.holes < HOLES_MAX or self._retry.queue.within(piece) == [piece]
        ]
        flight = Flight(page.first, 0, 0, 0, 0, age_us, sent_at=now, traceparent=traceparent)
        return self._lease(holder, until, flight, ranges)

    def _apart(self, part: Range) -> list[Range]:
        """Return the queued ranges of a part, each by itself, and the ranges between them."""
        queue = self._retry.queue.within(part)
        return sorted([*queue, *sets.missing(tuple(queue), part)])

    def _lease(self, holder: str, until: float, flight: Flight, ranges: list[Range]) -> list[Range]:
        if not ranges:
            return []
        for part in ranges:
            self._retry.queue.remove(part)
        self._leases.lease(holder, until, flight, ranges)
        self._progress.redelivered += sum(part.size for part in ranges)
        self._retry.reset_if_idle()
        return ranges

    def leased_to(self, holder: str) -> list[Range]:
        """Return the unsettled ranges of a holder, neighbours joined."""
        return self._leases.of(holder, self._progress.view)

    def leased_below(self, end: int) -> str | None:
        """Return a holder with a lease below an offset, if there is one."""
        below = (
            lease for part in self._progress.view.unsettled(Range(0, end)) for _, lease in self._leases.within(part)
        )
        return next((lease.holder for lease in below if lease), None)

    def release(self, holder: str) -> list[Range]:
        """Return a holder's ranges, which have not failed, to the retry queue, due at once; returns them."""
        found = [part for one in self._leases.release(holder) for part in self._progress.view.unsettled(one)]
        for part in found:
            self._retry.queue.put_back(part)
        return found

    def expire_leases(self, now: float) -> list[Range]:
        """Fail the ranges of expired leases and return them to the retry queue; returns these ranges."""
        failed: list[Range] = []
        for one in self._leases.expire(now):
            parts = list(self._progress.view.unsettled(one))
            if parts:
                self._progress.fail(parts[0].first)
            for part in parts:
                self._retry.queue.add(part, not_before=0.0)
            failed += parts
        return failed

    def judge(self, holder: str, requested: Range) -> Results:
        """Return the outcome of a holder's settlement for each part of ``requested``.

        OK is a range of its own or an idle one. STALE is a range of another holder or of the consumer. UNKNOWN is a
        range that was never delivered.
        """
        results: Results = []
        at = requested.first
        for part in self._progress.view.unsettled(requested):
            if part.first > at:
                results.append((Range(at, part.first), SettleOutcome.ALREADY_SETTLED))
            for each, flight in self._flights.within(part):
                if flight is not None:
                    results.append((each, SettleOutcome.STALE))
                    continue
                for piece, lease in self._leases.within(each):
                    results += [(piece, SettleOutcome.STALE)] if lease and lease.holder != holder else self._sent(piece)
            at = part.end
        if at < requested.end:
            results.append((Range(at, requested.end), SettleOutcome.ALREADY_SETTLED))
        return joined(results)

    def _sent(self, part: Range) -> Results:
        sent = min(max(self._progress.cursor.sent, part.first), part.end)
        found = [(Range(part.first, sent), SettleOutcome.OK), (Range(sent, part.end), SettleOutcome.UNKNOWN)]
        return [(piece, outcome) for piece, outcome in found if piece.size]
