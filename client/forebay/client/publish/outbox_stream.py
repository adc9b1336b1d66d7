"""Stream side of an outbox: takes pages out, applies answers, and completes finished pages.

Called by three threads: the sender (``take``), the reader of answers (``opened``, ``answered``) and the stream's own
thread (``await_change``, ``broke``, ``end_all``). Futures are completed outside the lock, so that a callback may
publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from forebay.client.errors import ForebayError, PageCorrupt, SequenceGap, WriterFenced
from forebay.client.publish.batching import Batch
from forebay.client.publish.outbox import Outbox
from forebay.client.publish.window import Failed
from forebay.client.transport.status import from_status
from forebay.client.values import convert
from forebay.client.values.epochs import StagedPart
from forebay.client.values.records import Receipt
from forebay.v1 import buffer_service_pb2 as pb

DEFAULT_HOLD_S: Final = 0.25
"""Delay after a temporary rejection that names none."""
HELD_LOG_S: Final = 10.0
"""Minimum interval between log events about a rejected publisher."""

Ended = tuple[Batch, Receipt | ForebayError]
"""Page that will not be sent again, with its result."""

log = logging.getLogger(__name__)


class Session:
    """Shared state of one stream. Protected by the outbox's lock."""

    def __init__(self) -> None:
        self.is_open = False
        """`opened` was received."""
        self.is_over = False
        """Nothing more is sent or read."""
        self.error: ForebayError | None = None
        """Cause of a broken stream."""


