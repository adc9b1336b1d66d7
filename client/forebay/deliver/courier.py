"""Takes one delivery to the target and settles it, in order.

What the target took is acked before anything else is tried. Where it fails, the rest goes back from
exactly that record on; in RELAXED order only the batch goes back, and the next one is tried. Where it
rejects, the record at fault is found by halving, and what is behind it goes on: in STRICT order once that record
is among the dead letters. A delivery that was revoked is not sent any further.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, assert_never

from forebay.client.errors import DeadlineExceeded
from forebay.deliver import classify
from forebay.deliver.batch import UnreadableRange, cut
from forebay.deliver.errors import TargetGone
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from forebay.deliver.batch import Batch, BatchLimits
    from forebay.deliver.source import SourceDelivery
    from forebay.deliver.targets.target import Target
    from forebay.deliver.telemetry import Instruments

_log = logging.getLogger("forebay.deliver")
_OUT_OF_THE_LINE = frozenset({"OK", "ALREADY_SETTLED"})


class Courier:
    """Delivers one sink's records to one target, or those that were delivered before to another.

    Called by many threads, for a partition by one at a time.
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
        stopping: Callable[[], bool],
    ) -> None:
        self._sink = sink
        self._first = target, limits
        self._again = resend_to or self._first
        self._retry_delay_max_s = retry_delay_max_s
        self._instruments = instruments
        self._stopping = stopping

    def deliver(self, delivery: SourceDelivery) -> None:
        """Send and settle a delivery, until it is done, revoked, failed, or the deliverer stops.

        Raises `TargetGone` if the target does; then the record it was raised for is not settled.
        """
        if delivery.gap is not None:
            self._instruments.gap(delivery.partition)
            _log.warning("gap met sink=%s partition=%d gap=%s", self._sink, delivery.partition, delivery.gap)
            return
        target, limits = self._again if delivery.resend else self._first
        for part in cut(self._sink, delivery, limits):
            goes_on = (
                self._bury(delivery, part)
                if isinstance(part, UnreadableRange)
                else self._settle(delivery, target, part)
            )
            if not goes_on:
                return

    def _settle(self, delivery: SourceDelivery, target: Target, batch: Batch) -> bool:
        """Send a batch, in parts if it must be, and return whether what follows it may be sent."""
        parts = deque([batch])
        while parts:
            part = parts.popleft().below(delivery.void_from)
            if part is None or self._stopping():
                return False
            delivery.extend()
            outcome = self._ask(delivery, target, part)
            match outcome:
                case Delivered():
                    delivery.ack(part.first_offset, part.last_offset)
                case Retry():
                    self._give_back(delivery, self._ack_front(delivery, part, outcome.delivered), outcome)
                    if not delivery.relaxed:
                        return False
                case Reject():
                    rest = self._ack_front(delivery, part, outcome.delivered)
                    if outcome.exact or len(rest) == 1:
                        if not self._give_up(delivery, rest, outcome):
                            return False
                        if len(rest) > 1:
                            parts.appendleft(rest.after(1))
                    else:
                        parts.extendleft(reversed(rest.halves()))
                case _:
                    assert_never(outcome)
        return True

    def _bury(self, delivery: SourceDelivery, part: UnreadableRange) -> bool:
        """Make dead letters of records that cannot be decoded; whether what is behind them may be sent now."""
        first = part.first_offset
        last = part.last_offset if delivery.void_from is None else min(part.last_offset, delivery.void_from - 1)
        if last < first or self._stopping():
            return False
        reason = classify.shorten(f"cannot be decoded: {part.reason}")
        _log.error(
            "records cannot be decoded sink=%s partition=%d first_offset=%d last_offset=%d reason=%r",
            *(self._sink, delivery.partition, first, last, reason),
        )
        for _ in range(first, last + 1):
            self._instruments.rejected(delivery.partition)
        return self._dead_letter(delivery, reason, first, last)

    def _ask(self, delivery: SourceDelivery, target: Target, batch: Batch) -> Outcome:
        with self._instruments.sending(delivery, batch) as note:
            try:
                outcome = classify.answer(target.send(batch), len(batch))
            except TargetGone:
                raise
            except Exception as error:  # noqa: BLE001 - the user's code: all it raises is retried
                outcome = classify.foreign(error)
            note(outcome)
        return outcome

    @staticmethod
    def _ack_front(delivery: SourceDelivery, batch: Batch, count: int) -> Batch:
        """Ack the first ``count`` records and return the others."""
        if count == 0:
            return batch
        delivery.ack(batch.first_offset, batch.records[count - 1].offset)
        return batch.after(count)

    def _give_back(self, delivery: SourceDelivery, batch: Batch, outcome: Retry) -> None:
        delay_s = None if outcome.delay_s is None else min(max(outcome.delay_s, 0.0), self._retry_delay_max_s)
        reason = classify.shorten(outcome.reason)
        _log.info(
            "records given back sink=%s partition=%d from=%d delay_s=%s reason=%r",
            *(self._sink, batch.partition, batch.first_offset, delay_s, reason),
        )
        last = batch.last_offset if delivery.relaxed else None
        delivery.nack_from(batch.first_offset, last=last, delay_s=delay_s, reason=reason)

    def _give_up(self, delivery: SourceDelivery, batch: Batch, outcome: Reject) -> bool:
        """Say that the first record will never be taken; whether what is behind it may be sent now.

        In STRICT order it may not before the record is out of the line for good: else it would come after those
        behind it.
        """
        reason = classify.shorten(outcome.reason)
        _log.error(
            "record rejected sink=%s partition=%d offset=%d reason=%r",
            *(self._sink, batch.partition, batch.first_offset, reason),
        )
        self._instruments.rejected(batch.partition)
        return self._dead_letter(delivery, reason, batch.first_offset, batch.first_offset)

    def _dead_letter(self, delivery: SourceDelivery, reason: str, first: int, last: int) -> bool:
        """Make dead letters; whether they are out of the line, so that what is behind them may be sent."""
        try:
            results = delivery.dead_letter(reason, offset=first, last=last, wait=not delivery.relaxed)
        except DeadlineExceeded as late:
            _log.warning(
                "dead letter not confirmed sink=%s partition=%d offset=%d: %s",
                *(self._sink, delivery.partition, first, late),
            )
            return False
        return delivery.relaxed or all(result.outcome in _OUT_OF_THE_LINE for result in results)
