"""Stream side of a send buffer: takes pages out, applies answers, and completes finished pages.

Called by three jobs: the sender (``take``), the reader of answers (``opened``, ``answered``) and the stream's own
job (``await_change``, ``disconnected``, ``end_all``). Futures are completed outside the lock, so that a callback may
publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from forebay.client.errors import ForebayError, PageCorrupt, WriterFenced
from forebay.client.publish.batches import Batch
from forebay.client.publish.completions import PublishFuture
from forebay.client.publish.send_buffer import SendBuffer
from forebay.client.publish.window import FailedPage
from forebay.client.transport.status import from_status
from forebay.client.values import convert
from forebay.client.values.epochs import StagedPart
from forebay.client.values.records import Receipt
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb

DEFAULT_HOLD_S: Final = 0.25
"""Delay after a temporary rejection that names none."""
HELD_LOG_S: Final = 10.0
"""Minimum interval between log events about a rejected publisher."""

FinishedPage = tuple[Batch, Receipt | ForebayError]
"""Page that will not be sent again, with its result."""

log = logging.getLogger(__name__)


class PublishStreamState:
    """Shared state of one stream. Protected by the buffer's lock."""

    def __init__(self) -> None:
        self.is_open = False
        """`opened` was received."""
        self.has_ended = False
        """Nothing more is sent or read."""
        self.error: ForebayError | None = None
        """Cause of a broken stream."""


