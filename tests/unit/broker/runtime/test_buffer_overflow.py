from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay.broker.core.errors import SinkFull, SinkNotFound
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.settings import Overflow
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.group import Append
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.pages.entry import ENTRY, decode_entry
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Delete, Family
from forebay.broker.storage.store.memory import MemoryStore
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


@pytest.mark.parametrize("limit", [{"max_disk_cache": 60}, {"max_total_bytes": 60 * TEN}])
async def test_with_drop_oldest_the_bound_is_exact_and_the_newest_stays(limit: dict[str, Any]) -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, buffer_page_size=1, **limit) as buffer:
        await fill(buffer, 63)

        assert usage(buffer.logs) == (60, 60 * TEN)
        assert bases(buffer) == list(range(3, 63))
        assert buffer.logs[0].head.dropped == ((DropReason.OVERFLOW, 3),)
        assert [(gap.first, gap.end, gap.reason) for gap in buffer.logs[0].gaps] == [
            (number, number + 1, DropReason.OVERFLOW) for number in range(3)
        ]
        cursor = buffer.subscription("").lanes[0].cursor
        assert (cursor.dropped, cursor.watermark, cursor.balances(63)) == (3, 3, True)


async def test_the_newest_page_is_kept_even_when_it_alone_is_over_the_bound() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=2, buffer_page_size=1) as buffer:
        await fill(buffer, 2)

        append = await buffer.append(page(*[b"x"] * 5))
        await append.done

        assert bases(buffer) == [2]


async def test_the_oldest_of_all_partitions_goes_first() -> None:
    clock = FakeClock()
    settings: dict[str, Any] = {
        "overflow": Overflow.DROP_OLDEST,
        "max_disk_cache": 4,
        "buffer_page_size": 1,
        "partitions": 2,
    }
    async with sink(clock=clock, **settings) as buffer:
        for partition in (1, 0, 1, 0):
            await fill(buffer, 1, partition=partition)
            clock.advance(1.0)

        await fill(buffer, 3, partition=0)

        assert (bases(buffer, 0), bases(buffer, 1)) == ([1, 2, 3, 4], [])


async def test_pages_in_flight_are_not_dropped() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=2, buffer_page_size=1) as buffer:
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))
        await taker.take_all()

        await fill(buffer, 3)

        assert bases(buffer) == [0, 1, 4]
        assert [(gap.first, gap.end) for gap in buffer.logs[0].gaps] == [(2, 3), (3, 4)]


async def test_pages_far_behind_the_tail_are_found_to_be_dropped() -> None:
    settings: dict[str, Any] = {"overflow": Overflow.DROP_OLDEST, "max_disk_cache": 900, "buffer_page_size": 1}
    async with sink(**settings) as buffer:
        appends = await asyncio.gather(*(buffer.append(page(b"x" * 10)) for _ in range(900)))
        await asyncio.gather(*(append.done for append in appends))

        append = await buffer.append(page(*[b"x"] * 700))
        await append.done

        assert buffer.logs[0].records == 900
        assert buffer.logs[0].earliest == 700
        assert buffer.logs[0].head.dropped == ((DropReason.OVERFLOW, 700),)


async def test_an_append_that_waits_for_room_is_not_overtaken() -> None:
    store = HeldStore()
    settings: dict[str, Any] = {"overflow": Overflow.DROP_OLDEST, "max_disk_cache": 2, "buffer_page_size": 1}
    async with sink(store, **settings) as buffer:
        store.hold()
        queued = [await buffer.append(page(b"x" * 10)) for _ in range(2)]
        order: list[str] = []
        large = asyncio.ensure_future(noted(order, "large", buffer.append(page(b"a", b"b"))))
        small = asyncio.ensure_future(noted(order, "small", buffer.append(page(b"c"))))
        await store.reached()
        waiting = (large.done(), small.done())
        store.let_go()
        await asyncio.gather(*(append.done for append in [*queued, await large, await small]))

        assert waiting == (False, False)
        assert order == ["large", "small"]
        assert usage(buffer.logs)[0] <= 3


async def noted(order: list[str], name: str, append: Any) -> Append:
    """Await an append and note that it was taken in."""
    found: Append = await append
    order.append(name)
    return found


async def test_an_append_that_is_no_longer_wanted_after_its_wait_is_not_queued() -> None:
    store = HeldStore()
    settings: dict[str, Any] = {"overflow": Overflow.DROP_OLDEST, "max_disk_cache": 1, "buffer_page_size": 1}

    def changed_its_mind() -> None:
        raise KeyError("fenced meanwhile")

    async with sink(store, **settings) as buffer:
        store.hold()
        queued = await buffer.append(page(b"a"))
        waiting = asyncio.ensure_future(buffer.append(page(b"b"), check=changed_its_mind))
        await store.reached()
        store.let_go()
        with pytest.raises(KeyError):
            await waiting
        await queued.done

        assert buffer.logs[0].next_offset == 1


async def test_an_append_that_waits_while_the_sink_is_deleted_is_refused() -> None:
    store = HeldStore()
    settings: dict[str, Any] = {"overflow": Overflow.DROP_OLDEST, "max_disk_cache": 1}
    async with sink(store, **settings) as buffer:
        store.hold()
        queued = await buffer.append(page(b"a"))
        waiting = asyncio.ensure_future(buffer.append(page(b"b")))
        await store.reached()
        deleting = asyncio.ensure_future(buffer.delete())
        await asyncio.sleep(0)
        store.let_go()
        with pytest.raises(SinkNotFound):
            await waiting
        await asyncio.gather(queued.done, deleting)


async def test_a_gap_states_what_it_removes_and_the_time() -> None:
    clock = FakeClock()
    async with sink(clock=clock, overflow=Overflow.DROP_OLDEST, max_disk_cache=1, buffer_page_size=1) as buffer:
        await fill(buffer, 1)
        clock.advance(1.0)
        await fill(buffer, 1)

        assert buffer.logs[0].gaps == (Gap(0, 1, DropReason.OVERFLOW, clock.wall, TEN, 1),)


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_a_hole_in_the_index_that_a_full_sink_meets_is_no_reason_to_wait(overflow: Overflow) -> None:
    store = MemoryStore()
    async with sink(store, overflow=overflow, buffer_page_size=1, max_disk_cache=600) as buffer:
        await fill(buffer, 600)  # too many for all entries to be in memory
        [log], number = buffer.logs, buffer.record.id
        [first] = store.scan(Family.INDEX, *ENTRY.between(number, 0, first=0, end=1), 1)
        page_number = decode_entry(first[1], 0).number
        store.write([Delete(Family.INDEX, first[0]), Delete(Family.SMALL, SMALL_PAGE.key(number, 0, page_number))])

        async with asyncio.timeout(20):
            if overflow is Overflow.REJECT:
                with pytest.raises(SinkFull):
                    await fill(buffer, 1)
                while log.gap_at(0) is None:
                    await buffer.state.changed.next().wait()
            await fill(buffer, 1)

        assert log.records <= 600
        assert log.tail.next_offset == 601
