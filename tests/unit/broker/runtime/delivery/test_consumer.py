from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from forebay.broker.core.delivery.lane import Answer
from forebay.broker.core.delivery.message_builder import MESSAGE_BYTES, MESSAGE_PAGES
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.consumer import Credit
from forebay.broker.runtime.delivery.events import Delivered, Event, GapMet
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.running import PLENTY, delivered_values, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class FailingOnce(MemoryStore):
    """A store whose next reads of small pages fail."""

    failures_left = 0

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        if family is Family.SMALL and self.failures_left:
            self.failures_left -= 1
            raise StoreUnreadable("Input/output error", family=family)
        return super().get_many(family, keys)


def join(buffer: Buffer, *, records: int = PLENTY.records, size: int = PLENTY.size) -> Taker:
    return Taker(buffer.subscription(""), "a", Credit(records, size))


# -- what goes into a delivery


async def test_small_pages_travel_together() -> None:
    async with sink() as buffer:
        await fill(buffer, 20)
        taker = join(buffer)

        event = await taker.take()

        assert isinstance(event, Delivered)
        assert len(event.pages) == 20


async def test_a_delivery_is_no_larger_than_a_message_may_be() -> None:
    async with sink() as buffer:
        await fill(buffer, 15, size=400 << 10)
        taker = join(buffer)

        events = await taker.take_all()

        sizes = [sum(len(body.data) for _, body in event.pages) for event in events if isinstance(event, Delivered)]
        assert len(sizes) == 3
        assert max(sizes) <= MESSAGE_BYTES


async def test_a_delivery_has_no_more_pages_than_the_bound() -> None:
    async with sink() as buffer:
        appends = [await buffer.append(page(b"x")) for _ in range(MESSAGE_PAGES + 5)]
        await asyncio.gather(*(append.done for append in appends))
        taker = join(buffer)

        first, second = await taker.take_all()

        assert isinstance(first, Delivered)
        assert isinstance(second, Delivered)
        assert (len(first.pages), len(second.pages)) == (MESSAGE_PAGES, 5)


async def test_settled_records_are_left_out_of_a_redelivery() -> None:
    async with sink() as buffer:
        await fill(buffer, 3, records=4)
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(2, 6)
        await taker.ack(8, 12)
        buffer.subscription("").leave(taker.consumer)
        taker = join(buffer)

        event = await taker.take()

        assert isinstance(event, Delivered)
        assert [offset for offset, _ in delivered_values(event)] == [0, 1, 6, 7]
        assert [entry.base for entry, _ in event.pages] == [0, 4]
        assert event.attempts == ((0, 1),)
        assert event.resend


async def test_a_gap_is_reported_in_its_place_and_ends_a_delivery() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=3) as buffer:
        await fill(buffer, 3)
        taker = join(buffer)
        first = await taker.one()
        await fill(buffer, 3)

        events = await taker.take_all()

        assert first == [0]
        assert [type(event) for event in events] == [GapMet, GapMet, GapMet, Delivered]
        assert taker.told_gaps() == [(1, 2), (2, 3), (3, 4)]
        assert isinstance(events[-1], Delivered)
        assert [offset for offset, _ in delivered_values(events[-1])] == [4, 5]


async def test_a_damaged_page_is_quarantined_and_reported_as_a_gap() -> None:
    store = MemoryStore()
    async with sink(store, bounds=Bounds(tail_bytes=0)) as buffer:
        await fill(buffer, 3)
        pages = store.scan(Family.SMALL, *SMALL_PAGE.under(buffer.record.id), 10)
        store.damage(Family.SMALL, pages[1][0])
        taker = join(buffer)

        found = [*await taker.all_offsets(), *await taker.all_offsets()]

        assert found == [0, 2]
        assert taker.told_gaps() == [(1, 2)]
        await buffer.subscription("").accounts.save(0)
        assert len(store.scan(Family.SMALL, *SMALL_PAGE.under(buffer.record.id), 10)) == 3
        assert len(store.scan(Family.META, *QUARANTINE.under(), 10)) == 1


# -- reads that fail


async def test_a_page_whose_read_fails_is_neither_dropped_nor_passed_over_and_comes_when_reads_work_again() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with sink(store, clock, bounds=Bounds(tail_bytes=0)) as buffer:
        await fill(buffer, 3)
        pages = store.scan(Family.SMALL, *SMALL_PAGE.under(buffer.record.id), 10)
        store.fail_reads(Family.SMALL, pages[1][0])
        taker = join(buffer)

        before = await taker.all_offsets()
        held = buffer.read_hold(0)
        clock.advance(10)
        still = await taker.all_offsets()
        waiting = await taker.all_offsets()
        store.let_read()
        clock.advance(10)
        after = await taker.all_offsets()

        assert (before, still, waiting, after) == ([0], [], [], [1, 2])
        assert held is not None
        assert "I/O error" in held.reason
        assert buffer.read_hold(0) is None
        assert taker.told_gaps() == []
        assert buffer.logs[0].head.dropped == ()
        assert store.scan(Family.META, *QUARANTINE.under(), 10) == []


async def test_a_consumer_continues_as_soon_as_another_consumer_could_read() -> None:
    store = MemoryStore()
    async with running(store, FakeClock(), bounds=Bounds(tail_bytes=0)) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 2)
        store.fail_reads(Family.SMALL)
        taker = join(buffer)
        await taker.all_offsets()
        taker.consumer.wakeup.clear()

        store.let_read()
        await broker.pages.probe()

        assert taker.consumer.wakeup.is_set()
        assert await taker.all_offsets() == [0, 1]


