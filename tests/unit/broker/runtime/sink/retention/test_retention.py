from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay.broker.core.errors import SinkFull
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.replay import Batch
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.partitions.marks import MARKS
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
TEN = len(page(b"x" * 10).body)
"""Bytes of a page with one record of ten bytes."""
STEP_S = 10.0


def bases(buffer: Buffer, partition: int = 0) -> list[int]:
    return [entry.base for entry in buffer.logs[partition].first_entries()]


async def settle(buffer: Buffer, subscription: str = "") -> None:
    """Take and ack everything there is."""
    taker = Taker(buffer.subscription(subscription))
    for log in buffer.logs:
        offsets = await taker.all_offsets(log.number)
        if offsets:
            await taker.ack(offsets[0], offsets[-1] + 1, log.number)
    buffer.subscription(subscription).leave(taker.consumer)


async def stored(buffer: Buffer, pages: int) -> None:
    """Return when so many pages are left."""
    async with asyncio.timeout(STEP_S):
        while sum(log.pages for log in buffer.logs) != pages:
            await asyncio.sleep(0)


async def let_trim() -> None:
    """Let everything that is ready run: what the trim would do, it does meanwhile."""
    for _ in range(200):
        await asyncio.sleep(0)


class SmallDevice(MemoryStore):
    """A memory store that says how much its device has left."""

    free = 1 << 30

    def free_bytes(self) -> int:
        """As a test sets it."""
        return self.free


async def replayed(broker: Broker) -> list[int]:
    """Offsets that a replay from the start reads."""
    replay = broker.sink("orders").replay(0)
    start = await replay.start_at(offset=None, time_us=None)
    found = [step async for step in replay.read(start, None, follow=False)]
    return [entry.base for step in found if isinstance(step, Batch) for entry, _ in step.pages]


async def test_without_retention_what_is_settled_goes_at_once() -> None:
    async with sink() as buffer:
        await fill(buffer, 3)

        await settle(buffer)

        await stored(buffer, 0)


async def test_acked_pages_stay_for_replay_until_the_time_has_passed() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, retain_acked_time_us=60_000_000)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        await settle(buffer)
        buffer.sweep()
        clock.advance(59.0)
        buffer.sweep()
        await let_trim()
        kept = await replayed(broker)

        clock.advance(1.0)
        buffer.sweep()

        await stored(buffer, 0)
        assert kept == [0, 1, 2]


async def test_the_time_is_counted_from_the_ack_not_from_the_append() -> None:
    clock = FakeClock()
    async with sink(clock=clock, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 2)
        clock.advance(3_600.0)
        await settle(buffer)
        buffer.sweep()
        await let_trim()

        assert bases(buffer) == [0, 1]


async def test_a_jump_of_the_wall_clock_lets_nothing_go() -> None:
    """For what is retained: the wall clock jumps from 1970 to today."""
    clock = FakeClock(wall=0)
    async with sink(clock=clock, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 2)
        await settle(buffer)
        buffer.sweep()

        clock.wall = 1_800_000_000_000_000
        buffer.sweep()
        await let_trim()

        assert bases(buffer) == [0, 1]


async def test_the_newest_acked_bytes_stay_over_all_partitions() -> None:
    clock = FakeClock()
    async with sink(clock=clock, partitions=2, retain_acked_bytes=3 * TEN) as buffer:
        for partition in (1, 0, 1, 0, 0):
            await fill(buffer, 1, partition=partition)
            clock.advance(1.0)

        await settle(buffer)
        buffer.sweep()
        await stored(buffer, 3)

        assert (bases(buffer, 0), bases(buffer, 1)) == ([1, 2], [1])


async def test_a_long_backlog_that_was_settled_goes_down_to_its_bytes_in_one_sweep() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with sink(store, clock, retain_acked_bytes=5 * TEN) as buffer:
        await fill(buffer, 700)
        await settle(buffer)

    broker = begin(store.reopen(), clock)
    buffer = broker.sink("orders")
    buffer.sweep()
    await stored(buffer, 5)
    await broker.close()

    assert bases(buffer) == list(range(695, 700))


async def test_bytes_that_a_subscription_still_needs_do_not_count_as_retained() -> None:
    async with sink(retain_acked_bytes=2 * TEN) as buffer:
        await fill(buffer, 6)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 4)

        buffer.sweep()
        await stored(buffer, 4)

        assert bases(buffer) == [2, 3, 4, 5]


