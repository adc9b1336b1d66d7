from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import OffsetAhead, OffsetTrimmed
from forebay.broker.runtime.clock import FakeClock
from tests.support.brokers.replayed_sink import replayed_sink
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


async def test_without_a_start_it_begins_at_the_earliest_record() -> None:
    async with replayed_sink() as at:
        empty = await at.start()
        await at.fill(3)

        assert (empty, await at.start()) == (0, 0)


async def test_an_offset_beyond_the_end_is_reported_with_where_the_end_is() -> None:
    async with replayed_sink() as at:
        await at.fill(3)

        assert await at.start(offset=3) == 3
        with pytest.raises(OffsetAhead) as refused:
            await at.start(offset=4)

        assert refused.value.facts == {"requested": "4", "earliest": "0", "next": "3"}


async def test_an_offset_that_was_trimmed_is_reported_with_what_is_left() -> None:
    async with replayed_sink() as at:
        await at.fill(4)
        taker = Taker(at.buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)
        async with asyncio.timeout(10):
            while at.buffer.logs[0].head.earliest < 2:
                await asyncio.sleep(0)

        assert await at.start(offset=2) == 2
        with pytest.raises(OffsetTrimmed) as refused:
            await at.start(offset=1)

        assert refused.value.facts == {"requested": "1", "earliest": "2", "next": "4"}


async def test_a_time_finds_the_first_record_accepted_since() -> None:
    clock = FakeClock()
    async with replayed_sink(clock=clock) as at:
        began = clock.wall
        for _ in range(20):
            await at.fill(1)
            clock.advance(1.0)

        found = [await at.start(time_us=began + seconds * 1_000_000 - 1) for seconds in range(20)]
        exact = await at.start(time_us=began + 7_000_000)
        after = await at.start(time_us=began + 100_000_000)

        assert (found, exact, after) == (list(range(20)), 7, 20)


async def test_a_time_finds_its_place_inside_a_joined_page() -> None:
    clock = FakeClock()
    async with replayed_sink(clock=clock, buffer_page_size=100) as at:
        began = clock.wall
        appends = []
        for _ in range(4):
            appends.append(await at.buffer.append(page(b"a", b"b")))
            clock.advance(1.0)
        await asyncio.gather(*(append.done for append in appends))

        assert len(at.buffer.logs[0].recent) == 1
        assert await at.start(time_us=began + 1_500_000) == 4


async def test_a_time_is_found_far_behind_what_is_in_memory() -> None:
    clock = FakeClock()
    async with replayed_sink(clock=clock) as at:
        began = clock.wall
        appends = []
        for _ in range(1_500):
            appends.append(await at.buffer.append(page(b"x")))
            clock.advance(1.0)
        await asyncio.gather(*(append.done for append in appends))

        assert await at.start(time_us=began + 333_000_000) == 333