async def test_a_read_that_fails_once_is_tried_again_at_once() -> None:
    store = FailingOnce()
    async with sink(store, bounds=Bounds(tail_bytes=0)) as buffer:
        await fill(buffer, 3)
        store.failures_left = 2

        assert await join(buffer).all_offsets() == [0, 1, 2]
        assert store.failures_left == 0
        assert buffer.read_hold(0) is None


async def test_a_page_in_memory_goes_out_to_one_subscription_while_another_waits_for_the_disk() -> None:
    store = MemoryStore()
    async with sink(store, bounds=Bounds(tail_bytes=1_500)) as buffer:
        await buffer.subscribing.create("second", EARLIEST, or_earliest=False)
        await fill(buffer, 1, size=1_000)
        current = Taker(buffer.subscription("second"), "b")
        first = await current.all_offsets()
        await fill(buffer, 1, size=1_000)
        store.fail_reads(Family.SMALL)

        behind = await join(buffer).all_offsets()
        second = await current.all_offsets()

        assert (behind, first, second) == ([], [0], [1])


async def test_an_index_that_cannot_be_read_is_neither_repaired_nor_rewritten() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with sink(store, clock, bounds=Bounds(tail_bytes=0)) as buffer:
        await fill(buffer, 3)
    store = store.reopen()
    async with running(store, clock, bounds=Bounds(tail_bytes=0)) as broker:
        buffer = broker.sink("orders")
        store.fail_reads(Family.INDEX)
        taker = join(buffer)

        before = await taker.all_offsets()
        held = buffer.read_hold(0)
        store.let_read()
        clock.advance(10)

        assert before == []
        assert held is not None
        assert held.index
        assert await taker.all_offsets() == [0, 1, 2]
        assert broker.pages.rewritten == 0
        assert taker.told_gaps() == []


# -- where the bytes come from


def mode_of(subscription: Subscription) -> tuple[bool, int]:
    mode = subscription.source.mode_of(0)
    assert mode is not None
    return mode.realtime, mode.switches


async def test_switching_between_memory_and_store_is_counted() -> None:
    async with sink(bounds=Bounds(tail_bytes=2_500)) as buffer:
        await fill(buffer, 4, size=1_000)
        taker = join(buffer)
        subscription = buffer.subscription("")

        await taker.one()
        behind = mode_of(subscription)
        for _ in range(3):
            await taker.one()
        level = mode_of(subscription)
        await fill(buffer, 4, size=1_000)
        await taker.one()
        behind_again = mode_of(subscription)

        assert (behind, level, behind_again) == ((False, 0), (True, 1), (False, 2))


async def test_a_sink_that_is_not_realtime_is_read_from_the_store() -> None:
    async with sink(realtime=False) as buffer:
        await fill(buffer, 1)
        taker = join(buffer)

        await taker.one()

        assert mode_of(buffer.subscription("")) == (False, 0)


async def test_records_revoked_while_they_are_read_are_not_sent() -> None:
    store = HeldStore()
    short: dict[str, Any] = {"retry_backoff_min_us": 1_000, "retry_backoff_max_us": 1_000}
    async with sink(store, bounds=Bounds(tail_bytes=0), **short) as buffer:
        await fill(buffer, 4)
        taker = join(buffer)
        await taker.one()
        store.reads.close()
        taking = asyncio.ensure_future(taker.take())
        await store.reads.reached()

        await taker.nack(0, 1, delay_s=0.0)
        store.reads.open()

        assert await taking is None
        assert await taker.one() == [0]


@pytest.mark.parametrize("records", [4, 8])
async def test_of_what_was_dropped_while_it_was_read_the_gap_is_reported_before_what_is_after_it(records: int) -> None:
    store = HeldStore()
    async with sink(
        store, bounds=Bounds(tail_bytes=0), overflow=Overflow.DROP_OLDEST, max_disk_cache=records
    ) as buffer:
        await fill(buffer, 4, records=records // 4)
        taker = join(buffer)
        store.reads.close()
        taking = asyncio.ensure_future(taker.take())
        await store.reads.reached()

        await fill(buffer, 1, records=records // 4)
        store.reads.open()

        assert await taking is None
        gap, delivered = await taker.take(), await taker.take()
        assert isinstance(gap, GapMet)
        assert (gap.gap.first, gap.gap.end) == (0, records // 4)
        assert isinstance(delivered, Delivered)
        assert delivered_values(delivered)[0][0] == records // 4


async def test_credit_for_one_page_comes_to_all_partitions_in_turn() -> None:
    async with sink(partitions=2) as buffer:
        for _ in range(4):
            for partition in range(2):
                await (await buffer.append(page(b"x", partition=partition))).done
        subscription = buffer.subscription("")
        found: list[int] = []
        events: list[Event] = []
        consumer = subscription.join("c", Credit(1, 1 << 20), events.append)
        pumping = asyncio.ensure_future(consumer.pump())
        async with asyncio.timeout(5):
            while len(found) < 4:
                await asyncio.sleep(0)
                for event in [each for each in events if isinstance(each, Delivered)]:
                    events.remove(event)
                    found.append(event.partition)
                    lane = subscription.lanes[event.partition]
                    answer = Answer(lane.owner_epoch, lane.revision)
                    await subscription.ack(event.partition, answer, list(event.ranges))
        pumping.cancel()
        await asyncio.wait([pumping])

        assert found == [0, 1, 0, 1]
