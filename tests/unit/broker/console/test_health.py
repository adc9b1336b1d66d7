"""Each subscription in use has a last day of its own, as long as there is room."""

from __future__ import annotations

import pytest

from forebay.broker.console.health import HEALTH_SPAN_S, HEALTH_SPANS, Health, is_used
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.state.flow import Flow
from tests.support.brokers.one_sink import fill, sink

pytestmark = pytest.mark.anyio


def add(health: Health, buffer: Buffer, at: float, **flows: Flow) -> None:
    """Add a sample of subscriptions, each with the records that wait in its only partition."""
    waiting = {
        name: buffer.subscriptions[name].lanes[0].cursor.pending(buffer.logs[0].tail.next_offset) for name in flows
    }
    health.add("orders", {name: buffer.subscriptions[name] for name in flows}, flows, waiting, 0.0, at)


async def test_subscriptions_of_one_sink_have_days_of_their_own() -> None:
    async with sink() as buffer:
        await fill(buffer, 3)
        await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)
        await buffer.subscribing.settle("audit", {0: 2})
        health = Health()

        add(health, buffer, 0.0, default=Flow.BACKING_OFF, audit=Flow.FLOWING)
        add(health, buffer, HEALTH_SPAN_S, default=Flow.NO_CONSUMER, audit=Flow.FLOWING)

    assert [span.state for span in health.day("orders", "default")] == [Flow.BACKING_OFF, Flow.NO_CONSUMER]
    assert [span.state for span in health.day("orders", "audit")] == [Flow.FLOWING, Flow.FLOWING]
    assert [health.day("orders", name)[0].waiting for name in ("default", "audit")] == [3.0, 1.0]
    assert HEALTH_SPANS * HEALTH_SPAN_S == 24 * 3600


async def test_a_subscription_that_was_never_used_has_none_until_a_record_waits() -> None:
    async with sink() as buffer:
        health, subscription = Health(), buffer.subscriptions["default"]
        add(health, buffer, 0.0, default=Flow.IDLE)
        unused = health.day("orders", "default"), is_used(subscription, 0)
        await fill(buffer, 1)
        await buffer.subscribing.settle("default", {0: 1})

        add(health, buffer, 5.0, default=Flow.FLOWING)

        assert unused == ((), False)
        assert is_used(subscription, 0), "it settled a record"
    assert len(health.day("orders", "default")) == 1


async def test_days_are_bounded_and_deleted_subscriptions_make_room() -> None:
    async with sink() as buffer:
        await fill(buffer, 1)
        await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)
        health = Health(days_max=1)
        add(health, buffer, 0.0, default=Flow.FLOWING)

        add(health, buffer, 5.0, default=Flow.FLOWING, audit=Flow.FLOWING)
        full = health.day("orders", "audit")
        add(health, buffer, 10.0, audit=Flow.FLOWING)
        room = health.day("orders", "audit")
        health.forget("orders")
        forgotten = health.day("orders", "audit")
        add(health, buffer, 15.0, audit=Flow.PAUSED)

    assert (full, len(room), forgotten) == ((), 1, ())
    assert [span.state for span in health.day("orders", "audit")] == [Flow.PAUSED]
