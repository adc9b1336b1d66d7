from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.delivery.message_builder import MESSAGE_BYTES, MESSAGE_PAGES
from forebay.broker.core.errors import OffsetTrimmed, ReadFailed, SinkNotFound
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.settings import Overflow
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.read.replay import Batch
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.replayed_sink import replayed_sink
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


# -- what it reads


async def test_it_reads_whole_pages_up_to_the_end() -> None:
    async with replayed_sink() as at:
        await at.fill(5, records=4)

        assert await at.met() == ["0", "4", "8", "12", "16"]
        assert await at.met(5, 13) == ["4", "8", "12"]
        assert await at.met(5, 12) == ["4", "8"]
        assert await at.met(20) == []
        assert await at.met(6, 6) == []


async def test_an_end_below_the_start_is_refused() -> None:
    async with replayed_sink() as at:
        with refusal(Reason.INVALID_RANGE):
            await at.steps(5, 4)


async def test_a_step_is_bounded_in_bytes_and_pages() -> None:
    async with replayed_sink() as at:
        await at.fill(15, size=400 << 10)
        appends = [await at.buffer.append(page(b"x")) for _ in range(MESSAGE_PAGES + 1)]
        await asyncio.gather(*(append.done for append in appends))

        batches = [step for step in await at.steps() if isinstance(step, Batch)]

        assert all(sum(entry.size for entry, _ in batch.pages) <= MESSAGE_BYTES for batch in batches)
        assert max(len(batch.pages) for batch in batches) == MESSAGE_PAGES
        assert sum(len(batch.pages) for batch in batches) == 15 + MESSAGE_PAGES + 1


async def test_a_partition_much_longer_than_what_is_in_memory_is_read_in_order() -> None:
    async with replayed_sink(bounds=Bounds(tail_bytes=0)) as at:
        appends = [await at.buffer.append(page(b"x")) for _ in range(1_500)]
        await asyncio.gather(*(append.done for append in appends))

        assert await at.met() == [str(offset) for offset in range(1_500)]


