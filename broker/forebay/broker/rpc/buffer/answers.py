"""Acks and nacks of the wire, as calls of a subscription.

One answer may name thousands of scattered ranges: they are processed in slices, between which other tasks run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import BrokerError, InvalidValue
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering
from forebay.broker.rpc import convert
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.resources.slices import Slices
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

_T = TypeVar("_T")
Results = tuple[tuple[int, Range, SettleOutcome], ...]
DELAY_MAX_US: Final = 24 * 3_600 * 1_000_000
REASON_MAX: Final = 1_024
SLICE: Final = 64
"""Ranges processed before the loop yields to other tasks: a few milliseconds of work."""


async def acked(subscription: Subscription, ack: pb.AckRanges) -> Awaitable[Results]:
    """Settle the ranges of an ack; its results are awaited in a second step."""
    slices = Slices()
    ranges = await _ranges(ack.ranges, slices)
    if ack.until and len(ranges) != 1:
        raise BrokerError(Reason.INVALID_RANGE, "`until` takes one range", field="ranges")
    answer = Answer(ack.owner_epoch, ack.revision)
    return await _in_slices(ranges, slices, lambda some: subscription.ack(ack.partition, answer, some, until=ack.until))


async def extended(subscription: Subscription, extend: pb.Extend) -> bool:
    """Extend the deadlines that an extension names; False if another consumer owns the partition."""
    slices = Slices()
    ranges = await _ranges(extend.ranges, slices) if extend.ranges else []
    owns = subscription.extend(extend.partition, extend.owner_epoch, ranges[:SLICE])
    for first in range(SLICE, len(ranges), SLICE):
        await slices.turn()
        owns = owns and subscription.extend(extend.partition, extend.owner_epoch, ranges[first : first + SLICE])
    return owns


async def nacked(subscription: Subscription, nack: pb.NackRanges) -> Awaitable[Results]:
    """Reject the ranges of a nack; its results are awaited in a second step.

    In STRICT order all ranges to retry fail at once: this is one failure. In RELAXED order each range fails separately.
    """
    slices = Slices()
    ranges = await _ranges(nack.ranges, slices)
    partition, answer = nack.partition, Answer(nack.owner_epoch, nack.revision)
    if nack.WhichOneof("action") == "dead_letter":
        reason = nack.dead_letter.reason[:REASON_MAX]
        return await _in_slices(
            ranges, slices, lambda some: subscription.reject(partition, answer, some, reason=reason)
        )
    if nack.WhichOneof("action") == "drop":
        reason = nack.drop.reason[:REASON_MAX]
        return await _in_slices(
            ranges, slices, lambda some: subscription.discard(partition, answer, some, reason=reason)
        )
    delay_s, reason = _delay_s(nack.retry), nack.retry.reason[:REASON_MAX]
    if subscription.settings.ordering == Ordering.RELAXED:
        return await _in_slices(
            ranges, slices, lambda some: subscription.retry(partition, answer, some, delay_s=delay_s, reason=reason)
        )
    judged = await subscription.judged(partition, answer, ranges, slices) if len(ranges) > SLICE else None
    return subscription.retry(partition, answer, ranges, delay_s=delay_s, reason=reason, judged=judged)


async def in_message(found: Results) -> list[pb.SettleResult]:
    """Return results for the wire."""
    slices, made = Slices(), []
    for some in _cut(found):
        made += convert.results(some)
        await slices.turn()
    return made


def _delay_s(retry: pb.NackRetry) -> float | None:
    if not retry.HasField("delay"):
        return None
    delay_us = convert.duration_us(retry.delay)
    if not 0 <= delay_us <= DELAY_MAX_US:
        raise InvalidValue(Reason.INVALID_NACK, "retry.delay", f"{delay_us} us", "0 to 24 h")
    return delay_us / 1_000_000


async def _ranges(wanted: Sequence[record_pb2.OffsetRange], slices: Slices) -> list[Range]:
    """Return ranges from the wire, all checked before the first one is applied."""
    convert.check_count(len(wanted))
    found: list[Range] = []
    for some in _cut(wanted):
        found += convert.ranges(some)
        await slices.turn()
    return found


async def _in_slices(
    ranges: Sequence[Range], slices: Slices, settle: Callable[[Sequence[Range]], Awaitable[Results]]
) -> Awaitable[Results]:
    """Answer ranges in slices."""
    begun: list[Awaitable[Results]] = []
    for some in _cut(ranges):
        if begun:
            await slices.turn()
        begun.append(settle(some))
    return begun[0] if len(begun) == 1 else _all_results(begun)


def _cut(items: Iterable[_T]) -> Iterator[list[_T]]:
    found = iter(items)
    while some := list(islice(found, SLICE)):
        yield some


async def _all_results(begun: Sequence[Awaitable[Results]]) -> Results:
    return tuple(result for results in await asyncio.gather(*begun) for result in results)
