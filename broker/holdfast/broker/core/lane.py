"""One subscription on one partition: who owns it, what is in flight, and what an answer means.

STRICT order: a failure at offset k voids everything sent from k on (the revision goes up) and it is sent again,
k first. Answers under an older revision count only below the lowest offset that was voided since.
RELAXED order: only what failed is void; it steps aside (see `sidelane`) and the rest goes on. What is not settled below
the position is then in flight or parked, never both.
Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from holdfast.broker.core import ranges as sets
from holdfast.broker.core.answers import Answer, History, Outcome, Results, Revocation
from holdfast.broker.core.cursor import Cursor, Settlement
from holdfast.broker.core.flights import Flight, Flights, InFlight
from holdfast.broker.core.ranges import Range, RangeSet
from holdfast.broker.core.resend import Resend
from holdfast.broker.core.settings import SECOND_US, Ordering, SinkSettings
from holdfast.broker.core.sidelane import Kind, Sidelane
from holdfast.broker.core.told import Told

__all__ = ["HOLES_MAX", "Answer", "Lane", "Outcome", "Results", "Revocation"]

HOLES_MAX: Final = 4096
"""Ranges settled beyond the watermark and ranges parked; at the bound nothing new is sent until there are fewer.

It is passed by no more than what was in flight when it was reached.
"""


class Lane:
    """The delivery state of one subscription on one partition. Its cursor is the only part that is stored."""

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
        self._deadline_base = 0.0

    # -- ownership

    def take(self, owner: str, owner_epoch: int, usage: InFlight) -> None:
        """Give the lane to a consumer. Nothing is in flight."""
        self.owner, self.owner_epoch = owner, owner_epoch
        self._flights.count_in(usage)
        self.revision = 0
        self._history.forget()
        self.position = min(self.cursor.watermark, self.cursor.told)
        self._told, self._failed_from = Told(), 0

    def release(self, *, failed: bool) -> None:
        """The owner is gone. ``failed``: it left with something in flight, which counts as a failed try of the head.

        What has stepped aside stays aside for the next owner; in RELAXED order the head's page joins it.
        """
        head = self._flights.lowest_unsettled(self.cursor)
        if failed and head is not None:
            self.cursor = self.cursor.failed(head)
            if self.relaxed:
                page = Range(head, next(iter(self._flights)).end)
                self._flights.void_part(page, self.cursor)
                self.side.parked.park(page, not_before=0.0)
        self._void(0)
        self.owner = None

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
        """Records in flight that are not settled."""
        return self._flights.records

    @property
    def idle(self) -> bool:
        """Nothing is in flight."""
        return not self._flights

    def pages_in_flight(self) -> set[int]:
        """Base offsets of the pages in flight."""
        return self._flights.bases()

    @property
    def holes(self) -> int:
        """Ranges settled beyond the watermark, and ranges parked: what ``HOLES_MAX`` bounds."""
        return len(self.cursor.beyond) + len(self.side.parked)

    @property
    def waits_for_holes(self) -> bool:
        """The budget of holes is used up: nothing new is sent until some are closed."""
        return self.holes >= HOLES_MAX and bool(self._flights or self.side.parked)

    def order(self, now: float) -> tuple[Kind, ...]:
        """Which lane is to be asked first for something to send, and which then."""
        return self.side.order(now, self.position)

    def pages_allowed(self, now: float) -> int | None:
        """How many pages of the live lane may be sent now; None is no bound but the credit.

        A probe need not wait for answers to what was sent before the failure, nor do these say anything about it.
        """
        if self.waits_for_holes:
            return 0
        if self.relaxed:
            return self.side.live_allowed(now)
        return self.resend.pages_allowed(now, self._flights.pages_from(self._failed_from))

    def wanted(self, within: Range) -> Iterator[Range]:
        """The parts of a range that the live lane has to send: not settled, not parked, not in flight."""
        for part in self.cursor.unsettled(within):
            away = self.side.parked.within(part) + [found for found, flight in self._flights.within(part) if flight]
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
            ranges, end = _first_of(ranges, records_max, end)
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
        ranges = [found for part in due for found in self.cursor.unsettled(part)]
        if records_max is not None:
            ranges, end = _first_of(ranges, records_max, end)
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
        page.since, page.revision, page.number = now if self.relaxed else None, self.revision, self._flights.sent
        for flight in _runs(page, ranges, self.cursor):
            self._flights.add(flight)
        sent = self.cursor.sent
        self.redelivered += sum(min(r.end, sent) - r.first for r in ranges if r.first < sent)
        if ranges[-1].end > sent:
            self.cursor = replace(self.cursor, sent=ranges[-1].end)
        return ranges

    def tell(self, end: int) -> None:
        """A gap up to ``end`` has been shown to the consumer."""
        self.position = max(self.position, end)
        self._told.tell(self._flights.sent)

    # -- answers

    def settle(self, answer: Answer, asked: Range, how: Settlement, now: float, next_offset: int) -> Results:
        """Settle what ``asked`` covers of the deliveries that are in flight."""
        results = self._judged(answer, asked)
        for part, outcome in results:
            if outcome is Outcome.OK:
                self._apply(part, how, now, next_offset)
        return results

    def settle_until(self, answer: Answer, asked: Range, now: float, next_offset: int) -> Results:
        """Settle everything up to ``asked.end``, delivered or not: only for the owner."""
        stale = self._stale_from(answer)
        if stale is None or asked.end > next_offset:
            return [(asked, Outcome.STALE if stale is None else Outcome.UNKNOWN)]
        end = min(asked.end, max(stale, self.cursor.watermark))
        results: Results = []
        if end > self.cursor.watermark:
            whole = Range(self.cursor.watermark, end)
            self._told.settled_by_number(end)
            self._apply(whole, Settlement.ACKED, now, next_offset)
            self.position = max(self.position, end)
            results.append((Range(min(asked.first, end - 1), end), Outcome.OK))
        elif end >= asked.end:
            results.append((asked, Outcome.ALREADY_SETTLED))
        if asked.end > end:
            results.append((Range(max(asked.first, end), asked.end), Outcome.STALE))
        return results

    def take_settled_ages(self) -> list[int]:
        """Age stamps of the deliveries of a page whose last record was answered since this was asked last."""
        return self._flights.take_settled_ages()

    def nack(
        self,
        answer: Answer,
        asked: Sequence[Range],
        now: float,
        *,
        delay_s: float | None,
        random: float,
        reason: str,
    ) -> tuple[Results, Revocation | None]:
        """Give records back: in STRICT order the lowest of them failed, and all from there on comes again.

        In RELAXED order each range failed, its lowest record for the account, and nothing else comes again.
        """
        results = [found for wanted in asked for found in self._judged(answer, wanted)]
        failed: RangeSet = ()
        for part, outcome in results:
            if outcome is Outcome.OK:
                failed = sets.add(failed, part)
        if not failed:
            return results, None
        return results, self._failed(failed, now, delay_s=delay_s, random=random, reason=reason)

    def extend(self, owner_epoch: int, now: float, ranges: Sequence[Range] = ()) -> bool:
        """Start the running deadline anew; in RELAXED order those of ``ranges``, or of all that is in flight.

        False when somebody else owns the lane.
        """
        if self.owner is None or owner_epoch != self.owner_epoch:
            return False
        self._deadline_base = now
        if self.relaxed:
            for part in ranges or [Range(0, self.cursor.sent)]:
                self._flights.restart_within(part, now)
        return True

    def expire(self, now: float, random: float) -> Revocation | None:
        """Let time pass: the head's deadline may have gone by, or in RELAXED order that of any page."""
        revocation: Revocation | None = None
        while (deadline := self.deadline()) is not None and now >= deadline:
            flight = self._flights.longest_waiting() if self.relaxed else next(iter(self._flights))
            assert flight is not None, "a deadline runs"
            late = next(self.cursor.unsettled(Range(flight.first, flight.end)))
            why = "the deadline passed without an answer"
            revocation = self._failed((Range(late.first, flight.end),), now, delay_s=None, random=random, reason=why)
        return revocation

    def deadline(self) -> float | None:
        """When the lowest record in flight expires; in RELAXED order, when the first page does."""
        since: float | None = self._deadline_base if self._flights else None
        if self.relaxed:
            first = self._flights.longest_waiting()
            since = first.since if first is not None else None
        return None if since is None else since + self.settings.ack_deadline_us / SECOND_US

    def next_timer(self, now: float) -> float | None:
        """When time will change something here, if ever. What was due at ``now`` has been done, but for deadlines."""
        times = (self.deadline(), self.resend.next_timer(now), self.side.parked.next_timer(now))
        return min((time for time in times if time is not None), default=None)

    # -- what happens to records meanwhile

    def drop(self, dropped: Range, now: float, next_offset: int) -> int:
        """Records were dropped: those unsettled count as dropped. Returns how many."""
        before = self.cursor.dropped
        lost = self.side.parked.remove(dropped)
        if lost and lost[0].first < self.position:
            self.position = lost[0].first  # back to where the gap is told; what lies behind it is not sent again
            self._told.lose(self.position)
        self._apply(dropped, Settlement.DROPPED, now, next_offset, answered=False)
        return self.cursor.dropped - before

    def seek(self, offset: int, next_offset: int) -> Revocation:
        """Close the account and open a new one at ``offset``; everything in flight is void."""
        self._flights.void(0, self.cursor)
        self.side.clear()
        self.revision += 1
        self._history.remember(self.revision, 0)
        self.cursor = Cursor(start=offset, watermark=offset, told=offset, sent=min(self.cursor.sent, next_offset))
        self.position, self._told, self._failed_from = offset, Told(), 0
        return Revocation(0, self.revision)

    def pause(self, reason: str) -> Revocation | None:
        """Stop sending; what is in flight is void."""
        self.resend.pause(reason)
        if self.idle:
            return None
        return self._revoke(self._flights.first)

    def change(self, settings: SinkSettings) -> Revocation | None:
        """Take new settings. Another order takes back all that is in flight, so that one rule holds for all of it.

        From RELAXED to STRICT what has stepped aside comes again in its place, at once; from STRICT to RELAXED the
        record that the lane waits for steps aside.
        """
        was_relaxed = self.relaxed
        self.settings = self.resend.settings = settings
        if self.relaxed == was_relaxed:
            return None
        revocation = None if self.idle else self._revoke(0)
        if was_relaxed:
            self.side.clear()
            self.position = min(self.position, self.cursor.watermark)
            self._failed_from = self.cursor.watermark
            self.resend.backlog_end = self.cursor.sent
        elif self.resend.waits and not self.cursor.is_settled(self._failed_from):
            self.side.parked.park(Range(self._failed_from, self._failed_from + 1), not_before=self.resend.named_until)
        self.side.rest()
        return revocation

    # -- inside

    def _failed(self, failed: RangeSet, now: float, *, delay_s: float | None, random: float, reason: str) -> Revocation:
        if not self.relaxed:
            self.resend.fail(now, delay_s=delay_s, random=random, reason=reason)
            self._failed_from = failed[0].first
            self.cursor = self.cursor.failed(self._failed_from)
            return self._revoke(self._failed_from)
        for part in failed:
            self.cursor = self.cursor.failed(part.first)
            sent = self._flights.void_part(part, self.cursor)
            self.side.fail(part, sent, now, delay_s=delay_s, random=random, reason=reason)
        self.revision += 1
        return Revocation(failed[0].first, self.revision, to_be_told=False)

    def _revoke(self, first: int) -> Revocation:
        self.position = min(self.position, self._void(first))
        self.revision += 1
        self._history.remember(self.revision, first)
        self._told.back_to(min(first, self.position))
        return Revocation(first, self.revision)

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
        self._flights.void(first, self.cursor)
        return begin

    def _stale_from(self, answer: Answer) -> int | None:
        """Lowest offset that the answer is too old for; None when it is too old for all, or not the owner's."""
        if self.owner is None or answer.owner_epoch != self.owner_epoch or answer.revision > self.revision:
            return None
        return self._history.stale_from(answer.revision)

    def _judged(self, answer: Answer, asked: Range) -> Results:
        """Say of each part of ``asked`` what an answer to it is; OK is what is in flight."""
        stale = self._stale_from(answer)
        if stale is None:
            return [(asked, Outcome.STALE)]
        results: Results = []
        fresh = Range(asked.first, min(asked.end, stale))
        at = fresh.first
        if fresh.size > 0:
            for part in self.cursor.unsettled(fresh):
                if part.first > at:
                    results.append((Range(at, part.first), Outcome.ALREADY_SETTLED))
                for each, flight in self._flights.within(part):
                    if flight is None:
                        results += self._not_flying(each)
                    else:
                        results.append((each, Outcome.OK if flight.revision <= answer.revision else Outcome.STALE))
                at = part.end
            if at < fresh.end:
                results.append((Range(at, fresh.end), Outcome.ALREADY_SETTLED))
        if asked.end > stale:
            results.append((Range(max(asked.first, stale), asked.end), Outcome.STALE))
        return results

    def _not_flying(self, part: Range) -> Results:
        parked = self.side.parked.within(part)
        unknown = sets.missing(tuple(parked), part)
        return sorted([(one, Outcome.STALE) for one in parked] + [(one, Outcome.UNKNOWN) for one in unknown])

    def _apply(self, settled: Range, how: Settlement, now: float, next_offset: int, *, answered: bool = True) -> None:
        before, head = self.cursor, self._flights.lowest_unsettled(self.cursor)
        flights = self._flights.settle(settled, self.cursor, answered=answered)
        self.side.parked.remove(settled)
        self.cursor, fresh = self.cursor.settle(settled, how)
        if self._flights and self._flights.lowest_unsettled(self.cursor) != head:
            self._deadline_base = now
        for flight in flights if self.relaxed else ():
            if flight.unsettled and settled.first <= next(before.unsettled(Range(flight.first, flight.end))).first:
                self._flights.restart(flight, now)
        if answered:
            if fresh and self.relaxed:
                self.side.settled(flights, now)
            elif fresh and settled.end > self._failed_from:
                self.resend.settled(now, watermark=self.cursor.watermark, next_offset=next_offset)
            told = min(self.cursor.watermark, self.position, self._told.answered(settled.end, flights))
            if told > self.cursor.told:
                self.cursor = replace(self.cursor, told=told)
        if self.relaxed:
            self.side.rest()


def _first_of(ranges: list[Range], records: int, end: int) -> tuple[list[Range], int]:
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
