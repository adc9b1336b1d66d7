from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.broker.core.errors import InvalidRange, OffsetAhead, OffsetTrimmed, SinkNotFound
from holdfast.broker.core.pages import PAGE_BYTES_MAX, DropReason, Gap
from holdfast.broker.core.settings import Overflow, SinkSettings
from holdfast.broker.runtime.broker import Bounds, Broker
from holdfast.broker.runtime.buffer import Buffer
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.runtime.replay import PAGES_MAX, Batch, Replay
from holdfast.broker.storage import keys
from holdfast.broker.storage.contract import Family
from holdfast.broker.storage.memory import MemoryStore
from tests.unit.broker.running import running
from tests.unit.broker.runtime.taker import Taker
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio


class Reading:
    """A sink that joins no pages, and short words for reading it again."""

    def __init__(self, broker: Broker, buffer: Buffer) -> None:
        self.broker = broker
        self.buffer = buffer

    async def fill(self, pages: int, *, records: int = 1, size: int = 10) -> None:
        for _ in range(pages):
            append = await self.buffer.append(page(*[b"x" * size] * records))
            await append.done

    def replay(self) -> Replay:
        return Replay(self.buffer, 0, self.broker.services.pages)

    async def start(self, *, offset: int | None = None, time_us: int | None = None) -> int:
        return await self.replay().start_at(offset=offset, time_us=time_us)

    async def steps(self, start: int = 0, end: int | None = None) -> list[Batch | Gap]:
        return [step async for step in self.replay().read(start, end, follow=False)]

    async def met(self, start: int = 0, end: int | None = None) -> list[str]:
        """Base offsets of the pages, and gaps, in order."""
        met: list[str] = []
        for step in await self.steps(start, end):
            if isinstance(step, Gap):
                met.append(f"{step.reason.name} {step.first}-{step.end - 1}")
            else:
                met += [str(entry.base) for entry, _ in step.pages]
        return met


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, clock: FakeClock | None = None, bounds: Bounds | None = None, **settings: Any
) -> AsyncIterator[Reading]:
    async with running(store, clock, bounds=bounds) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**{"buffer_page_size": 1, **settings}))
        yield Reading(broker, buffer)


# -- where it starts


async def test_without_a_start_it_begins_at_the_earliest_record() -> None:
    async with sink() as at:
        empty = await at.start()
        await at.fill(3)

        assert (empty, await at.start()) == (0, 0)


async def test_an_offset_beyond_the_end_is_told_with_where_the_end_is() -> None:
    async with sink() as at:
        await at.fill(3)

        assert await at.start(offset=3) == 3
        with pytest.raises(OffsetAhead) as refused:
            await at.start(offset=4)

        assert refused.value.facts == {"requested": "4", "earliest": "0", "next": "3"}


async def test_an_offset_that_was_trimmed_is_told_with_what_is_left() -> None:
    async with sink() as at:
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
    async with sink(clock=clock) as at:
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
    async with sink(clock=clock, buffer_page_size=100) as at:
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
    async with sink(clock=clock) as at:
        began = clock.wall
        appends = []
        for _ in range(1_500):
            appends.append(await at.buffer.append(page(b"x")))
            clock.advance(1.0)
        await asyncio.gather(*(append.done for append in appends))

        assert await at.start(time_us=began + 333_000_000) == 333


# -- what it reads


async def test_it_reads_whole_pages_up_to_the_end() -> None:
    async with sink() as at:
        await at.fill(5, records=4)

        assert await at.met() == ["0", "4", "8", "12", "16"]
        assert await at.met(5, 13) == ["4", "8", "12"]
        assert await at.met(5, 12) == ["4", "8"]
        assert await at.met(20) == []
        assert await at.met(6, 6) == []


async def test_an_end_below_the_start_is_refused() -> None:
    async with sink() as at:
        with pytest.raises(InvalidRange):
            await at.steps(5, 4)


