from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.broker.core.errors import RecordTooLarge, SinkFull, SinkNotFound, SubscriptionNotFound, TooManyWaiting
from holdfast.broker.core.limits import usage
from holdfast.broker.core.pages import DropReason, Gap
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.settings import Overflow, SinkSettings
from holdfast.broker.runtime.broker import Bounds
from holdfast.broker.runtime.buffer import Buffer
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.runtime.group import Append
from holdfast.broker.storage.memory import MemoryStore
from tests.unit.broker.running import running
from tests.unit.broker.runtime.held_store import HeldStore
from tests.unit.broker.runtime.taker import Taker
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio
TEN = len(page(b"x" * 10).body)
"""Bytes of a page with one record of ten bytes."""


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, clock: FakeClock | None = None, bounds: Bounds | None = None, **settings: Any
) -> AsyncIterator[Buffer]:
    async with running(store, clock, bounds=bounds) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**settings))
        yield buffer


async def fill(buffer: Buffer, pages: int, *, partition: int = 0) -> None:
    """Append pages of one ten-byte record each."""
    for _ in range(pages):
        append = await buffer.append(page(b"x" * 10, partition=partition))
        await append.done


def bases(buffer: Buffer, partition: int = 0) -> list[int]:
    return [entry.base for entry in buffer.logs[partition].first_entries()]


async def test_appends_of_a_partition_follow_each_other_whoever_makes_them() -> None:
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


async def test_the_brokers_bound_on_waiting_bytes_holds_for_every_sink() -> None:
    store = HeldStore()
    async with sink(store, bounds=Bounds(waiting_bytes=100)) as buffer:
        store.hold()
        queued = await buffer.append(page(b"x" * 80))

        with pytest.raises(TooManyWaiting):
            await buffer.append(page(b"x" * 80))
        store.let_go()
        await queued.done


async def test_a_gap_tells_what_it_takes_away_and_when() -> None:
    clock = FakeClock()
    async with sink(clock=clock, overflow=Overflow.DROP_OLDEST, max_disk_cache=1, buffer_page_size=1) as buffer:
        await fill(buffer, 1)
        clock.advance(1.0)
        await fill(buffer, 1)

        assert buffer.logs[0].gaps == (Gap(0, 1, DropReason.OVERFLOW, clock.wall, TEN, 1),)


async def test_new_settings_hold_from_the_next_append_on() -> None:
    async with sink(max_disk_cache=1) as buffer:
        await fill(buffer, 1)
        await buffer.change(buffer.settings.changed({"max_disk_cache": 2, "ack_deadline_us": 5_000_000}))

        await fill(buffer, 1)

        assert buffer.subscription("").lanes[0].settings.ack_deadline_us == 5_000_000
        with pytest.raises(SinkFull):
            await fill(buffer, 1)


async def test_appends_go_on_while_deliveries_are_stopped() -> None:
    async with sink() as buffer:
        await buffer.stop("the target is away")
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))

        held_back = await taker.take()
        await buffer.resume()

        assert held_back is None
        assert await taker.take() is not None


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

        assert buffer.pending == 1
