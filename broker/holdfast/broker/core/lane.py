"""One subscription on one partition: who owns it, what is in flight, and what an answer means.

STRICT order: a failure at offset k voids everything sent from k on (the revision goes up) and it is sent again,
k first. Answers under an older revision count only below the lowest offset that was voided since.
Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from holdfast.broker.core import ranges as sets
from holdfast.broker.core.cursor import Cursor, Settlement
from holdfast.broker.core.flights import Flight, Flights, InFlight
from holdfast.broker.core.moving import Moving
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.resend import Resend
from holdfast.broker.core.settings import SECOND_US, SinkSettings

HOLES_MAX: Final = 4096
"""Ranges settled beyond the watermark; at the bound nothing new is sent until the lowest are settled."""
MOVING_MAX: Final = 65_536
"""Records on their way to another sink; at the bound nothing new is sent until some have arrived."""
_HISTORY_MAX: Final = 1024


class Outcome(IntEnum):
    """What became of an answered range; the numbers are those of the wire."""

    OK = 1
    ALREADY_SETTLED = 2
    STALE = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """Who answers, and under what."""

    owner_epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class Revocation:
    """Everything sent from ``first`` on is void."""

    first: int
    revision: int


Results = list[tuple[Range, Outcome]]


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
        self._answered_end = 0
        """Highest end of what this owner has answered."""
        self._failed_from = 0
        """Where the last failure was: what is in flight from here on was sent after it, the rest before."""
        self.redelivered = 0
        """Records sent again, in the life of this process."""
        self._history: list[tuple[int, int]] = []
        self._flights = Flights()
        self._deadline_base = 0.0
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
        self.revision, self._history = 0, []
        self.position = min(self.cursor.watermark, self.cursor.told)
        self._answered_end = self._failed_from = 0

    def release(self, *, failed: bool) -> None:
        """The owner is gone. ``failed``: it left with something in flight, which counts as a failed try of the head."""
        head = self._flights.lowest_unsettled(self.view)
        if failed and head is not None:
            self.cursor = self.cursor.failed(head)
        self._flights.void(0, self.view)
        self.owner = None

    # -- sending

    @property
    def records_in_flight(self) -> int:
        """Records in flight that are not settled, and those on their way to another sink."""
        return self._flights.records + self.moving.records

    @property
    def idle(self) -> bool:
        """Nothing is in flight."""
        return not self._flights

    def pages_in_flight(self) -> set[int]:
        """Base offsets of the pages in flight, or with records on their way to another sink."""
        return self._flights.bases() | self.moving.bases

    def pages_allowed(self, now: float) -> int | None:
        """How many pages may be sent now; None is no bound but the credit.

        A probe need not wait for answers to what was sent before the failure, nor do these say anything about it.
        """
        if len(self.view.beyond) >= HOLES_MAX and (self._flights or self.moving):
            return 0
        if self.moving and self.moving.records >= MOVING_MAX:
            return 0
        return self.resend.pages_allowed(now, self._flights.pages_from(self._failed_from))

    def send(
        self, base: int, end: int, size: int, now: float, *, records_max: int | None = None, age_us: int = 0
    ) -> list[Range]:
        """Put a page in flight and return its ranges to process; none when all of it is settled.

        ``age_us`` is the page's age stamp; ``take_settled_ages`` hands it out again.
        """
        ranges = list(self.view.unsettled(Range(max(base, self.position), end)))
        if records_max is not None:
            ranges, end = _first_of(ranges, records_max, end)
        self.position = max(self.position, end)
        if not ranges:
            return []
        if not self._flights:
            self._deadline_base = now
        records = sum(r.size for r in ranges)
        self._flights.add(Flight(base, ranges[0].first, ranges[-1].end, size, records, age_us))
        again = sum(min(r.end, self.cursor.sent) - r.first for r in ranges if r.first < self.cursor.sent)
        self.redelivered += again
        if end > self.cursor.sent:
            self.cursor = replace(self.cursor, sent=end)
        return ranges

    def tell(self, end: int) -> None:
        """A gap up to ``end`` has been shown to the consumer."""
        self.position = max(self.position, end)

    # -- answers

    def settle(self, answer: Answer, asked: Range, how: Settlement, now: float, next_offset: int) -> Results:
        """Settle what ``asked`` covers of the deliveries that are in flight."""
        return self._answered(answer, asked, how, now, next_offset)

    def settle_until(self, answer: Answer, asked: Range, now: float, next_offset: int) -> Results:
        """Settle everything up to ``asked.end``, delivered or not: only for the owner."""
        stale = self._stale_from(answer)
        if stale is None or asked.end > next_offset:
            return [(asked, Outcome.STALE if stale is None else Outcome.UNKNOWN)]
        end = min(asked.end, max(stale, self.cursor.watermark))
        results: Results = []
        if end > self.cursor.watermark:
            whole = Range(self.cursor.watermark, end)
            for part in list(self.view.unsettled(whole)) if self.moving else [whole]:
                self._apply(part, Settlement.ACKED, now, next_offset)
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
        """Give records back: the lowest of them failed, and all from there on comes again."""
        results: Results = []
        lowest: int | None = None
        for wanted in asked:
            for part, outcome in self._judged(answer, wanted):
                results.append((part, outcome))
                if outcome is Outcome.OK:
                    lowest = part.first if lowest is None else min(lowest, part.first)
        if lowest is None:
            return results, None
        self.resend.fail(now, delay_s=delay_s, random=random, reason=reason)
        return results, self._fail_at(lowest)

    def extend(self, owner_epoch: int, now: float) -> bool:
        """Start the running deadline anew. False when somebody else owns the lane."""
        if self.owner is None or owner_epoch != self.owner_epoch:
            return False
        self._deadline_base = now
        return True

    def expire(self, now: float, random: float) -> Revocation | None:
        """Let time pass: the head's deadline may have gone by."""
        deadline = self.deadline()
        head = self._flights.lowest_unsettled(self.view)
        if deadline is None or head is None or now < deadline:
            return None
        self.resend.fail(now, delay_s=None, random=random, reason="the deadline passed without an answer")
        return self._fail_at(head)

    def deadline(self) -> float | None:
        """When the lowest record in flight expires."""
        return self._deadline_base + self.settings.ack_deadline_us / SECOND_US if self._flights else None

    def next_timer(self, now: float) -> float | None:
        """When time will change something here, if ever. What was due at ``now`` has been done, but for deadlines."""
        times = [t for t in (self.deadline(), self.resend.next_timer(now)) if t is not None]
        return min(times, default=None)

    # -- what happens to records meanwhile

    def drop(self, dropped: Range, now: float, next_offset: int) -> int:
        """Records were dropped: those unsettled count as dropped. Returns how many.

        What another sink has queued already is not lost with its page.
        """
        before = self.cursor.dropped
        for part in list(sets.missing(self.moving.fixed, dropped)) if self.moving else [dropped]:
            self._apply(part, Settlement.DROPPED, now, next_offset, answered=False)
            self.moving.give_back(part)
        return self.cursor.dropped - before

    def seek(self, offset: int, next_offset: int) -> Revocation:
        """Close the account and open a new one at ``offset``; everything in flight is void."""
        self._flights.void(0, self.view)
        self.moving.forget()
        self.revision += 1
        self._remember(0)
        self.cursor = Cursor(start=offset, watermark=offset, told=offset, sent=min(self.cursor.sent, next_offset))
        self.position, self._answered_end, self._failed_from = offset, 0, 0
        return Revocation(0, self.revision)

    def pause(self, reason: str) -> Revocation | None:
        """Stop sending; what is in flight is void."""
        self.resend.pause(reason)
        if self.idle:
            return None
        return self._revoke(self._flights.first)

    # -- records that go to another sink

    def judged(self, answer: Answer, asked: Range) -> Results:
        """Say of each part of ``asked`` what an answer to it is; OK is what is in flight."""
        return self._judged(answer, asked)

    def exhausted(self) -> list[int]:
        """Records that have failed `max_attempts` times and are not in flight: they are not to be sent again."""
        most = self.settings.max_attempts
        failed = [offset for offset, tries in self.view.attempts if tries >= most] if most else []
        return [offset for offset in failed if self.idle_in(Range(offset, offset + 1))]

    def skip(self, part: Range, now: float, next_offset: int) -> None:
        """Unsettled records are passed over."""
        self._apply(part, Settlement.SKIPPED, now, next_offset, answered=False)

    def hold(self, part: Range, now: float, next_offset: int, *, answered: bool) -> None:
        """Unsettled records begin their way to another sink. ``answered``: the target has judged them."""
        self._apply(part, None, now, next_offset, answered=answered)

    def idle_in(self, within: Range) -> list[Range]:
        """What of ``within`` is unsettled and nobody's: not in flight and not under way."""
        return [
            each for part in self.view.unsettled(within) for each, flying in self._flights.within(part) if not flying
        ]

    def moved(self, part: Range, how: Settlement) -> int:
        """The batch that carries sealed records is durable: they are settled. Returns how many."""
        records = 0
        for found in self.moving.confirm(part, how):
            self.cursor, fresh = self.cursor.settle(found, how)
            records += fresh
        self._note_told()
        return records

    def arrived_settled(self, part: Range) -> int:
        """Records came that are not for this subscription: they are settled as skipped. Returns how many."""
        records = 0
        for found in self.moving.confirm_ahead(part):
            self.cursor, fresh = self.cursor.settle(found, Settlement.SKIPPED)
            records += fresh
        return records

    def give_back(
        self, parts: Sequence[Range], now: float, *, delay_s: float | None, random: float, reason: str
    ) -> Revocation | None:
        """Records that were to go to another sink stay: the lowest of them failed, and all from there comes again."""
        back = [found for part in parts for found in self.moving.give_back(part)]
        if not back:
            return None
        self.resend.fail(now, delay_s=delay_s, random=random, reason=reason)
        return self._fail_at(min(found.first for found in back))

    # -- inside

    def _fail_at(self, offset: int) -> Revocation:
        self.cursor = self.cursor.failed(offset)
        self._failed_from = offset
        return self._revoke(offset)

    def _revoke(self, first: int) -> Revocation:
        self._flights.void(first, self.view)
        self.revision += 1
        self._remember(first)
        self.position = min(self.position, first)
        self._answered_end = min(self._answered_end, first)
        return Revocation(first, self.revision)

    def _remember(self, first: int) -> None:
        while self._history and self._history[-1][1] >= first:
            self._history.pop()
        self._history.append((self.revision, first))
        if len(self._history) > _HISTORY_MAX:
            # The two oldest become one that voids what either voided.
            (_, lowest), (revision, _) = self._history[0], self._history[1]
            self._history[:2] = [(revision, lowest)]

    def _stale_from(self, answer: Answer) -> int | None:
        """Lowest offset that the answer is too old for; None when it is too old for all, or not the owner's."""
        if self.owner is None or answer.owner_epoch != self.owner_epoch or answer.revision > self.revision:
            return None
        for revision, first in self._history:
            if revision > answer.revision:
                return first
        return 1 << 64

    def _judged(self, answer: Answer, asked: Range) -> Results:
        """Say of each part of ``asked`` what an answer to it is; OK is what is in flight."""
        stale = self._stale_from(answer)
        if stale is None:
            return [(asked, Outcome.STALE)]
        results: Results = []
        fresh = Range(asked.first, min(asked.end, stale))
        at = fresh.first
        if fresh.size > 0:
            for part in self.view.unsettled(fresh):
                if part.first > at:
                    results.append((Range(at, part.first), Outcome.ALREADY_SETTLED))
                results.extend(
                    (each, Outcome.OK if flying else Outcome.UNKNOWN) for each, flying in self._flights.within(part)
                )
                at = part.end
            if at < fresh.end:
                results.append((Range(at, fresh.end), Outcome.ALREADY_SETTLED))
        if asked.end > stale:
            results.append((Range(max(asked.first, stale), asked.end), Outcome.STALE))
        return results

    def _answered(self, answer: Answer, asked: Range, how: Settlement, now: float, next_offset: int) -> Results:
        results = self._judged(answer, asked)
        for part, outcome in results:
            if outcome is Outcome.OK:
                self._apply(part, how, now, next_offset)
        return results

    def _apply(
        self, settled: Range, how: Settlement | None, now: float, next_offset: int, *, answered: bool = True
    ) -> None:
        """Records are settled, or (``how`` is None) begin their way to another sink."""
        head = self._flights.lowest_unsettled(self.view)
        if how is None:
            self.moving.bases |= self._flights.bases_in(settled)
        self._flights.settle(settled, self.view, answered=answered and how is not None)
        if how is None:
            self.moving.hold(settled)
            fresh = settled.size
        else:
            self.cursor, fresh = self.cursor.settle(settled, how)
        if self._flights and self._flights.lowest_unsettled(self.view) != head:
            self._deadline_base = now
        if answered:
            if fresh and settled.end > self._failed_from:
                self.resend.settled(now, watermark=self.view.watermark, next_offset=next_offset)
            self._answered_end = max(self._answered_end, settled.end)
            self._note_told()

    def _note_told(self) -> None:
        # A gap was seen only when something behind it is answered: it may still wait on its way to the consumer.
        told = min(self.cursor.watermark, self.position, self._answered_end)
        if told > self.cursor.told:
            self.cursor = replace(self.cursor, told=told)


def _first_of(ranges: list[Range], records: int, end: int) -> tuple[list[Range], int]:
    """The first ``records`` offsets of ``ranges``, and where the page ends then."""
    taken: list[Range] = []
    for found in ranges:
        if records <= 0:
            return taken, taken[-1].end
        taken.append(Range(found.first, min(found.end, found.first + records)))
        records -= taken[-1].size
    return taken, taken[-1].end if taken and taken[-1].end < ranges[-1].end else end
