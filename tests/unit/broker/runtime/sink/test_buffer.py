from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import RecordTooLarge, SinkFull, SubscriptionNotFound, TooManyWaiting
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.taker import Taker
from tests.support.models.usage import usage
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
TEN = len(page(b"x" * 10).body)
"""Bytes of a page with one record of ten bytes."""


def bases(buffer: Buffer, partition: int = 0) -> list[int]:
    return [entry.base for entry in buffer.logs[partition].first_entries()]


async def test_appends_of_a_partition_follow_each_other_of_every_source() -> None:
    async with sink() as buffer:
        appends = await asyncio.gather(*(buffer.append(page(b"a", b"b")) for _ in range(20)))
        await asyncio.gather(*(append.done for append in appends))

        assert sorted(append.first for append in appends) == list(range(0, 40, 2))
        assert buffer.logs[0].tail.next_offset == 40


async def test_a_record_is_accepted_when_the_clock_says_but_never_before_the_last_one() -> None:
    clock = FakeClock()
    async with sink(clock=clock, buffer_page_size=1) as buffer:
        await fill(buffer, 1)
        clock.wall -= 5_000_000
        await fill(buffer, 1)

        first, second = buffer.logs[0].first_entries()
        assert second.accepted_at_us == first.accepted_at_us


async def test_with_reject_the_bound_in_records_is_exact_and_what_is_queued_counts() -> None:
    store = HeldStore()
    async with sink(store, max_disk_cache=5) as buffer:
        store.hold()
        queued = [await buffer.append(page(b"a", b"b")) for _ in range(2)]

        with pytest.raises(SinkFull) as refused:
            await buffer.append(page(b"a", b"b"))

        assert refused.value.facts == {"sink": "orders", "limit": "max_disk_cache", "bound": "5", "used": "4"}
        last = await buffer.append(page(b"a"))
        store.let_go()
        await asyncio.gather(*(append.done for append in [*queued, last]))
        assert usage(buffer.logs)[0] == 5


async def test_with_reject_the_bound_in_bytes_is_exact() -> None:
    async with sink(max_total_bytes=1024) as buffer:
        await fill(buffer, 1024 // TEN)
        left = 1024 - (1024 // TEN) * TEN

        with pytest.raises(SinkFull) as refused:
            await fill(buffer, 1)

        assert refused.value.facts["limit"] == "max_total_bytes"
        assert usage(buffer.logs) == (1024 // TEN, 1024 - left)


async def test_an_append_that_never_fits_is_refused_for_good() -> None:
    async with sink(max_total_bytes=1024) as buffer:
        with pytest.raises(RecordTooLarge):
            await buffer.append(page(b"x" * 1024))


async def test_several_pages_of_one_call_are_taken_all_or_none() -> None:
    async with sink(max_disk_cache=3) as buffer:
        with pytest.raises(RecordTooLarge):
            await buffer.append_all([page(b"a", b"b"), page(b"a", b"b")])

        assert buffer.logs[0].next_offset == 0
        appends = await buffer.append_all([page(b"a"), page(b"b", b"c")])
        await asyncio.gather(*(append.done for append in appends))
        assert [append.first for append in appends] == [0, 1]


async def test_acked_records_make_room() -> None:
    async with sink(max_disk_cache=2, buffer_page_size=1) as buffer:
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        await taker.ack(0, 1)
        await trimmed_to(buffer, 1)

        await fill(buffer, 1)
        with pytest.raises(SinkFull):
            await fill(buffer, 1)


async def trimmed_to(buffer: Buffer, offset: int) -> None:
    """Wait until nothing below ``offset`` is stored."""
    async with asyncio.timeout(10):
        while buffer.logs[0].head.earliest < offset:
            await asyncio.sleep(0)


async def test_a_page_stays_until_every_record_of_it_is_settled() -> None:
    async with sink() as buffer:
        append = await buffer.append(page(b"a", b"b", b"c"))
        await append.done
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        await taker.ack(0, 1)
        await taker.ack(2, 3)
        await asyncio.sleep(0)
        kept = bases(buffer)
        await taker.ack(1, 2)
        await trimmed_to(buffer, 3)

        assert kept == [0]
        assert bases(buffer) == []


async def test_settled_pages_after_one_that_is_dropped_go_with_it() -> None:
    async with sink() as buffer:
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await taker.ack(1, 2)
        first, *_ = buffer.logs[0].first_entries()

        buffer.removal.drop(0, [first], DropReason.CORRUPT)
        await trimmed_to(buffer, 2)

        assert bases(buffer) == [2]


async def test_the_brokers_bound_on_waiting_bytes_holds_for_every_sink() -> None:
    store = HeldStore()
    async with sink(store, bounds=Bounds(waiting_bytes=100)) as buffer:
        store.hold()
        queued = await buffer.append(page(b"x" * 80))

        with pytest.raises(TooManyWaiting):
            await buffer.append(page(b"x" * 80))
        store.let_go()
        await queued.done


async def test_a_subscription_has_a_name_and_none_means_default() -> None:
    async with sink() as buffer:
        assert buffer.subscription("") is buffer.subscription("default")
        with pytest.raises(SubscriptionNotFound):
            buffer.subscription("second")


async def test_pending_is_what_the_slowest_subscription_has_not_settled() -> None:
    async with sink() as buffer:
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await taker.subscription.ack(0, taker.answer(), [Range(0, 2)])

        assert buffer.state.pending == 1
