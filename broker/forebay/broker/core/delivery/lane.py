"""Lane: one subscription on one partition, with its owner, its records in flight and its answers.

STRICT order: a failure at offset k voids everything that was sent from k on (the revision rises), and it is sent again,
k first. Answers under an older revision count only below the lowest offset that was voided since.

RELAXED order: only the failed records are void. They go to the retry queue, and new records continue. A redelivery is
answered under a newer revision, so an answer to the first delivery is stale.

Times are seconds on a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence

from forebay.broker.core.dead_letters.transfers import Transfers
from forebay.broker.core.delivery.answers import Answer, History, Results, Revocation, SettleOutcome
from forebay.broker.core.delivery.in_flight import Flight, Flights, InFlight, SettledPage
from forebay.broker.core.delivery.judgement import Judgement, outcomes
from forebay.broker.core.delivery.lease_manager import LeaseManager
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.progress import Progress
from forebay.broker.core.delivery.redelivery import Resend
from forebay.broker.core.delivery.retry_scheduler import RetryScheduler
from forebay.broker.core.delivery.sender import HOLES_MAX, TRANSFERS_MAX, Sender
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range, RangeSet
from forebay.broker.core.settings import SECOND_US, SinkSettings

__all__ = ["HOLES_MAX", "TRANSFERS_MAX", "Answer", "Lane", "Results", "Revocation", "SettleOutcome"]


class Lane:
    """Delivery state of one subscription on one partition. Only its cursor is stored."""

    __slots__ = (
        "_history",
        "deadline_not_before",
        "flights",
        "leases",
        "owner",
        "owner_epoch",
        "progress",
        "resend",
        "retry",
        "sender",
    )

    def __init__(self, cursor: Cursor, settings: SinkSettings) -> None:
        self.progress = Progress(cursor)
        self.resend = Resend(settings)
        self.flights = Flights()
        self.retry = RetryScheduler(self.resend, self.flights)
        self.leases = Leases()
        """Ranges of the retry queue that are leased as sets."""
        self.sender = Sender(self.progress, self.resend, self.flights, self.retry, self.leases)
        self.owner: str | None = None
        self.owner_epoch = 0
        self.deadline_not_before = 0.0
        """No deadline passes before this time: until then the broker cannot know that the owner is alive."""
        self._history = History()

    @property
    def lease_manager(self) -> LeaseManager:
        """Operations of lease holders: without state of their own, so that no lane keeps them in memory."""
        return LeaseManager(self.progress, self.sender, self.resend, self.flights, self.retry, self.leases)

    @property
    def cursor(self) -> Cursor:
        """Cursor of the account, without the records that are being moved."""
        return self.progress.cursor

    @property
    def view(self) -> Cursor:
        """See ``Progress.view``."""
        return self.progress.view

    @property
    def transfers(self) -> Transfers:
        """Records that are being moved to another sink."""
        return self.progress.transfers

    @property
    def settings(self) -> SinkSettings:
        return self.resend.settings

    @property
    def relaxed(self) -> bool:
        """True in RELAXED order."""
        return self.sender.relaxed

    @property
    def revision(self) -> int:
        """Revision under which records are sent."""
        return self.sender.revision

    @property
    def send_state(self) -> tuple[int, int, int]:
        """State that must not change while a page of new records is read."""
        sender = self.sender
        return self.owner_epoch, 0 if sender.relaxed else sender.revision, sender.position

    @property
    def records_in_flight(self) -> int:
        """Unsettled records in flight, plus the records being moved to another sink."""
        return self.flights.records + self.transfers.records

    @property
    def idle(self) -> bool:
        """True if nothing is in flight."""
        return not self.flights

    def pages_in_flight(self) -> set[int]:
        """Base offsets of the pages in flight or leased, or with records being moved to another sink."""
        return self.flights.bases() | self.leases.bases() | self.transfers.bases

    # -- ownership

    def assign(self, owner: str, owner_epoch: int, usage: InFlight) -> None:
        """Assign the lane to a consumer. Requires that nothing is in flight."""
        self.owner, self.owner_epoch = owner, owner_epoch
        self.flights.count_for(usage)
        self._history.clear()
        self.sender.revision = self.sender.failed_from = 0
        self.sender.restart()
        self.deadline_not_before = 0.0

    def release(self, *, failed: bool) -> None:
        """Remove the owner. ``failed``: it left with records in flight, which fails the head once.

        The retry queue stays for the next owner; in RELAXED order the head's page joins it.
        """
        head = self.flights.lowest_unsettled(self.view)
        if failed and head is not None:
            self.progress.fail(head)
            if self.relaxed:
                page = Range(head, next(iter(self.flights)).end)
                self.flights.void_part(page, self.view)
                self.retry.queue.add(page, not_before=0.0)
        self.sender.void(0)
        self.owner = None
        self.sender.restart()

    # -- answers

    def settle(self, answer: Answer, requested: Range, how: Settlement, now: float, next_offset: int) -> Results:
        """Settle those deliveries in flight that ``requested`` covers."""
        results = self.judge(answer, requested)
        self._apply(_taken(results), how, now, next_offset)
        return results

    def settle_all(
        self, answer: Answer, requested: Sequence[Range], how: Settlement, now: float, next_offset: int
    ) -> Results:
        """Settle each of ``requested`` in turn, as ``settle`` does.

        Ranges that are disjoint and sorted update the cursor once.
        """
        if not sets.are_apart(requested):
            return [found for each in requested for found in self.settle(answer, each, how, now, next_offset)]
        results = [found for each in requested for found in self.judge(answer, each)]
        self._apply(_taken(results), how, now, next_offset)
        return results

    def settle_until(self, answer: Answer, requested: Range, now: float, next_offset: int) -> Results:
        """Settle everything up to ``requested.end``, delivered or not. Only for the owner."""
        stale = self._stale_from(answer)
        if stale is None or requested.end > next_offset:
            return [(requested, SettleOutcome.STALE if stale is None else SettleOutcome.UNKNOWN)]
        end = min(requested.end, max(stale, self.cursor.watermark))
        results: Results = []
        if end > self.cursor.watermark:
            whole, below = Range(self.cursor.watermark, end), Range(min(requested.first, end - 1), end)
            fresh = tuple(self.view.unsettled(below))
            self.sender.notices.confirm_below(end)
            parts = list(self.view.unsettled(whole)) if self.transfers else [whole]
            self._apply(parts, Settlement.ACKED, now, next_offset)
            self.sender.position = max(self.sender.position, end)
            before = [(part, SettleOutcome.ALREADY_SETTLED) for part in sets.missing(fresh, below)]
            results += sorted([(part, SettleOutcome.OK) for part in fresh] + before)
        elif end >= requested.end:
            results.append((requested, SettleOutcome.ALREADY_SETTLED))
        if requested.end > end:
            results.append((Range(max(requested.first, end), requested.end), SettleOutcome.STALE))
        return results

    def settle_below(self, end: int, now: float, next_offset: int) -> int:
        """Settle as acked every unsettled record below ``end``, delivered or not; returns their number.

        Only while the lane has no owner. The caller has read the records by other means, and has seen the gaps there.
        """
        before = self.cursor.acked
        parts = list(self.view.unsettled(Range(self.cursor.watermark, max(end, self.cursor.watermark))))
        self._apply(parts, Settlement.ACKED, now, next_offset, answered=False)  # it proves nothing about a target
        self.sender.position = max(self.sender.position, end)
        self.sender.notices.confirm_below(end)
        self.sender.update_notified()
        return self.cursor.acked - before

    def settle_leased(self, holder: str, requested: Range, now: float, next_offset: int) -> Results:
        """Settle records of ``requested`` that are idle or in a holder's set, whose lease may have expired.

        The success says nothing about the consumer's target. Records that another holder or the consumer has are not
        settled.
        """
        results = self.lease_manager.judge(holder, requested)
        self._apply(_taken(results), Settlement.ACKED, now, next_offset, answered=False)
        return results

    def pop_settled(self) -> list[SettledPage]:
        """Return the pages that were completely answered since the last call."""
        return self.flights.pop_settled() + self.leases.pop_settled()

    def nack(
        self,
        answer: Answer,
        requested: Sequence[Range],
        now: float,
        *,
        delay_s: float | None,
        random: float,
        reason: str,
        judged: Judgement | None = None,
    ) -> tuple[Results, Revocation | None]:
        """Reject records: in STRICT order the lowest one failed, and everything from it on is redelivered.

        In RELAXED order each range failed, its lowest record counts the attempt, and nothing else is redelivered.
        ``judge`` is an earlier judgement of the same answer and ranges; it is used if the lane has not changed since.
        """
        if judged is not None and judged.state == self.answer_state:
            results = judged.results
        else:
            results = [found for wanted in requested for found in self.judge(answer, wanted)]
        failed = sets.union(_taken(results))
        if not failed:
            return results, None
        return results, self._failed(failed, now, delay_s=delay_s, random=random, reason=reason)

    def extend(self, owner_epoch: int, now: float, ranges: Sequence[Range] = ()) -> bool:
        """Restart the running deadline; in RELAXED order those of ``ranges``, or of everything in flight.

        Returns False if the lane has another owner.
        """
        if self.owner is None or owner_epoch != self.owner_epoch:
            return False
        self.sender.deadline_base = now
        if self.relaxed:
            for part in ranges or [Range(0, self.cursor.sent)]:
                self.flights.restart_within(part, now)
        return True

    def expire(self, now: float, random: float) -> Revocation | None:
        """Fail the records whose deadline has passed: the head's or, in RELAXED order, those of any page."""
        revocation: Revocation | None = None
        while (deadline := self.deadline()) is not None and now >= deadline:
            flight = self.flights.longest_waiting() if self.relaxed else next(iter(self.flights))
            assert flight is not None, "a deadline runs"
            late = next(self.view.unsettled(Range(flight.first, flight.end)))
            why = "the deadline passed without an answer"
            revocation = self._failed((Range(late.first, flight.end),), now, delay_s=None, random=random, reason=why)
        return revocation

    def deadline(self, offset: int | None = None) -> float | None:
        """Return the time at which the lowest record in flight expires.

        In RELAXED order that of the first page to expire, or of the page that holds ``offset``.
        """
        since: float | None = self.sender.deadline_base if self.flights else None
        if self.relaxed:
            first = self.flights.longest_waiting() if offset is None else self.flights.at(offset)
            since = first.since if first is not None else None
        if since is None:
            return None
        return max(since + self.settings.ack_deadline_us / SECOND_US, self.deadline_not_before)

    def next_timer(self, now: float) -> float | None:
        """Return the time of the next change in this lane, if there is one.

        Everything due at ``now`` except deadlines has been done.
        """
        times = (
            self.deadline(),
            self.resend.next_timer(now),
            self.retry.queue.next_timer(now),
            self.leases.next_timer(),
        )
        return min((time for time in times if time is not None), default=None)

    # -- what happens to records in flight

    def drop(self, dropped: Sequence[Range], now: float, next_offset: int) -> int:
        """Count the unsettled records of ``dropped`` as dropped; returns their number.

        The ranges are disjoint and sorted. Records that another sink has queued already are not lost with their page.
        """
        before = self.cursor.dropped
        lost: list[Range] = []
        if self.leases:
            unsettled = [part for each in dropped for part in self.view.unsettled(each)]
            lost += [each for part in unsettled for each, lease in self.leases.within(part) if lease]
        if self.retry.queue:
            lost += [part for each in dropped for part in self.retry.queue.remove(each)]
        if lost:
            self.sender.rewind(min(part.first for part in lost))
        loose = [part for each in dropped for part in self.transfers.cancellable(each)] if self.transfers else dropped
        self._apply(loose, Settlement.DROPPED, now, next_offset, answered=False)
        for part in loose if self.transfers else ():
            self.transfers.cancel(part)
        return self.cursor.dropped - before

    def seek(self, offset: int, next_offset: int) -> Revocation:
        """Close the account and open a new one at ``offset``; everything in flight is void."""
        self.flights.void(0, self.view)
        self.retry.clear()
        self.leases.clear()
        self.progress.reopen(offset, next_offset)
        self.sender.restart()
        self.sender.failed_from = 0
        self.resend.cleared()
        return self._revision_from(0)

    def pause(self, reason: str) -> Revocation | None:
        """Stop sending; everything in flight is void."""
        self.resend.pause(reason)
        if self.idle:
            return None
        return self._revoke(self.flights.first)

    def purge(self) -> Revocation:
        """Void everything in flight before pages are purged; pages that are not purged are redelivered."""
        return self._revoke(self.flights.first if self.flights else self.sender.position)

    def change(self, settings: SinkSettings) -> Revocation | None:
        """Apply new settings; another order revokes everything in flight, so that one rule holds for all.

        From RELAXED to STRICT the ranges in the retry queue are redelivered in order, at once. From STRICT to RELAXED
        the record that the lane waits for goes to the retry queue.
        """
        was_relaxed = self.relaxed
        self.resend.settings = settings
        if self.relaxed == was_relaxed:
            return None
        revocation = self._revoke(0) if self.flights or self.retry.queue or self.leases else None
        if was_relaxed:
            self.retry.clear()
            self.leases.clear()
            self.sender.position = min(self.sender.position, self.cursor.watermark)
            self.sender.failed_from = self.cursor.watermark
            self.resend.backlog_end = self.cursor.sent
        elif self.resend.is_waiting and not self.view.is_settled(self.sender.failed_from):
            waited_for = Range(self.sender.failed_from, self.sender.failed_from + 1)
            self.retry.queue.add(waited_for, not_before=self.resend.nack_delay_until)
        self.retry.reset_if_idle()
        return revocation

    # -- records that are moved to another sink

    @property
    def answer_state(self) -> tuple[object, ...]:
        """Everything that an answer's outcome depends on.

        Equal states judge the records that were in flight at the first of them equally.
        """
        return self.owner, self.owner_epoch, self.revision, self.view

    def exhausted(self) -> list[int]:
        """Return the offsets that failed `max_attempts` times and are not in flight: they are not redelivered."""
        most = self.settings.max_attempts
        failed = [offset for offset, tries in self.cursor.attempts if tries >= most] if most else []
        return [offset for offset in failed if self.sender.idle_in(Range(offset, offset + 1))]

    def skip(self, part: Range, now: float, next_offset: int) -> None:
        """Settle unsettled records as skipped."""
        self._apply([part], Settlement.SKIPPED, now, next_offset, answered=False)

    def begin_transfer(self, parts: Sequence[Range], now: float, next_offset: int, *, answered: bool) -> None:
        """Begin to move unsettled records to another sink. ``answered``: the target has judged them.

        The parts are disjoint and sorted.
        """
        self._apply(parts, None, now, next_offset, answered=answered)

    def confirm_transfer(self, parts: Sequence[Range], how: Settlement) -> int:
        """Settle moved records, whose batch is durable; returns their number."""
        found = self.transfers.confirm(parts, how)
        records = self.progress.settle_confirmed(found, how)
        for part in found if self.retry.queue else ():
            self.retry.queue.remove(part)
        if self.relaxed:
            self.retry.reset_if_idle()
        self.sender.update_notified()
        return records

    def skip_new(self, part: Range) -> int:
        """Settle new records that are not for this subscription as skipped; returns their number."""
        return self.progress.settle_confirmed(self.transfers.confirm_ahead(part), Settlement.SKIPPED)

    def fail_transfer(
        self,
        parts: Sequence[Range],
        now: float,
        *,
        rejected: Sequence[Range],
        delay_s: float | None,
        random: float,
        reason: str,
    ) -> Revocation | None:
        """Return records to delivery that could not be moved to another sink, after a back-off as of a nack.

        The delivery of those in ``rejected`` failed with this transfer. The attempts of the others are counted.
        """
        back: RangeSet = ()
        for part in parts:
            for found in self.transfers.cancel(part):
                back = sets.add(back, found)
                self.retry.queue.remove(found)  # its page was put back into the retry queue
        if not back:
            return None
        if not self.relaxed:
            self.sender.position = min(self.sender.position, back[0].first)
        tried = sets.union([part for each in sets.union(rejected) for part in sets.common(back, each)])
        return self._failed(back, now, delay_s=delay_s, random=random, reason=reason, tried=tried)

    # -- inside

    def _failed(
        self,
        failed: RangeSet,
        now: float,
        *,
        delay_s: float | None,
        random: float,
        reason: str,
        tried: RangeSet | None = None,
    ) -> Revocation:
        """Return failed records to delivery; an attempt counts for those of ``tried``, by default for all."""
        tried = failed if tried is None else tried
        if not self.relaxed:
            self.resend.fail(now, delay_s=delay_s, random=random, reason=reason, failed=failed)
            first = self.sender.failed_from = failed[0].first
            if tried and tried[0].first == first:
                self.progress.fail(first)
            return self._revoke(first)
        if tried:
            self.progress.fail(*(part.first for part in tried))
        for part in failed:
            sent = self.flights.void_part(part, self.view)
            self.retry.fail(part, sent, now, delay_s=delay_s, random=random, reason=reason)
        self.sender.revision += 1
        return Revocation(failed[0].first, self.revision, notify=False)

    def _revoke(self, first: int) -> Revocation:
        self.sender.void(first)
        return self._revision_from(first)

    def _revision_from(self, first: int) -> Revocation:
        """Begin a new revision: older answers are stale from ``first`` on."""
        self.sender.revision += 1
        self._history.add(self.revision, first)
        return Revocation(first, self.revision)

    def _stale_from(self, answer: Answer) -> int | None:
        """Return the lowest offset for which an answer is stale.

        None if it is stale for all offsets or is not the owner's.
        """
        if self.owner is None or answer.owner_epoch != self.owner_epoch or answer.revision > self.revision:
            return None
        return self._history.stale_from(answer.revision)

    def judge(self, answer: Answer, requested: Range) -> Results:
        """Return the outcome that an answer has for each part of ``requested``; OK for records in flight."""
        stale = self._stale_from(answer)
        if stale is None:
            return [(requested, SettleOutcome.STALE)]
        return outcomes(answer, requested, stale, self.view, self.flights, self.retry.queue, self.leases)

    def _apply(
        self, settled: Sequence[Range], how: Settlement | None, now: float, next_offset: int, *, answered: bool = True
    ) -> None:
        """Settle records, or begin to move them to another sink (``how`` is None).

        The parts are disjoint and sorted.
        """
        if not settled:
            return
        before, relaxed = self.view, self.relaxed
        head = None if relaxed else self.flights.lowest_unsettled(before)
        flights: list[Flight] = []
        for part in settled:
            if how is None:
                self.transfers.bases |= self.flights.bases_in(part)
            if self.flights:
                flights += self.flights.settle(part, before, answered=answered and how is not None)
            if self.retry.queue:
                self.retry.queue.remove(part)
            if self.leases:
                self.leases.settle(part, before, answered=how is Settlement.ACKED)
        fresh = self.progress.settle(settled, how)
        if not relaxed and self.flights and self.flights.lowest_unsettled(self.view) != head:
            self.sender.deadline_base = now
        if relaxed:
            self._restart(flights, before, now)
        if answered:
            if fresh and relaxed:
                self.retry.settled(flights, now)
            elif fresh and settled[-1].end > self.sender.failed_from:
                self.resend.settled(now, watermark=self.view.watermark, next_offset=next_offset)
            self.sender.notices.confirm(flights)
            self.sender.update_notified()
        if relaxed:
            self.retry.reset_if_idle()
        elif fresh and how is not None and not answered:
            self.resend.settled_otherwise(self.view)

    def _restart(self, flights: Sequence[Flight], before: Cursor, now: float) -> None:
        """In RELAXED order, restart the deadlines of flights whose lowest record was settled."""
        view = self.view
        for flight in flights:
            if flight.unsettled:
                within = Range(flight.first, flight.end)
                if next(before.unsettled(within)).first != next(view.unsettled(within)).first:
                    self.flights.restart(flight, now)


def _taken(results: Results) -> list[Range]:
    """Return the parts that the answer settles."""
    return [part for part, outcome in results if outcome is SettleOutcome.OK]
