"""Dispatcher: sends one delivery to the target and settles it, in order.

Delivered records are acked first. After a failure the rest is rejected for redelivery from the failed record on; in
RELAXED order only the batch is rejected, and the next one is sent. After a permanent rejection the record is found by
halving the batch. Later records are then sent, in STRICT order only once that record is a dead letter. A revoked
delivery is not sent any further.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import assert_never

from forebay.client.errors import DeadlineExceeded, ForebayError
from forebay.deliver import classification
from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.cutting import UnreadableRange, batches_of
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import TargetClosed
from forebay.deliver.health import TargetHealth
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.deliver.source import SourceDelivery
from forebay.deliver.targets.target import Target, TurnTaking
from forebay.deliver.telemetry import Instruments
from forebay.deliver.waiting_deliveries import WaitingDeliveries

_log = logging.getLogger("forebay.deliver")
_SETTLED = frozenset({"OK", "ALREADY_SETTLED"})


class Dispatcher:
    """Delivers one sink's records to a target, and redelivered ones to a second target if there is one.

    Thread-safe; a partition is delivered by one thread at a time.
    """

    def __init__(
        self,
        sink: str,
        target: Target,
        limits: BatchLimits,
        *,
        resend_to: tuple[Target, BatchLimits] | None = None,
        retry_delay_max_s: float,
        instruments: Instruments,
        health: TargetHealth,
        stopping: Callable[[], bool],
    ) -> None:
        self._sink = sink
        self._first = target, limits
        self._redelivered = resend_to or self._first
        self._retry_delay_max_s = retry_delay_max_s
        self._instruments = instruments
        self._health = health
        self._stopping = stopping
        self._waiting = WaitingDeliveries()

    def extend_waiting(self) -> None:
        """Extend the ack deadlines of deliveries that wait for the broker or for a turn. From any thread."""
        self._waiting.extend()

    def limits_of(self, delivery: SourceDelivery) -> BatchLimits:
        """Return the limits of the batches of a delivery."""
        return (self._redelivered if delivery.resend else self._first)[1]

    def deliver(self, delivery: SourceDelivery) -> None:
        """Send and settle a delivery until it is done, revoked, failed, or the deliverer stops.

        Raises `TargetClosed` if the target does; the record for which it was raised is then not settled.
        """
        if delivery.gap is not None:
            self._instruments.gap(delivery.partition)
            _log.warning("gap met sink=%s partition=%d gap=%s", self._sink, delivery.partition, delivery.gap)
            return
        target, limits = self._redelivered if delivery.resend else self._first
        parts = batches_of(self._sink, delivery, limits)
        next_offset = delivery.valid_ranges[0][0] if delivery.valid_ranges else 0
        while True:
            try:
                part = next(parts, None)
            except ForebayError as error:  # rows whose schema the broker does not tell now
                if not error.retryable:
                    raise
                self._undecoded(delivery, next_offset, error)
                return
            if part is None:
                return
            next_offset = part.last_offset + 1
            may_continue = (
                self._dead_letter_unreadable(delivery, part)
                if isinstance(part, UnreadableRange)
                else self._settle(delivery, target, part)
            )
            if not may_continue:
                return

    def _undecoded(self, delivery: SourceDelivery, offset: int, error: ForebayError) -> None:
        """Reject the records from an offset on for redelivery, unless they are void."""
        reason = classification.shorten(f"cannot be decoded yet: {type(error).__name__}: {error}")
        _log.warning(
            "records were not decoded and are redelivered sink=%s partition=%d from=%d: %s",
            *(self._sink, delivery.partition, offset, reason),
        )
        left = [last for _, last in delivery.valid_ranges if last >= offset]
        if left:
            delivery.nack_from(offset, last=left[-1] if delivery.relaxed else None, reason=reason)

    def _settle(self, delivery: SourceDelivery, target: Target, batch: Batch) -> bool:
        """Send a batch, in parts if necessary; return True if later records may be sent."""
        parts = deque([batch])
        while parts:
            with self._turn(delivery, target):
                part = parts.popleft().below(_valid_end(delivery))
                if part is None or self._stopping():
                    return False
                delivery.extend()
                outcome = self._send(delivery, target, part)
            match outcome:
                case Delivered():
                    delivery.ack(part.first_offset, part.last_offset)
                case Retry():
                    self._nack(delivery, self._ack_first(delivery, part, outcome.delivered), outcome)
                    if not delivery.relaxed:
                        return False
                case Reject():
                    rest = self._ack_first(delivery, part, outcome.delivered)
                    if outcome.exact or len(rest) == 1:
                        if not self._reject(delivery, rest, outcome):
                            return False
                        if len(rest) > 1:
                            parts.appendleft(rest.after(1))
                    else:
                        parts.extendleft(reversed(rest.halves()))
                case _:
                    assert_never(outcome)
        return True

    @contextmanager
    def _turn(self, delivery: SourceDelivery, target: Target) -> Iterator[None]:
        """Wait for the turn of a send, if the target has turns, and extend the ack deadline during the wait."""
        if not isinstance(target, TurnTaking):
            yield
            return
        with ExitStack() as turn:
            with self._waiting.extended(delivery):
                turn.enter_context(target.send_turn())
            yield

    def _dead_letter_unreadable(self, delivery: SourceDelivery, part: UnreadableRange) -> bool:
        """Dead-letter records that cannot be decoded; return True if later records may be sent."""
        first = part.first_offset
        last = min(part.last_offset, _valid_end(delivery) - 1)
        if last < first or self._stopping():
            return False
        reason = classification.shorten(f"cannot be decoded: {part.reason}")
        self._health.rejected(delivery.partition, first, last, reason)
        for _ in range(first, last + 1):
            self._instruments.rejected(delivery.partition)
        return self._dead_letter(delivery, reason, first, last)

    def _send(self, delivery: SourceDelivery, target: Target, batch: Batch) -> Outcome:
        with self._instruments.sending(delivery, batch) as note:
            try:
                outcome = classification.answer(target.send(batch), len(batch))
            except TargetClosed:
                raise
            except Exception as error:  # noqa: BLE001 - user code: every exception is retried
                outcome = classification.exception(error)
            note(outcome)
            self._health.sent(batch, outcome)  # while the span of the attempt is current, which an event names
        return outcome

    @staticmethod
    def _ack_first(delivery: SourceDelivery, batch: Batch, count: int) -> Batch:
        """Ack the first ``count`` records and return the others."""
        if count == 0:
            return batch
        delivery.ack(batch.first_offset, batch.first_offset + count - 1)
        return batch.after(count)

    def _nack(self, delivery: SourceDelivery, batch: Batch, outcome: Retry) -> None:
        delay_s = None if outcome.delay_s is None else min(max(outcome.delay_s, 0.0), self._retry_delay_max_s)
        reason = classification.shorten(outcome.reason)
        _log.debug(  # each attempt; `TargetHealth` logs the first failure and the recovery
            "records rejected for redelivery sink=%s partition=%d from=%d delay_s=%s reason=%r",
            *(self._sink, batch.partition, batch.first_offset, delay_s, reason),
        )
        last = batch.last_offset if delivery.relaxed else None
        delivery.nack_from(batch.first_offset, last=last, delay_s=delay_s, reason=reason)

    def _reject(self, delivery: SourceDelivery, batch: Batch, outcome: Reject) -> bool:
        """Dead-letter the first record; return True if later records may be sent.

        In STRICT order they may not before the dead letter is confirmed: otherwise the record could be redelivered
        after them.
        """
        reason = classification.shorten(outcome.reason)
        self._health.rejected(batch.partition, batch.first_offset, batch.first_offset, reason)
        self._instruments.rejected(batch.partition)
        return self._dead_letter(delivery, reason, batch.first_offset, batch.first_offset)

    def _dead_letter(self, delivery: SourceDelivery, reason: str, first: int, last: int) -> bool:
        """Dead-letter a range; return True if it is confirmed, so that later records may be sent.

        In STRICT order waits for the answer of the broker until the deliverer stops: without it neither the rest of the
        delivery nor a later one of the partition may be sent. The wait ends with the connection at the latest.
        """
        is_logged = False
        with self._waiting.extended(delivery):
            while True:
                try:
                    results = delivery.dead_letter(reason, offset=first, last=last, wait=not delivery.relaxed)
                except DeadlineExceeded as late:
                    if not is_logged:
                        is_logged = True
                        _log.warning(
                            "dead letter not confirmed, the partition waits sink=%s partition=%d offset=%d: %s",
                            *(self._sink, delivery.partition, first, late),
                        )
                    if self._stopping():
                        return False
                else:
                    return delivery.relaxed or all(result.outcome in _SETTLED for result in results)


def _valid_end(delivery: SourceDelivery) -> int:
    """Return the offset after the last record that is not void."""
    return max((last + 1 for _, last in delivery.valid_ranges), default=0)
