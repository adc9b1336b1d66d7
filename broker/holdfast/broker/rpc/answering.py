"""Acks and nacks of the wire, as calls of a subscription."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from holdfast.broker.core.errors import InvalidNack, InvalidRange
from holdfast.broker.core.lane import Answer, Outcome
from holdfast.broker.core.ranges import Range
from holdfast.broker.rpc import convert
from holdfast.broker.runtime.subscription import Subscription
from holdfast.v1 import buffer_service_pb2 as pb

Results = tuple[tuple[int, Range, Outcome], ...]
DELAY_MAX_US: Final = 24 * 3_600 * 1_000_000
REASON_MAX: Final = 1_024


def acked(subscription: Subscription, ack: pb.AckRanges) -> Awaitable[Results]:
    """Settle what an ack names."""
    ranges = convert.ranges(ack.ranges)
    if ack.until and len(ranges) != 1:
        raise InvalidRange("`until` takes one range", field="ranges")
    return subscription.ack(ack.partition, Answer(ack.owner_epoch, ack.revision), ranges, until=ack.until)


def extended(subscription: Subscription, extend: pb.Extend) -> bool:
    """Give more time to what an extension names; false when somebody else owns the partition."""
    ranges = convert.ranges(extend.ranges) if extend.ranges else []
    return subscription.extend(extend.partition, extend.owner_epoch, ranges)


def nacked(subscription: Subscription, nack: pb.NackRanges) -> Awaitable[Results]:
    """Give back what a nack names."""
    ranges = convert.ranges(nack.ranges)
    answer = Answer(nack.owner_epoch, nack.revision)
    if nack.WhichOneof("action") == "dead_letter":
        reason = nack.dead_letter.reason[:REASON_MAX]
        return subscription.reject(nack.partition, answer, ranges, reason=reason)
    if nack.WhichOneof("action") == "drop":
        return subscription.discard(nack.partition, answer, ranges, reason=nack.drop.reason[:REASON_MAX])
    delay_s = None
    if nack.retry.HasField("delay"):
        delay_us = convert.duration_us(nack.retry.delay)
        if not 0 <= delay_us <= DELAY_MAX_US:
            raise InvalidNack(f"a delay is 0 to 24 h, not {delay_us} us", field="retry.delay")
        delay_s = delay_us / 1_000_000
    reason = nack.retry.reason[:REASON_MAX]
    return subscription.retry(nack.partition, answer, ranges, delay_s=delay_s, reason=reason)