async def test_a_record_of_the_largest_size_is_read_as_it_is() -> None:
    async with replayed_sink(bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(1, size=8 << 20)

        [step] = await at.steps()

        assert isinstance(step, Batch)
        assert step.pages[0][1].data == page(b"x" * (8 << 20)).body


async def test_gaps_are_in_their_places_cut_to_where_it_starts() -> None:
    async with replayed_sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=8) as at:
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
    async with replayed_sink(store, bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(4)
        pages = store.scan(Family.SMALL, *SMALL_PAGE.under(at.buffer.record.id), 10)
        store.damage(Family.SMALL, pages[2][0])

        assert await at.met() == ["0", "1", "CORRUPT 2-2", "3"]
        assert at.buffer.logs[0].head.dropped == ((DropReason.CORRUPT, 1),)


async def test_a_read_that_fails_ends_a_reading_after_what_could_be_read_and_drops_nothing() -> None:
    store = MemoryStore()
    async with replayed_sink(store, bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(4)
        pages = store.scan(Family.SMALL, *SMALL_PAGE.under(at.buffer.record.id), 10)
        store.fail_reads(Family.SMALL, pages[2][0])

        reading = at.replay(ahead=True).read(0, None, follow=False)
        steps = [await anext(reading), await anext(reading)]
        with pytest.raises(ReadFailed):
            await anext(reading)
        store.let_read()

        assert [entry.base for step in steps if isinstance(step, Batch) for entry, _ in step.pages] == [0, 1]
        assert await at.met(2) == ["2", "3"]
        assert at.buffer.logs[0].head.dropped == ()


async def test_reading_again_settles_nothing() -> None:
    async with replayed_sink() as at:
        await at.fill(3)

        await at.met()

        assert at.buffer.state.pending == 3
        assert await Taker(at.buffer.subscription("")).all_offsets() == [0, 1, 2]


# -- following


@pytest.mark.parametrize("ahead", [False, True])
async def test_a_follower_waits_at_the_end_for_what_comes(ahead: bool) -> None:
    async with replayed_sink() as at:
        await at.fill(1)
        steps = at.replay(ahead=ahead).read(0, 3, follow=True)
        first = await anext(steps)
        waiting = asyncio.ensure_future(anext(steps))
        await asyncio.sleep(0)
        await at.fill(2)
        async with asyncio.timeout(10):
            second, third = await waiting, [step async for step in steps]

        bases = [entry.base for step in (first, second, *third) if isinstance(step, Batch) for entry, _ in step.pages]
        assert bases == [0, 1, 2]


async def test_a_follower_of_a_sink_that_is_deleted_hears_of_it() -> None:
    async with replayed_sink() as at:
        steps = at.replay().read(0, None, follow=True)
        waiting = asyncio.ensure_future(anext(steps))
        await asyncio.sleep(0)

        await at.broker.delete("orders", force=True)

        with pytest.raises(SinkNotFound):
            await waiting


async def test_a_reader_that_is_overtaken_by_trimming_is_reported() -> None:
    async with replayed_sink() as at:
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


async def test_a_record_trimmed_between_two_gaps_ends_the_replay_with_offset_trimmed() -> None:
    async with replayed_sink() as at:
        await at.fill(4)
        taker = Taker(at.buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(1, 2)
        entries = at.buffer.logs[0].first_entries()
        at.buffer.removal.drop(0, entries[2:3], DropReason.PURGED)
        at.buffer.removal.drop(0, entries[:1], DropReason.PURGED)
        async with asyncio.timeout(10):
            while at.buffer.logs[0].head.earliest < 3:
                await asyncio.sleep(0)
        steps = at.replay().read(0, None, follow=False)

        met = await anext(steps)

        assert isinstance(met, Gap)
        assert (met.first, met.end) == (0, 1)
        with pytest.raises(OffsetTrimmed):
            await anext(steps)
        assert await at.met(2) == ["PURGED 2-2", "3"]


# -- reading ahead


async def test_the_first_step_is_one_page_when_it_reads_ahead() -> None:
    async with replayed_sink() as at:
        await at.fill(5)

        steps = [step async for step in at.replay(ahead=True).read(1, None, follow=False)]

        assert [len(step.pages) for step in steps if isinstance(step, Batch)] == [1, 3]


async def test_the_next_step_is_read_while_one_is_made_use_of() -> None:
    store = HeldStore()
    async with replayed_sink(store, bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(3, size=2 << 20)
        steps = at.replay(ahead=True).read(0, None, follow=False)
        await anext(steps)
        store.reads.close()

        await store.reads.reached()  # no caller has asked for a second one yet

        store.reads.open()
        assert [entry.base async for step in steps if isinstance(step, Batch) for entry, _ in step.pages] == [1, 2]


async def test_a_reader_that_leaves_while_it_reads_ahead_leaves_nothing_behind() -> None:
    store = HeldStore()
    async with replayed_sink(store, bounds=Bounds(tail_bytes=0)) as at:
        await at.fill(2, size=2 << 20)
        steps = at.replay(ahead=True).read(0, None, follow=False)
        before = asyncio.all_tasks()
        await anext(steps)
        store.reads.close()
        await store.reads.reached()

        await steps.aclose()

        assert asyncio.all_tasks() <= before
        store.reads.open()


async def test_records_dropped_while_a_replay_reads_ahead_are_a_gap_after_the_page_already_read() -> None:
    async with replayed_sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=2) as at:
        await at.fill(2, size=2 << 20)
        steps = at.replay(ahead=True).read(0, None, follow=True)
        await anext(steps)
        await asyncio.sleep(0)
        await at.fill(3, size=2 << 20)

        met = [await anext(steps) for _ in range(3)]

        assert [step.first if isinstance(step, Gap) else step.pages[0][0].base for step in met] == [1, 2, 3]