class OutboxStream:
    """Feeds consecutive streams from an outbox."""

    def __init__(self, outbox: Outbox, *, renews: bool = True) -> None:
        """Without ``renews``, the first failed page, or any need of a new epoch, ends the writer."""
        self._outbox = outbox
        self._renews = renews
        self._lost: ForebayError | None = None
        """Error that ended a writer that does not renew itself. Protected by the outbox's lock."""
        self.stored: dict[int, StagedPart] = {}
        """Staged pages with a receipt, by partition. Protected by the outbox's lock."""
        self._held_told_at: float | None = None

    def take(self, session: Session) -> tuple[Batch, int] | None:
        """Return the next page and its sequence, waiting for one; ``None`` if this stream has no more."""
        outbox = self._outbox
        with outbox.lock:
            while not session.is_over and self._lost is None:
                now = outbox.clock()
                due_at = self._seal_due(now)
                page = outbox.window.next_to_send(now)
                if page is not None and page.sequence is not None:
                    return page.content, page.sequence
                if outbox.closing and not outbox.unfinished:
                    return None
                if session.is_open and outbox.window.may_renew():
                    return None
                wakes_at = outbox.window.wakes_at(now)
                times = [at for at in (due_at, wakes_at) if at is not None]
                outbox.work.wait(max(0.0, min(times) - now) if times else None)
        return None

    def opened(self, session: Session, message: pb.PublishOpened, *, resumed: bool) -> None:
        """Apply the opening answer of the broker."""
        outbox = self._outbox
        with outbox.lock:
            session.is_open = True
            if resumed:
                outbox.window.opened_again(message.next_sequences)
                if outbox.window.must_renew:
                    self._lose(
                        WriterFenced(
                            "the broker no longer has the staged pages of this publisher: stage the epoch again"
                        )
                    )
            else:
                outbox.window.opened_new()
            bounds = outbox.settings
            outbox.window.pages_max = min(bounds.window_pages, message.unanswered_max or bounds.window_pages)
            outbox.batches.limit(message.page_bytes_max)
            outbox.record_bytes_max = message.record_bytes_max
            outbox.partitions = message.partitions
            outbox.wake_all()

    def answered(self, answers: Iterable[pb.PublishAnswer], sink: str) -> None:
        """Apply answers to pages, in their order."""
        outbox = self._outbox
        ended: list[Ended] = []
        try:
            with outbox.lock:
                for answer in answers:
                    ended += self._noted(answer, sink)
                outbox.work.notify()
        finally:
            self._end(ended)

    def _noted(self, answer: pb.PublishAnswer, sink: str) -> Sequence[Ended]:
        """Apply one answer; return the pages that it finished. Under the lock."""
        window = self._outbox.window
        partition, sequence = answer.partition, answer.sequence
        if answer.WhichOneof("answer") == "receipt":
            page = window.stored(partition, sequence)
            if page is None:
                return ()
            part = self.stored.get(partition, StagedPart(partition, 0, 0))
            self.stored[partition] = StagedPart(partition, part.pages + 1, part.records + page.content.count)
            return [(page.content, convert.receipt(answer.receipt))]
        error = from_status(answer.refusal)
        failed: Failed[Batch] | None = None
        if isinstance(error, SequenceGap):
            window.refused_as_gap(partition, sequence)
        elif isinstance(error, PageCorrupt):
            failed = window.refused_as_damaged(partition, sequence, self._outbox.clock(), error)
        elif error.retryable:
            hold_s = DEFAULT_HOLD_S if error.retry_after_s is None else error.retry_after_s
            window.refused_for_now(partition, sequence, self._outbox.clock() + hold_s, error)
            self._tell_held(sink, partition, error, hold_s)
        else:
            failed = window.refused_for_good(partition, sequence, error)
        if window.must_renew:
            self._lose(error)
        return () if failed is None else [(failed.page.content, failed.error)]

    def broke(self, session: Session) -> None:
        """Apply the end of the stream."""
        with self._outbox.lock:
            session.is_over = True
            self._outbox.window.broke()
            self._outbox.wake_all()

    def over(self, session: Session, error: ForebayError | None) -> None:
        """Apply the end of the answers, or an error of the sender; the first one counts."""
        with self._outbox.lock:
            session.is_over = True
            session.error = session.error or error
            self._outbox.wake_all()

    def lost(self) -> ForebayError | None:
        """Return the error that ended a writer that does not renew itself."""
        with self._outbox.lock:
            return self._lost

    def may_renew(self) -> bool:
        """Return True if the next stream requires a new epoch and may take it."""
        with self._outbox.lock:
            return self._outbox.window.may_renew()

    def is_done(self) -> bool:
        """Return True if the publisher is closed and nothing is left."""
        with self._outbox.lock:
            return self._outbox.closing and not self._outbox.unfinished

    def await_change(self, session: Session | None, until: float | None) -> None:
        """Expire pages until the session is over, ``until`` has come, or the publisher is done."""
        outbox = self._outbox
        while True:
            with outbox.lock:
                if self._lost is not None or (session is not None and session.is_over):
                    return
                now = outbox.clock()
                if until is not None and now >= until:
                    return
                if session is None and outbox.closing and not outbox.unfinished:
                    return
                failed = self._expire(now)
                if not failed:
                    times = [at for at in (until, self._expires_at()) if at is not None]
                    outbox.change.wait(max(0.0, min(times) - now) if times else None)
            self._end([(one.page.content, one.error) for one in failed])
            if failed:
                with outbox.lock:
                    self._lose(failed[0].error)

    def end_all(self, error: ForebayError) -> None:
        """Fail all remaining pages, and accept no more records."""
        outbox = self._outbox
        with outbox.lock:
            if not outbox.closing:
                outbox.fatal = error
            for batch in outbox.batches:
                outbox.seal(batch.partition)
            left = [page.content for page in outbox.window.give_up_all()]
            outbox.wake_all()
        self._end([(batch, error) for batch in left])

    def _lose(self, error: ForebayError) -> None:
        """End a writer that does not renew itself. Under the lock."""
        if not self._renews and self._lost is None:
            self._lost = error
            self._outbox.wake_all()

    def _tell_held(self, sink: str, partition: int, error: ForebayError, hold_s: float) -> None:
        """Log that the broker rejects pages temporarily, as the explanation of a slow publisher."""
        now = self._outbox.clock()
        if self._held_told_at is None or now - self._held_told_at >= HELD_LOG_S:
            self._held_told_at = now
            log.warning(
                "publisher has to wait sink=%s partition=%d reason=%s retry_after_s=%.2f give_up_after_s=%g: %s",
                sink,
                partition,
                error.reason,
                hold_s,
                self._outbox.settings.delivery_timeout_s,
                error,
            )

    def _seal_due(self, now: float) -> float | None:
        """Seal lingered batches that could be sent now; return the time at which the next one is due."""
        outbox = self._outbox
        due_at: float | None = None
        for batch in outbox.batches:
            due = outbox.batches.due_at(batch)
            if due > now and not outbox.waiting and not outbox.closing:
                due_at = due if due_at is None else min(due_at, due)
            elif outbox.window.is_free(batch.partition, now):
                outbox.seal(batch.partition)
        return due_at

    def _expire(self, now: float) -> list[Failed[Batch]]:
        outbox = self._outbox
        for batch in outbox.batches:
            if batch.opened_at + outbox.settings.delivery_timeout_s <= now:
                outbox.seal(batch.partition)
        failed = outbox.window.expire(now)
        if failed:
            outbox.work.notify()
        return failed

    def _expires_at(self) -> float | None:
        outbox = self._outbox
        times = [batch.opened_at + outbox.settings.delivery_timeout_s for batch in outbox.batches]
        first = outbox.window.expires_at()
        return min(times if first is None else [*times, first], default=None)

    def _end(self, ended: Sequence[Ended]) -> None:
        """Record, complete and release finished pages, one after the other.

        A failure of one step does not prevent the others.
        """
        with ExitStack() as steps:  # callbacks run in reverse order
            for page in reversed(ended):
                steps.callback(self._let_go, *page)
                steps.callback(self._settle, *page)
                steps.callback(self._tell, *page)

    def _tell(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        if batch.span is not None:
            reason = "" if isinstance(outcome, Receipt) else outcome.reason
            self._outbox.telemetry.sent(batch.span, batch.count, reason)

    def _settle(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        for claim in batch.claims:
            if isinstance(outcome, Receipt):
                claim.settle(outcome)
            else:
                claim.fail(outcome)

    def _let_go(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        outbox = self._outbox
        with outbox.lock:
            outbox.bytes -= outbox.unfinished.pop(batch.ticket)
            if not isinstance(outcome, Receipt):
                outbox.failures.add(outcome)
            outbox.room.notify_all()
            if outbox.closing and not outbox.unfinished:
                outbox.wake_all()
