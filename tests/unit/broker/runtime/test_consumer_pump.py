from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.delivery.lane import Answer
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.clock import SystemClock
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Delivered, Event
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.running import PLENTY, delivered_values

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@asynccontextmanager
async def pumping(buffer: Buffer, credit: Credit | None = None) -> AsyncIterator[tuple[Consumer, asyncio.Queue[Event]]]:
    """A consumer that is sent to, as on a stream."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    subscription = buffer.subscription("")
    consumer = subscription.join("a", credit or PLENTY, events.put_nowait)
    task = asyncio.ensure_future(consumer.pump())
    try:
        async with asyncio.timeout(10):
            yield consumer, events
    finally:
        subscription.leave(consumer)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def delivered(events: asyncio.Queue[Event]) -> list[int]:
    """The offsets of the next delivery."""
    while True:
        event = await events.get()
        if isinstance(event, Delivered):
            return [offset for offset, _ in delivered_values(event)]


async def test_the_pump_sends_a_page_as_soon_as_it_is_durable() -> None:
    async with sink() as buffer, pumping(buffer) as (_, events):
        for offset in range(3):
            await fill(buffer, 1)

            assert await delivered(events) == [offset]


async def test_the_pump_continues_when_credit_comes() -> None:
    async with sink() as buffer, pumping(buffer, Credit(0, MIB)) as (consumer, events):
        await fill(buffer, 2)
        consumer.credit = Credit(1, MIB)
        consumer.wakeup.set()

        assert await delivered(events) == [0]


async def test_the_pump_wakes_up_by_itself_when_a_back_off_is_over_and_when_a_deadline_passes() -> None:
    short: dict[str, Any] = {"retry_backoff_min_us": 5_000, "retry_backoff_max_us": 5_000, "ack_deadline_us": 100_000}
    async with sink(clock=SystemClock(), **short) as buffer, pumping(buffer) as (_, events):
        await fill(buffer, 1)
        lane = buffer.subscription("").lanes[0]
        await delivered(events)
        answer = Answer(lane.owner_epoch, lane.revision)
        await buffer.subscription("").retry(0, answer, [Range(0, 1)], delay_s=None, reason="it said 503")

        after_the_nack = await delivered(events)
        after_the_deadline = await delivered(events)

        assert (after_the_nack, after_the_deadline) == ([0], [0])
        assert lane.cursor.attempts == ((0, 2),)
