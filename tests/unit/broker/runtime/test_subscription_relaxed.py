"""RELAXED order while it runs: two sources for one consumer, gaps below the position, and changes of the order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.delivery import sender
from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, Overflow
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.consumer import Credit
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, filled_sink
from tests.support.brokers.running import delivered_values, running
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
RELAXED = Ordering.RELAXED


def flags(taker: Taker) -> list[tuple[list[int], bool]]:
    """The offsets of each delivery, and whether it is flagged."""
    return [
        ([offset for offset, _ in delivered_values(event)], event.resend)
        for event in taker.events
        if isinstance(event, Delivered)
    ]


async def test_live_and_resent_records_travel_apart_and_only_the_latter_are_flagged() -> None:
    async with filled_sink(records=6, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2)
        await taker.nack(3, 4)
        await fill(buffer, 2)

        await taker.all_offsets()
        await taker.ack(1, 2)
        await taker.all_offsets()

        assert flags(taker)[1:] == [([1], True), ([6, 7], False), ([3], True)]
        assert taker.told_revoked() == []


async def test_many_queued_records_go_out_in_one_delivery_in_the_order_of_their_offsets() -> None:
    async with filled_sink(records=20, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        for offset in (15, 2, 9, 0):
            await taker.nack(offset, offset + 1)
        assert await taker.all_offsets() == [15]  # the probe: it failed first

        await taker.ack(15, 16)

        assert await taker.offsets() == [0, 2, 9]


async def test_redeliveries_from_the_retry_queue_stay_within_the_credit() -> None:
    async with filled_sink(records=6, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""), credit=Credit(6, 1 << 20))
        await taker.all_offsets()
        for offset in range(6):
            await taker.nack(offset, offset + 1)
        taker.consumer.credit = Credit(2, 1 << 20)
        assert await taker.all_offsets() == [0]
        await taker.ack(0, 1)

        assert await taker.all_offsets() == [1, 2]


async def test_a_page_that_went_to_the_retry_queue_long_ago_is_read_from_the_store() -> None:
    async with filled_sink(records=600, ordering=RELAXED, realtime=False) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2)
        await taker.ack(0, 1)
        await taker.ack(2, 600)

        event = await taker.take()

        assert isinstance(event, Delivered)
        assert delivered_values(event) == [(1, b"x" * 10)]
        assert await taker.ack(1, 2) == [SettleOutcome.OK]


async def test_a_queued_record_that_overflow_drops_is_reported_as_a_gap() -> None:
    clock = FakeClock()
    async with filled_sink(
        clock=clock, records=4, ordering=RELAXED, max_disk_cache=4, overflow=Overflow.DROP_OLDEST
    ) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2, delay_s=60.0)
        await taker.ack(2, 3)

        await fill(buffer, 1)
        assert await taker.all_offsets() == [4]

        assert taker.told_gaps() == [(1, 2)]
        assert buffer.logs[0].head.dropped == ((int(DropReason.OVERFLOW), 1),)
        await taker.ack(0, 5)
        [[state]] = [each.lanes for each in (await sink_state(buffer)).subscriptions]
        assert (state.pending, state.balances, state.parked_ranges) == (0, True, 0)


async def test_a_queued_record_that_grew_too_old_expires_and_is_not_sent_again() -> None:
    """Its offset is in a gap notice."""
    clock = FakeClock()
    async with filled_sink(clock=clock, records=3, ordering=RELAXED, max_age_us=60_000_000) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(0, 1)
        await taker.ack(1, 3)
        clock.advance(61.0)

        assert await taker.offsets() == []
        await taker.all_offsets()

        assert taker.told_gaps()[0] == (0, 1)
        cursor = taker.lane().cursor
        assert (cursor.acked, cursor.dropped, cursor.watermark) == (2, 1, 3)


async def test_a_queued_page_that_is_damaged_becomes_a_gap() -> None:
    store = MemoryStore()
    async with filled_sink(store, records=3, ordering=RELAXED, realtime=False) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2)
        key = store.scan(Family.SMALL, b"", b"\xff" * 32, 10)[1][0]
        store.damage(Family.SMALL, key)

        await taker.all_offsets()

        assert taker.told_gaps() == [(1, 2)]
        assert await taker.ack(0, 3) == [SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED, SettleOutcome.OK]


async def test_pulls_take_what_went_to_the_retry_queue_too() -> None:
    async with filled_sink(records=3, ordering=RELAXED) as buffer:
        at = buffer.subscription("")
        puller = at.pullers.get("p")
        await puller.pull(2, 0.0)
        lane = at.lanes[0]
        answer = Answer(lane.owner_epoch, lane.revision)
        await at.retry(0, answer, [Range(0, 1)], delay_s=0.0, reason="")

        taken = await puller.pull(10, 0.0)

        found = [([o for o, _ in delivered_values(e)], e.resend) for e in taken if isinstance(e, Delivered)]
        assert found == [([0], True), ([2], False)]
        assert lane.progress.redelivered == 1


async def test_the_budget_of_holes_is_seen_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "HOLES_MAX", 2)
    async with filled_sink(records=6, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.offsets(records_max=4)
        for _ in range(3):
            await taker.offsets(records_max=1)
        await taker.nack(0, 1, delay_s=60.0)
        await taker.nack(2, 3, delay_s=60.0)

        assert await taker.all_offsets() == []

        [[state]] = [each.lanes for each in (await sink_state(buffer)).subscriptions]
        assert (state.holes, state.parked_ranges, state.parked_records, state.waits_for_holes) == (2, 2, 2, True)


async def test_too_many_failures_in_a_row_are_seen_in_the_state() -> None:
    async with filled_sink(records=3, ordering=RELAXED, relaxed_failures_max=1) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.offsets(records_max=1)
        await taker.nack(0, 1, delay_s=60.0, reason="it said 503")

        assert await taker.all_offsets() == []

        [[state]] = [each.lanes for each in (await sink_state(buffer)).subscriptions]
        assert (state.live_stopped, state.reason) == (True, "it said 503")


async def test_another_order_revokes_what_is_in_flight_and_says_so() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2, delay_s=60.0)

        await buffer.change(replace(buffer.settings, ordering=Ordering.STRICT))

        assert taker.told_revoked() == [(0, 0, 2)]
        assert await taker.all_offsets() == [0, 1, 2, 3]
        await taker.nack(2, 3, delay_s=60.0)
        await buffer.change(replace(buffer.settings, ordering=RELAXED))
        assert taker.told_revoked()[2:] == [(0, 0, 4)]
        assert await taker.all_offsets() == [0, 1, 3]


async def test_attempts_outlive_the_process_and_what_was_queued_for_retry_is_simply_delivered_again() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with filled_sink(store, clock, records=3, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2, delay_s=600.0)
        await taker.ack(0, 1)
        found_again = store.crash()
    async with running(found_again, clock) as broker:
        taker = Taker(broker.sink("orders").subscription(""))

        event = await taker.take()

        assert isinstance(event, Delivered)
        assert [offset for offset, _ in delivered_values(event)] == [1, 2]
        assert (event.attempts, event.resend) == (((1, 1),), True)
