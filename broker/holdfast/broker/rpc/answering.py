"""Acks and nacks of the wire, as calls of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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
SLICE: Final = 128
"""Ranges that are answered without letting others run."""


async def acked(subscription: Subscription, ack: pb.AckRanges) -> Awaitable[Results]:
    """Settle what an ack names; its results are to be waited for in a second step."""
    ranges = convert.ranges(ack.ranges)
    if ack.until and len(ranges) != 1:
        raise InvalidRange("`until` takes one range", field="ranges")
    answer = Answer(ack.owner_epoch, ack.revision)
    return await _in_slices(ranges, lambda some: subscription.ack(ack.partition, answer, some, until=ack.until))


async def _in_slices(
    ranges: Sequence[Range], settle: Callable[[Sequence[Range]], Awaitable[Results]]
) -> Awaitable[Results]:
    """Answer ranges, some at a time: thousands of scattered ones take long, and meanwhile others run."""
    begun = [settle(ranges[:SLICE])]
    for first in range(SLICE, len(ranges), SLICE):
        await asyncio.sleep(0)
        begun.append(settle(ranges[first : first + SLICE]))
    return begun[0] if len(begun) == 1 else _together(begun)


async def _together(begun: Sequence[Awaitable[Results]]) -> Results:
    return tuple(result for results in await asyncio.gather(*begun) for result in results)


def extended(subscription: Subscription, extend: pb.Extend) -> bool:
    """Give more time to what an extension names; false when somebody else owns the partition."""
    ranges = convert.ranges(extend.ranges) if extend.ranges else []
    return subscription.extend(extend.partition, extend.owner_epoch, ranges)


async def nacked(subscription: Subscription, nack: pb.NackRanges) -> Awaitable[Results]:
    """Give back what a nack names; its results are to be waited for in a second step.

    All that is to be tried again fails at one instant: in STRICT order it is one failure.
    """
    ranges = convert.ranges(nack.ranges)
    answer = Answer(nack.owner_epoch, nack.revision)
    if nack.WhichOneof("action") == "dead_letter":
        reason = nack.dead_letter.reason[:REASON_MAX]
        return await _in_slices(ranges, lambda some: subscription.reject(nack.partition, answer, some, reason=reason))
    if nack.WhichOneof("action") == "drop":
        reason = nack.drop.reason[:REASON_MAX]
        return await _in_slices(ranges, lambda some: subscription.discard(nack.partition, answer, some, reason=reason))
    delay_s = None
    if nack.retry.HasField("delay"):
        delay_us = convert.duration_us(nack.retry.delay)
        if not 0 <= delay_us <= DELAY_MAX_US:
            raise InvalidNack(f"a delay is 0 to 24 h, not {delay_us} us", field="retry.delay")
        delay_s = delay_us / 1_000_000
    reason = nack.retry.reason[:REASON_MAX]
    return subscription.retry(nack.partition, answer, ranges, delay_s=delay_s, reason=reason)