async def test_a_step_is_bounded_in_bytes_and_pages() -> None:
    async with sink() as at:
        await at.fill(5, size=400 << 10)
        appends = [await at.buffer.append(page(b"x")) for _ in range(PAGES_MAX + 1)]
        await asyncio.gather(*(append.done for append in appends))

        batches = [step for step in await at.steps() if isinstance(step, Batch)]

        assert all(sum(entry.size for entry, _ in batch.pages) <= PAGE_BYTES_MAX for batch in batches)
        assert max(len(batch.pages) for batch in batches) == PAGES_MAX
        assert sum(len(batch.pages) for batch in batches) == 5 + PAGES_MAX + 1


async def test_a_partition_much_longer_than_what_is_in_memory_is_read_in_order() -> None:
    async with sink(bounds=Bounds(tail_bytes=0)) as at:
        appends = [await at.buffer.append(page(b"x")) for _ in range(1_500)]
        await asyncio.gather(*(append.done for append in appends))

        assert await at.met() == [str(offset) for offset in range(1_500)]


async def test_a_record_of_the_largest_size_is_read_as_it_is() -> None:
    async with sink(bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(1, size=8 << 20)

        [step] = await at.steps()

        assert isinstance(step, Batch)
        assert step.pages[0][1].data == page(b"x" * (8 << 20)).body


async def test_gaps_stand_in_their_places_cut_to_where_it_starts() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=8) as at:
        await at.fill(2, records=4)
        taker = Taker(at.buffer.subscription(""))
        await taker.take()
        await at.fill(2, records=4)

        assert await at.met() == ["0", "4", "OVERFLOW 8-11", "12"]
        assert await at.met(9) == ["OVERFLOW 9-11", "12"]
        assert await at.met(9, 10) == ["OVERFLOW 9-11"]
        assert await at.start(offset=9) == 9


async def test_a_damaged_page_becomes_a_gap_between_the_others() -> None:
    store = MemoryStore()
    async with sink(store, bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(4)
        pages = store.scan(Family.SMALL, *keys.of_sink(at.buffer.record.id), 10)
        store.damage(Family.SMALL, pages[2][0])

        assert await at.met() == ["0", "1", "CORRUPT 2-2", "3"]
        assert at.buffer.logs[0].head.dropped == ((DropReason.CORRUPT, 1),)


async def test_reading_again_settles_nothing() -> None:
    async with sink() as at:
        await at.fill(3)

        await at.met()

        assert at.buffer.pending == 3
        assert await Taker(at.buffer.subscription("")).all_offsets() == [0, 1, 2]


# -- following


async def test_a_follower_waits_at_the_end_for_what_comes() -> None:
    async with sink() as at:
        await at.fill(1)
        steps = at.replay().read(0, 3, follow=True)
        first = await anext(steps)
        waiting = asyncio.ensure_future(anext(steps))
        await asyncio.sleep(0)
        await at.fill(2)
        async with asyncio.timeout(10):
            second, third = await waiting, [step async for step in steps]

        bases = [entry.base for step in (first, second, *third) if isinstance(step, Batch) for entry, _ in step.pages]
        assert bases == [0, 1, 2]


async def test_a_follower_of_a_sink_that_is_deleted_hears_of_it() -> None:
    async with sink() as at:
        steps = at.replay().read(0, None, follow=True)
        waiting = asyncio.ensure_future(anext(steps))
        await asyncio.sleep(0)

        await at.broker.delete("orders", force=True)

        with pytest.raises(SinkNotFound):
            await waiting


async def test_a_reader_that_is_overtaken_by_trimming_is_told() -> None:
    async with sink() as at:
        await at.fill(600)
        steps = at.replay().read(0, None, follow=False)
        await anext(steps)
        taker = Taker(at.buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 500)
        async with asyncio.timeout(10):
            while at.buffer.logs[0].head.earliest < 500:
                await asyncio.sleep(0)

        with pytest.raises(OffsetTrimmed):
            await anext(steps)