class Sender:
    """Feeds consecutive streams from a send buffer."""

    def __init__(self, buffer: SendBuffer, *, renews: bool = True) -> None:
        """Without ``renews``, the first failed page, or any need of a new epoch, ends the writer."""
        self._buffer = buffer
        self._renews = renews
        self._fatal_error: ForebayError | None = None
        """Error that ended a writer that does not renew itself. Protected by the buffer's lock."""
        self.stored: dict[int, StagedPart] = {}
        """Staged pages with a receipt, by partition. Protected by the buffer's lock."""
        self._held_logged_at: float | None = None

    async def take(self, stream: PublishStreamState) -> tuple[Batch, int] | None:
        """Return the next page and its sequence, waiting for one; ``None`` if this stream has no more."""
        buffer = self._buffer
        with buffer.lock:
            while not stream.has_ended and self._fatal_error is None:
                now = buffer.clock()
                due_at = self._seal_due(now)
                page = buffer.window.next_to_send(now)
                if page is not None and page.sequence is not None:
                    return page.content, page.sequence
                if buffer.closing and not buffer.unfinished:
                    return None
                if stream.is_open and buffer.window.may_renew():
                    return None
                next_retry_at = buffer.window.next_retry_at(now)
                times = [at for at in (due_at, next_retry_at) if at is not None]
                await buffer.work.wait_for_notify(max(0.0, min(times) - now) if times else None)
        return None

    def opened(self, stream: PublishStreamState, message: pb.PublishOpened, sink: str, *, resumed: bool) -> None:
        """Apply the opening answer of the broker."""
        buffer = self._buffer
        is_behind = False
        with buffer.lock:
            stream.is_open = True
            if resumed:
                is_behind = buffer.window.reopened(message.next_sequences)
                if buffer.window.must_renew:
                    self._end_writer(
                        WriterFenced(
                            "the broker no longer has the staged pages of this publisher: stage the epoch again"
                        )
                    )
            else:
                buffer.window.opened_with_new_epoch()
            bounds = buffer.settings
            buffer.window.pages_max = min(bounds.window_pages, message.unanswered_max or bounds.window_pages)
            buffer.settle()
            buffer.batches.limit(message.page_bytes_max)
            buffer.record_bytes_max = message.record_bytes_max
            buffer.partitions = message.partitions
            buffer.wake_all()
        if is_behind:
            log.warning(
                "the broker lost records that it had acknowledged: they were only in memory when it ended, or it was "
                "restored from a backup sink=%s",
                sink,
            )

    def answered(self, answers: Iterable[pb.PublishAnswer], sink: str) -> None:
        """Apply answers to pages, in their order."""
        buffer = self._buffer
        finished: list[FinishedPage] = []
        try:
            with buffer.lock:
                for answer in answers:
                    finished += self._apply(answer, sink)
                if len(buffer.unfinished) > len(finished) or buffer.window.must_renew:
                    buffer.work.notify()
        finally:
            self._finish(finished)

    def _apply(self, answer: pb.PublishAnswer, sink: str) -> Sequence[FinishedPage]:
        """Apply one answer; return the pages that it finished. Under the lock."""
        window = self._buffer.window
        partition, sequence = answer.partition, answer.sequence
        if answer.WhichOneof("answer") == "receipt":
            page = window.stored(partition, sequence)
            if page is None:
                return ()
            part = self.stored.get(partition, StagedPart(partition, 0, 0))
            self.stored[partition] = StagedPart(partition, part.pages + 1, part.records + page.content.count)
            return [(page.content, convert.receipt(answer.receipt))]
        error = from_status(answer.refusal)
        failed: FailedPage[Batch] | None = None
        if error.reason == Reason.SEQUENCE_GAP.name:
            window.rejected_as_gap(partition, sequence)
        elif isinstance(error, PageCorrupt):
            failed = window.rejected_as_damaged(partition, sequence, self._buffer.clock(), error)
        elif error.retryable:
            hold_s = DEFAULT_HOLD_S if error.retry_after_s is None else error.retry_after_s
            window.rejected_temporarily(partition, sequence, self._buffer.clock() + hold_s, error)
            self._log_held(sink, partition, error, hold_s)
        else:
            failed = window.rejected_permanently(partition, sequence, error)
        if window.must_renew:
            self._end_writer(error if failed is None else failed.error)
        return () if failed is None else [(failed.page.content, failed.error)]

    def disconnected(self, stream: PublishStreamState) -> None:
        """Apply the end of the stream."""
        with self._buffer.lock:
            stream.has_ended = True
            self._buffer.window.disconnected()
            self._buffer.wake_all()

    def ended(self, stream: PublishStreamState, error: ForebayError | None) -> None:
        """Apply the end of the answers, or an error of the sender; the first one counts."""
        with self._buffer.lock:
            stream.has_ended = True
            stream.error = stream.error or error
            self._buffer.wake_all()

    def fatal_error(self) -> ForebayError | None:
        """Return the error that ended a writer that does not renew itself."""
        with self._buffer.lock:
            return self._fatal_error

    def may_renew(self) -> bool:
        """Return True if the next stream requires a new epoch and may take it."""
        with self._buffer.lock:
            return self._buffer.window.may_renew()

    def is_done(self) -> bool:
        """Return True if the publisher is closed and nothing is left."""
        with self._buffer.lock:
            return self._buffer.closing and not self._buffer.unfinished

    async def await_change(self, stream: PublishStreamState | None, until: float | None) -> None:
        """Expire pages until the stream has ended, ``until`` has come, or the publisher is done."""
        buffer = self._buffer
        while True:
            with buffer.lock:
                if self._fatal_error is not None or (stream is not None and stream.has_ended):
                    return
                now = buffer.clock()
                if until is not None and now >= until:
                    return
                if stream is None and buffer.closing and not buffer.unfinished:
                    return
                failed = self._expire(now)
                if failed:  # before an answer is applied: its error may be temporary
                    self._end_writer(failed[0].error)
                else:
                    # Batches that are opened meanwhile expire after this wait.
                    times = [now + buffer.settings.delivery_timeout_s, until, self._expires_at()]
                    await buffer.change.wait_for_notify(max(0.0, min(at for at in times if at is not None) - now))
            self._finish([(one.page.content, one.error) for one in failed])

    def end_all(self, error: ForebayError) -> None:
        """Fail all remaining pages, and accept no more records."""
        buffer = self._buffer
        with buffer.lock:
            buffer.end(error)
            for batch in buffer.batches:
                buffer.seal(batch.partition)
            left = [page.content for page in buffer.window.expire_all()]
            buffer.wake_all()
        self._finish([(batch, error) for batch in left])

    def _end_writer(self, error: ForebayError) -> None:
        """End a writer that does not renew itself. Under the lock."""
        if not self._renews and self._fatal_error is None:
            self._fatal_error = error
            self._buffer.wake_all()

    def _log_held(self, sink: str, partition: int, error: ForebayError, hold_s: float) -> None:
        """Log that the broker rejects pages temporarily, as the explanation of a slow publisher."""
        now = self._buffer.clock()
        if self._held_logged_at is None or now - self._held_logged_at >= HELD_LOG_S:
            self._held_logged_at = now
            log.warning(
                "publisher has to wait sink=%s partition=%d reason=%s retry_after_s=%.2f give_up_after_s=%g: %s",
                sink,
                partition,
                error.reason,
                hold_s,
                self._buffer.settings.delivery_timeout_s,
                error,
            )

    def _seal_due(self, now: float) -> float | None:
        """Seal lingered batches that could be sent now; return the time at which the next one is due."""
        buffer = self._buffer
        due_at: float | None = None
        for batch in buffer.batches:
            due = buffer.batches.due_at(batch)
            if due > now and not buffer.waiting and not buffer.closing:
                if batch.is_awaited and buffer.window.is_idle(batch.partition, now):
                    buffer.seal(batch.partition)
                    continue
                due_at = due if due_at is None else min(due_at, due)
            elif buffer.window.is_free(batch.partition, now):
                buffer.seal(batch.partition)
        return due_at

    def _expire(self, now: float) -> list[FailedPage[Batch]]:
        buffer = self._buffer
        for batch in buffer.batches:
            if batch.opened_at + buffer.settings.delivery_timeout_s <= now:
                buffer.seal(batch.partition)
        failed = buffer.window.expire(now)
        if failed:
            buffer.work.notify()
        return failed

    def _expires_at(self) -> float | None:
        buffer = self._buffer
        times = [batch.opened_at + buffer.settings.delivery_timeout_s for batch in buffer.batches]
        first = buffer.window.expires_at()
        return min(times if first is None else [*times, first], default=None)

    def _finish(self, finished: Sequence[FinishedPage]) -> None:
        """Record, complete and release finished pages, one after the other.

        A failure of one step does not prevent the others.
        """
        with ExitStack() as steps:  # callbacks run in reverse order
            for page in reversed(finished):
                steps.callback(self._release, *page)
                steps.callback(self._complete, *page)
                steps.callback(self._end_span, *page)

    def _end_span(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        if batch.span is not None:
            reason = "" if isinstance(outcome, Receipt) else outcome.reason
            self._buffer.telemetry.sent(batch.span, batch.count, reason)

    def _complete(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        batch.result.settle(outcome)
        on_failure = self._buffer.on_failure
        if on_failure is not None and isinstance(outcome, ForebayError):
            report = PublishFuture()  # which logs what a callback raises
            report.add_done_callback(lambda failed: on_failure(outcome, batch.count))
            report.set_result(None)
        for completion in batch.completions:
            if isinstance(outcome, Receipt):
                completion.settle(outcome)
            else:
                completion.fail(outcome)

    def _release(self, batch: Batch, outcome: Receipt | ForebayError) -> None:
        buffer = self._buffer
        with buffer.lock:
            del buffer.unfinished[batch.ticket]
            buffer.reserved_bytes -= batch.held_bytes
            if not isinstance(outcome, Receipt):
                buffer.failures.add(outcome)
            buffer.room.notify_all()
            if buffer.closing and not buffer.unfinished:
                buffer.wake_all()