async def test_with_both_a_page_goes_when_either_lets_it_go() -> None:
    clock = FakeClock()
    async with sink(clock=clock, retain_acked_bytes=2 * TEN, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 4)
        await settle(buffer)
        buffer.sweep()
        await stored(buffer, 2)

        clock.advance(60.0)
        buffer.sweep()

        await stored(buffer, 0)


async def test_a_seek_back_reaches_what_is_retained_and_keeps_it() -> None:
    clock = FakeClock()
    async with sink(clock=clock, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 4)
        await settle(buffer)
        buffer.sweep()

        await buffer.subscribing.seek("", Position(At.OFFSET, 1), partition=None, or_earliest=False)
        clock.advance(120.0)
        buffer.sweep()
        await stored(buffer, 3)
        again = await Taker(buffer.subscription("")).all_offsets()

        assert again == [1, 2, 3]
        assert buffer.subscription("").lanes[0].cursor.balances(4)


async def test_a_new_subscription_gets_what_is_retained() -> None:
    async with sink(retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 3)
        await settle(buffer)
        buffer.sweep()

        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)

        assert await Taker(buffer.subscription("audit")).all_offsets() == [0, 1, 2]


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("limit", [{"max_disk_cache": 4}, {"max_total_bytes": 60 * TEN, "max_disk_cache": 4}])
async def test_retained_pages_yield_before_anything_is_refused_or_dropped(
    overflow: Overflow, limit: dict[str, Any]
) -> None:
    async with sink(overflow=overflow, retain_acked_time_us=60_000_000, **limit) as buffer:
        await fill(buffer, 4)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)

        await fill(buffer, 2)

        cursor = buffer.subscription("").lanes[0].cursor
        assert bases(buffer) == [2, 3, 4, 5]
        assert (buffer.logs[0].head.dropped, buffer.logs[0].gaps) == ((), ())
        assert (cursor.acked, cursor.dropped, cursor.balances(6)) == (2, 0, True)


async def test_the_limit_holds_when_no_retained_page_is_left() -> None:
    async with sink(max_disk_cache=2, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 2)
        await settle(buffer)
        await fill(buffer, 2)

        with pytest.raises(SinkFull):
            await buffer.append(page(b"x"))

        assert bases(buffer) == [2, 3]


async def test_an_append_that_never_fits_removes_no_retained_page() -> None:
    async with sink(max_disk_cache=2, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 2)
        await settle(buffer)

        with pytest.raises(Exception, match="over the bound"):
            await buffer.append(page(b"x", b"x", b"x"))

        assert bases(buffer) == [0, 1]


async def test_retained_pages_yield_when_the_device_is_full() -> None:
    store = SmallDevice()
    async with running(store, bounds=Bounds(disk_reserve=1 << 20)) as broker:
        settings = SinkSettings(buffer_page_size=1, retain_acked_time_us=60_000_000)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        await settle(buffer)
        buffer.sweep()
        await let_trim()
        kept = bases(buffer)
        store.free = 1 << 19
        broker.committer.check_disk()

        buffer.sweep()

        await stored(buffer, 0)
        assert kept == [0, 1, 2]


async def test_the_time_continues_over_a_restart() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with sink(store, clock, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 3)
        await settle(buffer)
        buffer.sweep()
    clock.advance(30.0)

    broker = begin(store.reopen(), clock)
    buffer = broker.sink("orders")
    buffer.sweep()
    await let_trim()
    kept = await replayed(broker)
    clock.advance(30.0)
    buffer.sweep()
    await stored(buffer, 0)
    await broker.close()

    assert kept == [0, 1, 2]


async def test_ending_the_retention_lets_everything_settled_go() -> None:
    store = MemoryStore()
    async with sink(store, retain_acked_time_us=60_000_000) as buffer:
        await fill(buffer, 3)
        await settle(buffer)
        buffer.sweep()
        await let_trim()

        await buffer.change(buffer.settings.changed({"retain_acked_time_us": 0}))
        buffer.sweep()

        await stored(buffer, 0)
    again = store.reopen()
    assert [key for key, _ in again.scan(Family.META, *MARKS.under(), 9)] == []
