"""Giving out what has stepped aside as sets that a holder keeps by name: the second way out of a lane.

A holder takes parked ranges away from the consumer for a time, whatever the resend machine is doing: its failures say
nothing of the consumer's target, nor its successes. What runs out has failed and is parked again; what is given back
has not. A set that was forgotten by a restart may be taken again by its ranges, as far as nobody else has them.
Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from forebay.broker.core.delivery.answers import Outcome, Results, joined
from forebay.broker.core.delivery.in_flight import Flight
from forebay.broker.core.delivery.outbound import HOLES_MAX, Outbound, first_of
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.ranges import Range


class Leasing(Outbound):
    """What holders ask of a lane."""

    @property
    def may_lease(self) -> bool:
        """Whether anything may be given out now: not in STRICT order, nor while the sink is paused or purged."""
        return self.relaxed and not self.held and self.resend.state is not State.PAUSED

    def lease_parked(
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
    ) -> list[Range]:
        """Take what of a page is parked, and due unless ``before_due``; returns the ranges that were taken.

        No range is cut where there may be no more of them: then more than ``records_max`` are taken.
        """
        parked = self.side.parked
        found = parked.within(page) if before_due else parked.due_within(page, now)
        ranges = [part for one in found for part in self.view.unsettled(one)][:ranges_max]
        if self.holes < HOLES_MAX:
            ranges, _ = first_of(ranges, records_max, page.end)
        return self._lease(holder, until, page, now, ranges, age_us)

    def lease_again(
        self, holder: str, until: float, page: Range, asked: Range, now: float, *, age_us: int = 0
    ) -> list[Range]:
        """Take what of ``asked`` in a page was delivered before and is nobody's; returns the ranges that were taken."""
        within = Range(max(page.first, asked.first), min(page.end, asked.end, self.cursor.sent))
        ranges = [
            piece
            for part in (self.idle_in(within) if within.size > 0 else [])
            for piece in self._apart(part)
            if self.holes < HOLES_MAX or self.side.parked.within(piece) == [piece]
        ]
        return self._lease(holder, until, page, now, ranges, age_us)

    def _apart(self, part: Range) -> list[Range]:
        """The parked ranges in it, each by itself, and what lies between them."""
        parked = self.side.parked.within(part)
        return sorted([*parked, *sets.missing(tuple(parked), part)])

    def _lease(
        self, holder: str, until: float, page: Range, now: float, ranges: list[Range], age_us: int
    ) -> list[Range]:
        if not ranges:
            return []
        for part in ranges:
            self.side.parked.remove(part)
        self.leases.take(holder, until, Flight(page.first, 0, 0, 0, 0, age_us, sent_at=now), ranges)
        self.redelivered += sum(part.size for part in ranges)
        self.side.rest()
        return ranges

    def leased_to(self, holder: str) -> list[Range]:
        """What a holder has that is not settled; neighbours as one."""
        return self.leases.of(holder, self.view)

    def leased_below(self, end: int) -> str | None:
        """Somebody who has something below an offset, if there is anybody."""
        below = (lease for part in self.view.unsettled(Range(0, end)) for _, lease in self.leases.within(part))
        return next((lease.holder for lease in below if lease), None)

    def give_back_lease(self, holder: str) -> list[Range]:
        """A holder gives up what it has, which has not failed: it is due at once. Returns what that is."""
        found = [part for one in self.leases.release(holder) for part in self.view.unsettled(one)]
        for part in found:
            self.side.parked.put_back(part)
        return found

    def expire_leases(self, now: float) -> list[Range]:
        """Leases have run out: each of their ranges has failed and is parked again. Returns what that is."""
        failed: list[Range] = []
        for one in self.leases.run_out(now):
            parts = list(self.view.unsettled(one))
            if parts:
                self.cursor = self.cursor.failed(parts[0].first)
            for part in parts:
                self.side.parked.park(part, not_before=0.0)
            failed += parts
        return failed

    def judged_for(self, holder: str, asked: Range) -> Results:
        """Say of each part of ``asked`` what a settling by a holder is.

        OK is what it has and what is nobody's. STALE is what somebody else has, UNKNOWN what was never delivered.
        """
        results: Results = []
        at = asked.first
        for part in self.view.unsettled(asked):
            if part.first > at:
                results.append((Range(at, part.first), Outcome.ALREADY_SETTLED))
            for each, flight in self._flights.within(part):
                if flight is not None:
                    results.append((each, Outcome.STALE))
                    continue
                for piece, lease in self.leases.within(each):
                    results += [(piece, Outcome.STALE)] if lease and lease.holder != holder else self._sent(piece)
            at = part.end
        if at < asked.end:
            results.append((Range(at, asked.end), Outcome.ALREADY_SETTLED))
        return joined(results)

    def _sent(self, part: Range) -> Results:
        sent = min(max(self.cursor.sent, part.first), part.end)
        found = [(Range(part.first, sent), Outcome.OK), (Range(sent, part.end), Outcome.UNKNOWN)]
        return [(piece, outcome) for piece, outcome in found if piece.size]

    def idle_in(self, within: Range) -> list[Range]:
        """What of ``within`` is unsettled and nobody's: not in flight, not leased and not under way."""
        idle = [
            each for part in self.view.unsettled(within) for each, flying in self._flights.within(part) if not flying
        ]
        return [each for part in idle for each, lease in self.leases.within(part) if not lease] if self.leases else idle
